package golden

import (
	"fmt"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// estimatorMethods are the file's cases of what feeds a loss.
var estimatorMethods = map[string]func(c *lossCase) error{
	"apl_update": func(c *lossCase) error {
		a, err := label.NewAPL(c.host("labels"), c.wide(), label.APLConfig{
			Theta: c.hyper.get("theta").number(), Epochs: c.hyper.get("T").whole(), Warmup: c.hyper.get("Tw").whole(),
		})
		if err != nil {
			return err
		}
		c.out["per_class_quota"] = a.Quota()
		for _, e := range []string{"a", "b"} {
			if _, err := a.Update(c.host("preds_epoch_" + e)); err != nil {
				return err
			}
			c.out["labels_after_"+e] = plain(a.Labels)
		}
		return nil
	},
	"en_select": func(c *lossCase) error {
		m, err := label.ExpectedNegatives(c.host("ema"), c.host("obs"), c.hyper.get("n_pos").wholes())
		c.out["neg_mask"] = m
		return err
	},
	"ema_update": func(c *lossCase) error {
		// The file's start is any table, so the average is loaded with it.
		init := c.host("init")
		a, err := label.NewScoreAverage(init, c.wide(), c.hyper.get("mu").number())
		if err != nil {
			return err
		}
		if err := a.LoadState(label.State{Tensors: map[string]*torch.Tensor{"h": init}, Numbers: map[string]float64{"visits": 0}}); err != nil {
			return err
		}
		for i := 1; c.inputs.has(fmt.Sprintf("step%d", i)); i++ {
			step := c.inputs.get(fmt.Sprintf("step%d", i))
			if err := a.Update(step.get("rows").wholes(), step.get("p").tensor(c.wide())); err != nil {
				return err
			}
			c.out[fmt.Sprintf("after%d", i)] = plain(a.H)
		}
		return nil
	},
	"mime_update": func(c *lossCase) error {
		preds := c.inputs.get("preds").tensor(torch.Float64)
		t, err := label.NewThreshold(c.host("labels"), c.hyper.get("theta").number(), 1)
		if err != nil {
			return err
		}
		rows := make([]int, preds.Size(0))
		for i := range rows {
			rows[i] = i
		}
		c.out["labels"] = t.Labels
		return t.Update(rows, preds)
	},
	"gr_schedule": func(c *lossCase) error {
		h := c.hyper
		s := loss.Points{
			Start:  loss.Point{W: h.get("w0").number(), B: h.get("b0").number(), Mu: h.get("mu0").number(), Sigma: h.get("sigma0").number()},
			End:    loss.Point{W: h.get("wT").number(), B: h.get("bT").number(), Mu: h.get("muT").number(), Sigma: h.get("sigmaT").number()},
			Epochs: h.get("T").whole(), Frozen: int(h.num("n0", h.num("linear_init_n", 0))), Paper: c.variant == "paper",
		}
		if err := s.Check(); err != nil {
			return err
		}
		var rows []map[string]any
		for e := 1; e <= s.Epochs; e++ {
			p := s.At(e)
			rows = append(rows, map[string]any{"epoch": e, "w": p.W, "b": p.B, "mu": p.Mu, "sigma": p.Sigma})
		}
		c.out["rows"] = rows
		return nil
	},
	"lac_queue": func(c *lossCase) error {
		q, err := label.NewQueue(c.hyper.get("K").whole(), 1, torch.Float32, c.hyper.text("mode", c.variant) == "code")
		if err != nil {
			return err
		}
		var after []any
		for _, push := range c.inputs.get("pushes").list() {
			l := push.tensor(torch.Int64)
			if _, err := q.Push(torch.Zeros(torch.S(l.Size(0), 2, 1), torch.Float32), l); err != nil {
				return err
			}
			after = append(after, plain(q.Labels))
		}
		c.out["labels_after_each_push"] = after
		return nil
	},
	"vlpl_pseudo": func(c *lossCase) error {
		h := c.hyper
		pl, s, err := label.VLPL(c.host("cos"), h.get("tau").number(), h.get("theta").number(), h.num("delta", 0))
		c.out["softmax"], c.out["pl"] = s, pl
		return err
	},
	"damp_pseudo": func(c *lossCase) error {
		h := c.hyper
		form := label.DAMPCount
		if h.num("neg_value", -1) == 0 {
			form = label.DAMPCode
		}
		r, err := label.DAMP(c.host("cos_global"), c.host("cos_local"), c.host("obs"), label.DAMPConfig{
			Tau: h.get("tau").number(), Nu: h.get("nu").number(), TopK: h.get("topk").whole(), Zeta: h.get("zeta").number(),
			Negative: h.get("neg_ratio").number(), Form: form,
		})
		if err != nil {
			return err
		}
		c.out["s_final"], c.out["s_avg"], c.out["pl"] = r.Final, r.Average, r.Pseudo
		return nil
	},
}

// host reads an input that an estimator keeps: on the CPU.
func (c *lossCase) host(name string) *torch.Tensor { return c.inputs.get(name).tensor(c.wide()) }
