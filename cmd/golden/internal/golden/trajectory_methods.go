package golden

import (
	"fmt"
	"strings"

	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/torch"
)

// family is the code base a run was recorded with; each records other things of an epoch.
type family int

const (
	cole   family = iota // elijahcole/single-positive-multi-label
	em                   // SPML-AckTheUnknown
	vlpl                 // VLPL
	robust               // large loss, GR, AEVLP: mAP only, early stop
)

// method is what one file's method adds to the linear layer.
type method struct {
	family family
	loss   func(epoch int, rows []int, z *torch.Tensor) (*torch.Tensor, error)
	after  func(epoch int, rec map[string]any) error // adds to the epoch's record
	stop   func(maps []float64) bool
	end    func(out map[string]any) error // adds to the run
}

func newMethod(p *problem, name string) (method, error) {
	switch {
	case name == "EM_APL":
		return p.emAPL()
	case name == "ROLE":
		return p.role()
	case name == "EPR":
		return p.epr()
	case strings.HasPrefix(name, "LL-"):
		return p.largeLoss(name)
	case name == "GR", name == "GPR":
		return p.robust(name)
	case strings.HasPrefix(name, "VLPL"):
		return p.vlpl()
	}
	set := loss.Values{}
	h := p.hyper
	m := method{family: cole}
	switch name {
	case "EM":
		m.family = em
		set["alpha"] = h.get("alpha").number()
	case "AN-LS", "LS", "N-LS":
		set["ls_coef"] = h.get("ls_coef").number()
	case "AN", "WAN", "IUN", "BCE":
	default:
		return m, fmt.Errorf("unknown method %s", name)
	}
	l, err := p.make(name, set)
	m.loss = func(_ int, rows []int, z *torch.Tensor) (*torch.Tensor, error) {
		return l.Value(loss.Batch{Logits: z, Observed: p.pick(p.observed, rows), Full: p.pick(p.labels, rows)})
	}
	return m, err
}

func (p *problem) make(id string, set loss.Values) (loss.Loss, error) {
	return loss.New(id, "", set, p.o.form(id, loss.Options{LogEps: p.eps}))
}

func (p *problem) epr() (method, error) {
	l, err := p.make("epr", loss.Values{"k": p.hyper.get("expected_num_pos").number()})
	var reg []any
	return method{
		family: cole,
		loss: func(_ int, rows []int, z *torch.Tensor) (*torch.Tensor, error) {
			return l.Value(loss.Batch{Logits: z, Observed: p.pick(p.observed, rows), Report: collect("reg", &reg)})
		},
		end: func(out map[string]any) error { out["regulariser_per_step"] = reg; return nil },
	}, err
}

func collect(part string, to *[]any) func(string, *torch.Tensor) {
	return func(name string, v *torch.Tensor) {
		if name == part {
			*to = append(*to, v.Item())
		}
	}
}

func (p *problem) role() (method, error) {
	l, err := p.make("role", loss.Values{"k": p.hyper.get("expected_num_pos").number()})
	if err != nil {
		return method{}, err
	}
	u, err := p.array("role_logits0")
	if err != nil {
		return method{}, err
	}
	table, err := label.RoleFromLogits(u)
	if err != nil {
		return method{}, err
	}
	if err := table.AddGroup(p.optimizer, p.hyper.get("lr_label_table").number()/label.RoleLRFactor); err != nil {
		return method{}, err
	}
	var reg []any
	return method{
		family: cole,
		loss: func(_ int, rows []int, z *torch.Tensor) (*torch.Tensor, error) {
			u, err := table.Lookup(rows)
			if err != nil {
				return nil, err
			}
			return l.Value(loss.Batch{Logits: z, Observed: p.pick(p.observed, rows), Estimate: u, Report: collect("reg", &reg)})
		},
		after: func(_ int, rec map[string]any) error { rec["estimated_labels"] = table.Estimates(); return nil },
		end:   func(out map[string]any) error { out["regulariser_per_step"] = reg; return nil },
	}, nil
}

func (p *problem) emAPL() (method, error) {
	h := p.hyper
	l, err := p.make("em-apl", loss.Values{"alpha": h.get("alpha").number(), "beta": h.get("beta").number()})
	if err != nil {
		return method{}, err
	}
	apl, err := label.NewAPL(p.observed, p.dtype, label.APLConfig{
		Theta: h.get("neg_proportion").number(), Epochs: int(h.num("num_epochs", float64(p.epochs))), Warmup: h.get("warmup_epoch").whole(), BatchSize: p.batch,
	})
	return method{
		family: em,
		loss: func(_ int, rows []int, z *torch.Tensor) (*torch.Tensor, error) {
			return l.Value(loss.Batch{Logits: z, Labels: p.pick(apl.Labels, rows)})
		},
		after: func(e int, rec map[string]any) error {
			if apl.Due(e) {
				if _, err := apl.Update(p.scores(p.x)); err != nil {
					return err
				}
			}
			rec["label_matrix_after_apl"] = apl.Labels
			rec["negatives_assigned_so_far"] = apl.Labels.LtScalar(0).Sum().ItemInt()
			return nil
		},
	}, err
}

func (p *problem) largeLoss(name string) (method, error) {
	h := p.hyper
	scheme := h.text("mod_scheme", name)
	semantics := loss.Reference
	if h.num("identity_comparison_repaired", 0) == 0 {
		semantics = loss.Released
	}
	l, err := p.make(scheme, loss.Values{"delta_rel": h.get("delta_rel").number(), "semantics": float64(semantics)})
	if err != nil {
		return method{}, err
	}
	table, err := label.NewLargeLoss(p.observed)
	var corrections []any
	return method{
		family: robust,
		loss: func(e int, rows []int, z *torch.Tensor) (*torch.Tensor, error) {
			y, err := table.Lookup(rows)
			if err != nil {
				return nil, err
			}
			var flips *torch.Tensor
			v, err := l.Value(loss.Batch{Logits: z, Observed: y, Epoch: e, Report: func(part string, t *torch.Tensor) {
				switch part {
				case "permanent_flips":
					flips = t
				case "corrections":
					corrections = append(corrections, plain(t.Nonzero().T()))
				}
			}})
			if err != nil {
				return nil, err
			}
			return v, table.Flip(rows, flips)
		},
		after: func(_ int, rec map[string]any) error {
			rec["labels_flipped_so_far"] = table.Labels.ToDType(p.dtype).Ne(p.observed).Nonzero()
			return nil
		},
		stop: dropped(3, 0),
		end: func(out map[string]any) error {
			if scheme == "LL-Cp" {
				out["correction_index_per_step"] = corrections
			}
			return nil
		},
	}, err
}

// dropped stops when the last mAP is more than points below the best, or after a number of epochs in a row without a better one (0 = never).
func dropped(points float64, patience int) func([]float64) bool {
	return func(maps []float64) bool {
		best, since := maps[0], 0
		for _, v := range maps[1:] {
			if v > best {
				best, since = v, 0
			} else {
				since++
			}
		}
		return best-maps[len(maps)-1] > points || patience > 0 && since >= patience
	}
}

func (p *problem) robust(name string) (method, error) {
	h := p.hyper
	wb, ms, q := h.get("beta_w0_wT_b0_bT").list(), h.get("alpha_mu0_sigma0_muT_sigmaT").list(), h.get("q2q3").list()
	set := loss.Values{
		"w0": wb[0].number(), "wT": wb[1].number(), "b0": wb[2].number(), "bT": wb[3].number(),
		"mu0": ms[0].number(), "sigma0": ms[1].number(), "muT": ms[2].number(), "sigmaT": ms[3].number(),
		"epochs": float64(p.epochs), "frozen": h.num("linear_init_n", 0), "q2": q[0].number(), "q3": q[1].number(),
	}
	m := method{family: robust, stop: dropped(2, 0)}
	pseudo := p.observed.ZerosLike()
	if name == "GPR" {
		m.stop = dropped(2, 2)
		// lam_1 is the upper bound; eta is ν; reg is η.
		set["lam_hi"], set["lam_lo"], set["rho"] = h.get("lam_1").number(), h.get("lam_2").number(), h.get("rho").number()
		set["eta"], set["m_pos"] = h.get("reg").number(), h.get("expected_num_pos").number()
		cos, err := p.array("damp_cosines")
		if err != nil {
			return m, err
		}
		r, err := label.DAMP(cos.Select(1, 0), cos.Slice(1, 1, cos.Size(1), 1).Transpose(0, 1), p.observed, label.DAMPConfig{
			Tau: h.get("temp").number(), Nu: h.get("eta").number(), TopK: h.get("top_k").whole(), Zeta: h.get("threshold").number(),
			Negative: h.get("negative_ratio").number(), Form: label.DAMPCode,
		})
		if err != nil {
			return m, err
		}
		pseudo = r.Pseudo
		m.after = func(_ int, rec map[string]any) error { rec["pseudo_labels"] = pseudo; return nil }
		m.end = func(out map[string]any) error {
			line := p.pseudoQuality(pseudo)
			var lines []any
			for range out["epochs"].([]any) {
				lines = append(lines, line)
			}
			out["pseudo_label_quality_printed"] = lines
			return nil
		}
	}
	l, err := p.make(name, set)
	m.loss = func(e int, rows []int, z *torch.Tensor) (*torch.Tensor, error) {
		return l.Value(loss.Batch{Logits: z, Observed: p.pick(p.observed, rows), Pseudo: p.pick(pseudo, rows), Epoch: e})
	}
	return m, err
}

// pseudoQuality is the line that AEVLP's code prints, whose f1 is half of F1.
func (p *problem) pseudoQuality(pseudo *torch.Tensor) string {
	free := p.observed.EqScalar(0)
	given, true_ := pseudo.EqScalar(1).LogicalAnd(free), p.labels.EqScalar(1).LogicalAnd(free)
	count := func(t *torch.Tensor) float64 { return float64(t.Sum().ItemInt()) }
	tp, n, all := count(given.LogicalAnd(true_)), count(given), count(true_)
	ratio := func(a, b float64) float64 {
		if b == 0 {
			return 0
		}
		return 100 * a / b
	}
	return fmt.Sprintf("Pseudo-labeling Performance: precision %.3f, recall %.3f, f1 %.3f", ratio(tp, n), ratio(tp, all), ratio(tp, n+all))
}

func (p *problem) vlpl() (method, error) {
	h := p.hyper
	image, err := p.array("clip_image")
	if err != nil {
		return method{}, err
	}
	text, err := p.array("clip_text")
	if err != nil {
		return method{}, err
	}
	image = image.Div(image.VectorNorm(2, []int{1}, true)) // the stored texts have unit norm, and are not normalised again
	share := 0.0
	if h.text("arch_branch", "") == "clip_vision" {
		share = h.num("partial", 0)
	}
	pseudo, similarity, err := label.VLPL(image.Matmul(text.T()), h.get("tau").number(), h.get("theta").number(), share)
	if err != nil {
		return method{}, err
	}
	l, err := p.make("vlpl", loss.Values{"alpha": h.get("alpha").number(), "beta_pos": h.get("beta_pos").number(), "rho": h.get("rho").number()})
	return method{
		family: vlpl,
		loss: func(_ int, rows []int, z *torch.Tensor) (*torch.Tensor, error) {
			return l.Value(loss.Batch{Logits: z, Observed: p.pick(p.observed, rows), Pseudo: p.pick(pseudo, rows)})
		},
		end: func(out map[string]any) error {
			out["pseudo_labels"], out["similarity_first_rows"] = pseudo, similarity.Slice(0, 0, min(8, p.n), 1)
			out["pseudo_positive_count"], out["pseudo_negative_count"] = pseudo.EqScalar(1).Sum().ItemInt(), pseudo.EqScalar(-1).Sum().ItemInt()
			return nil
		},
	}, err
}
