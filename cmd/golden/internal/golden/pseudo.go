package golden

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// pseudoLabels are pseudo-label generators and schedules: sections damp, vlpl, schedule, apl, gcn.
type pseudoLabels struct{}

func (pseudoLabels) Name() string { return "pseudo-labels" }

var pseudoSections = map[string]func(n node, dtype torch.DType) (out map[string]any, err error){
	"schedule": pseudoSchedule, "apl": pseudoAPL, "vlpl": pseudoVLPL, "damp": pseudoDAMP,
}

func (pseudoLabels) Detect(top map[string]any) bool {
	for name := range pseudoSections {
		if _, ok := top[name].([]any); ok {
			return true
		}
	}
	return false
}

func (pseudoLabels) each(f *File, o Options, unknown func(section string), do func(section, id string, n node, out map[string]any, err error) error) error {
	dtype := torch.Float64
	if o.DType != torch.Float64 {
		dtype = torch.Float32
	}
	for _, s := range keys(f.Top) {
		run, ok := pseudoSections[s]
		switch {
		case s == "about" || s == "notes":
			continue
		case !ok:
			unknown(s)
			continue
		}
		l, ok := f.Top[s].([]any)
		if !ok {
			return fmt.Errorf("%s: section %s is no list", f.Path, s)
		}
		for i, v := range l {
			n := node{fmt.Sprintf("%s/%d", s, i), v}
			var out map[string]any
			err := guard(func() (err error) {
				torch.Scope(func(*torch.Arena) {
					if out, err = run(n, dtype); err == nil {
						out = plain(out).(map[string]any)
					}
				})
				return err
			})
			if err := do(s, n.at, n, out, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// pseudoInputs are the names of a case that are no results.
var pseudoInputs = []string{
	"name", "params", "observed_class", "cosines", "cosine", "tau", "theta", "delta", "epochs_T", "linear_init_n", "beta_w0_wT_b0_bT",
	"alpha_mu0_sigma0_muT_sigmaT", "p_grid", "seed", "N", "C", "rounds", "epochs", "warmup", "batch", "observed", "predictions",
}

// pseudoSinglePrecision are results that the files have in float32 even where the rest is float64.
var pseudoSinglePrecision []string

func (k pseudoLabels) Check(f *File, o Options, r *Report) error {
	tol := Tolerance{1e-8, 1e-8}
	if o.DType != torch.Float64 {
		tol = Tolerance{1e-5, 1e-4}
	}
	return k.each(f, o, r.Skip, func(section, id string, n node, out map[string]any, err error) error {
		if err == nil {
			want := map[string]any{}
			for name, v := range n.object() {
				if !slices.Contains(pseudoInputs, name) {
					want[name] = v
				}
			}
			if len(want) == 0 {
				err = fmt.Errorf("nothing is expected of it")
			} else {
				err = Compare(want, out, func(path string) Tolerance {
					if slices.ContainsFunc(pseudoSinglePrecision, func(p string) bool { return strings.HasPrefix(path, p) }) {
						return Tolerance{1e-5, 1e-4}
					}
					return tol
				})
			}
		}
		r.Case(section, id, err)
		return nil
	})
}

func (k pseudoLabels) Eval(f *File, o Options, emit func(string, any) error) error {
	var unknown error
	err := k.each(f, o, func(s string) { unknown = fmt.Errorf("%s: unknown section %s", f.Path, s) }, func(_, id string, _ node, out map[string]any, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		return emit(id, out)
	})
	if err == nil {
		err = unknown
	}
	return err
}

func pseudoSchedule(n node, dtype torch.DType) (map[string]any, error) {
	wb, ms := n.get("beta_w0_wT_b0_bT").list(), n.get("alpha_mu0_sigma0_muT_sigmaT").list()
	if len(wb) != 4 || len(ms) != 4 {
		n.fail("want four numbers each for w, b and for μ, σ")
	}
	s := loss.Points{
		Start:  loss.Point{W: wb[0].number(), B: wb[2].number(), Mu: ms[0].number(), Sigma: ms[1].number()},
		End:    loss.Point{W: wb[1].number(), B: wb[3].number(), Mu: ms[2].number(), Sigma: ms[3].number()},
		Epochs: n.get("epochs_T").whole(), Frozen: int(n.num("linear_init_n", 0)),
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	p := n.get("p_grid").tensor(dtype)
	var rows []map[string]any
	for e := 1; e <= s.Epochs; e++ {
		at := s.At(e)
		rows = append(rows, map[string]any{"epoch": e, "w": at.W, "b": at.B, "mu": at.Mu, "sigma": at.Sigma, "k_of_p": at.K(p), "v_of_p": at.V(p)})
	}
	return map[string]any{"per_epoch": rows}, nil
}

func pseudoAPL(n node, dtype torch.DType) (map[string]any, error) {
	a, err := label.NewAPL(n.get("observed").tensor(dtype), dtype, label.APLConfig{
		Theta: n.get("theta").number(), Epochs: n.get("epochs").whole(), Warmup: n.get("warmup").whole(), BatchSize: int(n.num("batch", 0)),
	})
	if err != nil {
		return nil, err
	}
	var after []any
	for _, p := range n.get("predictions").list() {
		if _, err := a.Update(p.tensor(dtype)); err != nil {
			return nil, err
		}
		after = append(after, plain(a.Labels))
	}
	return map[string]any{"labels_after_round": after}, nil
}

func pseudoVLPL(n node, dtype torch.DType) (map[string]any, error) {
	cos, tau, theta := n.get("cosine").tensor(dtype), n.get("tau").number(), n.get("theta").number()
	only, s, err := label.VLPL(cos, tau, theta, 0)
	if err != nil {
		return nil, err
	}
	with, _, err := label.VLPL(cos, tau, theta, n.num("delta", 0))
	return map[string]any{"similarity": s, "pseudo_positives_only": only, "pseudo_with_negatives": with}, err
}

// observedRows are the observed labels [B, classes] of photos by their class; -1 is none.
func observedRows(n node, classes int) *torch.Tensor {
	var flat []int64
	for _, c := range n.wholes() {
		if c < -1 || c >= classes {
			n.fail("class %d of %d; -1 is none", c, classes)
		}
		row := make([]int64, classes)
		if c >= 0 {
			row[c] = 1
		}
		flat = append(flat, row...)
	}
	return torch.FromSlice(flat, len(flat)/classes, classes)
}

func pseudoDAMP(n node, dtype torch.DType) (map[string]any, error) {
	cos, p := n.get("cosines").tensor(dtype), n.get("params") // [B, 1+g², C]
	observed := observedRows(n.get("observed_class"), cos.Size(2))
	r, err := label.DAMP(cos.Select(1, 0), cos.Slice(1, 1, cos.Size(1), 1).Transpose(0, 1), observed, label.DAMPConfig{
		Tau: p.get("tau").number(), Nu: p.get("nu").number(), TopK: p.get("k").whole(), Zeta: p.get("zeta_global").number(),
		Negative: p.get("delta_neg").number(), Form: label.DAMPCode,
	})
	if err != nil {
		return nil, err
	}
	positives := r.Pseudo.EqScalar(1).Sum().ItemInt()
	return map[string]any{
		"pseudo_labels": r.Pseudo, "pseudo_labels_before_negatives": r.Before, "positives": positives,
		"cancelled_by_negatives": r.Before.EqScalar(1).Sum().ItemInt() - positives,
	}, nil
}
