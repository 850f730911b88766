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

// method is what a file of one method has beside the steps, which are the trainer's.
type method struct {
	family family
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
	return m, p.use(name, set, nil)
}

// use lets the steps be those of a loss and what feeds it; nil: nothing does.
func (p *problem) use(id string, set loss.Values, feeds label.Estimator) (err error) {
	if feeds != nil {
		p.stepper.Estimator = feeds
	}
	p.stepper.Loss, err = loss.New(id, "", set, p.o.form(id, loss.Options{LogEps: p.eps}))
	return err
}

// collect keeps a part of each step's loss.
func (p *problem) collect(part string, value func(*torch.Tensor) any) *[]any {
	to := &[]any{}
	p.stepper.Report = func(name string, v *torch.Tensor) {
		if name == part {
			*to = append(*to, value(v))
		}
	}
	return to
}

func item(v *torch.Tensor) any { return v.Item() }

func (p *problem) epr() (method, error) {
	reg := p.collect("reg", item)
	return method{family: cole, end: func(out map[string]any) error { out["regulariser_per_step"] = *reg; return nil }},
		p.use("epr", loss.Values{"k": p.hyper.get("expected_num_pos").number()}, nil)
}

func (p *problem) role() (method, error) {
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
	reg := p.collect("reg", item)
	return method{
		family: cole,
		after:  func(_ int, rec map[string]any) error { rec["estimated_labels"] = table.Estimates(); return nil },
		end:    func(out map[string]any) error { out["regulariser_per_step"] = *reg; return nil },
	}, p.use("role", loss.Values{"k": p.hyper.get("expected_num_pos").number()}, table)
}

func (p *problem) emAPL() (method, error) {
	h := p.hyper
	apl, err := label.NewAPL(p.observed, p.dtype, label.APLConfig{
		Theta: h.get("neg_proportion").number(), Epochs: int(h.num("num_epochs", float64(p.epochs))), Warmup: h.get("warmup_epoch").whole(), BatchSize: p.batch,
	})
	if err != nil {
		return method{}, err
	}
	return method{
		family: em,
		after: func(e int, rec map[string]any) error {
			if apl.Due(e) { // the file has the round after the last epoch too
				if _, err := apl.Update(p.scores(p.x)); err != nil {
					return err
				}
			}
			rec["label_matrix_after_apl"] = apl.Labels
			rec["negatives_assigned_so_far"] = apl.Labels.LtScalar(0).Sum().ItemInt()
			return nil
		},
	}, p.use("em-apl", loss.Values{"alpha": h.get("alpha").number(), "beta": h.get("beta").number()}, apl)
}

func (p *problem) largeLoss(name string) (method, error) {
	h := p.hyper
	scheme := h.text("mod_scheme", name)
	semantics := loss.Reference
	if h.num("identity_comparison_repaired", 0) == 0 {
		semantics = loss.Released
	}
	table, err := label.NewLargeLoss(p.observed)
	if err != nil {
		return method{}, err
	}
	corrections := p.collect("corrections", func(t *torch.Tensor) any { return plain(t.Nonzero().T()) })
	return method{
		family: robust,
		after: func(_ int, rec map[string]any) error {
			rec["labels_flipped_so_far"] = table.Labels.ToDType(p.dtype).Ne(p.observed).Nonzero()
			return nil
		},
		stop: dropped(3, 0),
		end: func(out map[string]any) error {
			if scheme == "LL-Cp" {
				out["correction_index_per_step"] = *corrections
			}
			return nil
		},
	}, p.use(scheme, loss.Values{"delta_rel": h.get("delta_rel").number(), "semantics": float64(semantics)}, table)
}

// dropped stops when the last mAP is more than points below the best, or after a number of epochs in a row without a
// better one (0 = never).
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
	return m, p.use(name, set, &label.Given{Pseudo: pseudo})
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
	return method{
		family: vlpl,
		end: func(out map[string]any) error {
			out["pseudo_labels"], out["similarity_first_rows"] = pseudo, similarity.Slice(0, 0, min(8, p.n), 1)
			out["pseudo_positive_count"], out["pseudo_negative_count"] = pseudo.EqScalar(1).Sum().ItemInt(), pseudo.EqScalar(-1).Sum().ItemInt()
			return nil
		},
	}, p.use("vlpl", loss.Values{"alpha": h.get("alpha").number(), "beta_pos": h.get("beta_pos").number(), "rho": h.get("rho").number()}, &label.Given{Pseudo: pseudo})
}
