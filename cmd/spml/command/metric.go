package command

import (
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/internal/atomicfile"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/metric/scorefile"
)

// metricFlags are the choices of `spml metric`.
type metricFlags struct {
	ap, method, against, observed, pseudo string
	reliability                           string
	thresholds                            []float64
	k                                     []int
	bins, replicates                      int
	level                                 float64
	seed                                  uint32
	byClass, asJSON, logits, best         bool
}

func newMetric() *cobra.Command {
	var f metricFlags
	cmd := &cobra.Command{
		Use:   "metric SCORES LABELS",
		Short: "Score a matrix of predictions: mAP, F1, ranking, calibration",
		Long: `Computes the metrics of multi-label papers from two matrices of images × classes: .npy, .npz, .safetensors or .csv.
A label of 1 is positive; 0 and -1 are not. An archive with several arrays wants the name of one after a colon.

  spml metric scores.npy labels.npy                          the table
  spml metric run.npz:scores run.npz:labels --by-class       and each class
  spml metric em.npy labels.npy --method em --json           predictions at the threshold of that method (0.75)
  spml metric logits.npy labels.npy --logits                 probabilities by a sigmoid, for thresholds and calibration
  spml metric a.npy labels.npy --bootstrap 1000              intervals over images
  spml metric a.npy labels.npy --against b.npy               is b better than a, on the same resampled images?
  spml metric scores.npy labels.npy --observed observed.npy  how far hidden positives are from true negatives`,
		Args: exactly(2, "a file of scores and one of labels"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd.Flags().Changed); err != nil {
				return err
			}
			scores, err := scorefile.Read(args[0])
			if err != nil {
				return err
			}
			if scores.Single != nil {
				return metricOf(cmd.OutOrStdout(), f, scores, args[1], func(m *scorefile.Matrix) []float32 {
					if m.Single != nil {
						return m.Single
					}
					s := make([]float32, len(m.Double))
					for i, v := range m.Double {
						s[i] = float32(v)
					}
					return s
				})
			}
			return metricOf(cmd.OutOrStdout(), f, scores, args[1], func(m *scorefile.Matrix) []float64 {
				if m.Double != nil {
					return m.Double
				}
				s := make([]float64, len(m.Single))
				for i, v := range m.Single {
					s[i] = float64(v)
				}
				return s
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.ap, "ap", string(metric.Step), "form of average precision: step, rank, openimages or voc2007")
	fl.Float64SliceVar(&f.thresholds, "threshold", []float64{0.5}, "a score above it is a prediction; one, or one for each class")
	fl.StringVar(&f.method, "method", "", "use the threshold of this method's papers")
	fl.BoolVar(&f.best, "best-thresholds", false, "add each class's threshold with the highest F1 on these scores (choose on validation, use on test)")
	fl.IntSliceVar(&f.k, "k", nil, "precision and recall at these numbers of classes (default 1, 3, 5)")
	fl.IntVar(&f.bins, "bins", 15, "bins of the calibration error")
	fl.StringVar(&f.reliability, "reliability", "", "draw the reliability diagram of the --bins into this .svg file")
	fl.BoolVar(&f.logits, "logits", false, "the scores are logits: apply a sigmoid first")
	fl.IntVar(&f.replicates, "bootstrap", 0, "add intervals from this many resamples of the images")
	fl.Float64Var(&f.level, "level", 0.95, "level of the intervals")
	fl.Uint32Var(&f.seed, "seed", 0, "seed of the resampling")
	fl.StringVar(&f.against, "against", "", "scores of another model for the same images: compare mAP in pairs")
	fl.StringVar(&f.observed, "observed", "", "observed labels: add the separation of hidden positives and true negatives (W1)")
	fl.StringVar(&f.pseudo, "pseudo", "", "pseudo-labels, with --observed: add their precision, recall and F1")
	fl.BoolVar(&f.byClass, "by-class", false, "a line for each class")
	fl.BoolVar(&f.asJSON, "json", false, "print JSON")
	return cmd
}

// check refuses what does not go together and completes the rest.
func (f *metricFlags) check(given func(string) bool) error {
	usage := func(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }
	if given("method") {
		if given("threshold") {
			return usage("--method and --threshold both say where a prediction begins: give one")
		}
		m, err := method.Lookup(f.method)
		if err != nil {
			return usageError{err}
		}
		f.thresholds = []float64{m.Present()}
	}
	if _, err := metric.ParseVariant(f.ap); err != nil {
		return usageError{err}
	}
	if f.against != "" && f.replicates == 0 {
		f.replicates = 1000
	}
	switch {
	case f.replicates < 0 || !(f.level > 0 && f.level < 1):
		return usage("--bootstrap wants a number of resamples and --level a share between 0 and 1")
	case f.replicates > 0 && f.ap != string(metric.Step):
		return usage("resampling is for --ap step only")
	case f.best && !f.byClass:
		return usage("--best-thresholds is about classes: add --by-class")
	case f.pseudo != "" && f.observed == "":
		return usage("--pseudo needs --observed: observed positives do not count")
	case f.bins < 1:
		return usage("--bins wants at least 1")
	}
	return nil
}

// metricResult is what --json prints. Classes that are not scored have null.
type metricResult struct {
	metric.Report
	APPerClass []*float64         `json:"ap_per_class"`
	Thresholds []float64          `json:"thresholds"`
	PerClass   []classResult      `json:"per_class,omitempty"`
	Bootstrap  *metric.Interval   `json:"map_interval,omitempty"`
	Comparison *metric.Comparison `json:"comparison,omitempty"`
	Separation *separationResult  `json:"separation,omitempty"`
	Pseudo     *pseudoResult      `json:"pseudo_labels,omitempty"`
}

type classResult struct {
	Class     string   `json:"class"`
	Positives int      `json:"positives"`
	AP        *float64 `json:"ap"`
	metric.PRF
	Threshold     float64          `json:"threshold"`
	Interval      *metric.Interval `json:"ap_interval,omitempty"`
	BestThreshold *float64         `json:"best_threshold,omitempty"`
	BestF1        *float64         `json:"best_f1,omitempty"`
}

type separationResult struct {
	W1        *float64  `json:"w1"`
	Positives []int     `json:"hidden_positives"`
	Negatives []int     `json:"true_negatives"`
	Ratio     []float64 `json:"false_negative_ratio"`
}

type pseudoResult struct {
	metric.PseudoQuality
	Precision float64 `json:"precision"`
	Recall    float64 `json:"recall"`
	F1        float64 `json:"f1"`
}

func number(v float64) *float64 {
	if math.IsNaN(v) {
		return nil
	}
	return &v
}

func metricOf[S metric.Score](out io.Writer, f metricFlags, scores *scorefile.Matrix, labelFile string, values func(*scorefile.Matrix) []S) error {
	matching := func(path string) (*scorefile.Matrix, error) {
		m, err := scorefile.Read(path)
		if err != nil {
			return nil, err
		}
		return scores.Match(m)
	}
	labelsOf := func(path string) ([]int8, error) {
		m, err := matching(path)
		if err != nil {
			return nil, err
		}
		return m.Labels()
	}
	labels, err := labelsOf(labelFile)
	if err != nil {
		return err
	}
	s, c := values(scores), scores.C
	if f.logits {
		s = metric.Sigmoid(s)
	}
	rep, err := metric.Evaluate(s, labels, c, metric.Options{AP: metric.Variant(f.ap), Thresholds: f.thresholds, K: f.k, Bins: f.bins})
	if err != nil {
		return fmt.Errorf("%s: %w", scores.Path, err)
	}
	if f.reliability != "" {
		if rep.Calibration == nil {
			return usageError{errors.New("--reliability wants probabilities; give --logits where the scores are logits")}
		}
		if err := atomicfile.WriteBytes(f.reliability, 0o644, reliabilitySVG(rep.Calibration)); err != nil {
			return err
		}
	}
	res := metricResult{Report: rep, Thresholds: f.thresholds}
	for _, v := range rep.AP {
		res.APPerClass = append(res.APPerClass, number(v))
	}
	if f.byClass {
		for i := range c {
			k := classResult{Class: fmt.Sprint(i), Positives: rep.Counts[i].TP + rep.Counts[i].FN, AP: number(rep.AP[i]), Threshold: rep.Thresholds[i],
				PRF: metric.PRF{Precision: rep.Counts[i].Precision(), Recall: rep.Counts[i].Recall(), F1: rep.Counts[i].F1()}}
			if scores.Classes != nil {
				k.Class = scores.Classes[i]
			}
			res.PerClass = append(res.PerClass, k)
		}
	}
	if f.best {
		at, f1, err := metric.BestThresholds(s, labels, c, rep.Thresholds[0])
		if err != nil {
			return err
		}
		for i := range res.PerClass {
			res.PerClass[i].BestThreshold, res.PerClass[i].BestF1 = &at[i], &f1[i]
		}
	}
	sampling := metric.Resampling{Replicates: f.replicates, Level: f.level, Seed: f.seed}
	if f.replicates > 0 {
		all, per, err := metric.BootstrapMAP(s, labels, c, sampling)
		if err != nil {
			return err
		}
		res.Bootstrap = &all
		for i := range res.PerClass {
			res.PerClass[i].Interval = &per[i]
		}
	}
	if f.against != "" {
		m, err := matching(f.against)
		if err != nil {
			return err
		}
		cmp, err := metric.CompareMAP(s, values(m), labels, c, sampling)
		if err != nil {
			return fmt.Errorf("%s: %w", f.against, err)
		}
		res.Comparison = &cmp
	}
	if f.observed != "" {
		observed, err := labelsOf(f.observed)
		if err != nil {
			return err
		}
		sep, err := metric.Separate(s, labels, observed, 100)
		if err != nil {
			return fmt.Errorf("%s: %w", scores.Path, err)
		}
		res.Separation = &separationResult{number(sep.W1), sep.Positives, sep.Negatives, sep.FalseNegativeRatio()}
		if f.pseudo != "" {
			pseudo, err := labelsOf(f.pseudo)
			if err != nil {
				return err
			}
			var q metric.PseudoQuality
			if err := q.Add(labels, pseudo, observed); err != nil {
				return err
			}
			res.Pseudo = &pseudoResult{q, q.Precision(), q.Recall(), q.F1()}
		}
	}
	if f.asJSON {
		return indented(out, res)
	}
	return printMetrics(out, f, res)
}

func printMetrics(out io.Writer, f metricFlags, r metricResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(format string, args ...any) { plain.Fprintf(w, format+"\n", args...) }
	percent := func(v *float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf("%.2f", 100**v)
	}
	if f.byClass {
		head := "class\tpositives\tAP %%\tprecision\trecall\tF1"
		if f.best {
			head += "\tbest threshold\tits F1"
		}
		if r.Bootstrap != nil {
			head += "\tAP interval"
		}
		row(head)
		for _, c := range r.PerClass {
			line := fmt.Sprintf("%s\t%d\t%s\t%.4f\t%.4f\t%.4f", c.Class, c.Positives, percent(c.AP), c.Precision, c.Recall, c.F1)
			if c.BestThreshold != nil {
				line += fmt.Sprintf("\t%.6g\t%.4f", *c.BestThreshold, *c.BestF1)
			}
			if c.Interval != nil {
				line += fmt.Sprintf("\t%.2f–%.2f", 100*c.Interval.Low, 100*c.Interval.High)
			}
			row("%s", line)
		}
		row("")
		if err := w.Flush(); err != nil {
			return err
		}
	}
	row("images × classes\t%d × %d", r.Images, r.Classes)
	if r.Bootstrap != nil {
		row("mAP (%s)\t%.4f   %.0f %% of resamples: %.2f–%.2f", r.Variant, r.MAP, 100*f.level, r.Bootstrap.Low, r.Bootstrap.High)
	} else {
		row("mAP (%s)\t%.4f", r.Variant, r.MAP)
	}
	if c := r.Comparison; c != nil {
		row("mAP of the other\t%.4f   difference %+.4f (%.2f to %.2f), p = %.3g", c.B, c.Difference.Value, c.Difference.Low, c.Difference.High, c.P)
	}
	at := fmt.Sprint(r.Thresholds[0])
	if len(r.Thresholds) > 1 {
		at = "own thresholds"
	}
	for _, p := range []struct {
		name string
		metric.PRF
	}{{"micro", r.Micro}, {"macro", r.Macro}, {"weighted", r.Weighted}} {
		row("%s P, R, F1 at %s\t%.4f  %.4f  %.4f", p.name, at, p.Precision, p.Recall, p.F1)
	}
	row("Hamming loss\t%.4f", r.Hamming)
	row("subset accuracy\t%.4f", r.SubsetAccuracy)
	for _, k := range r.At {
		row("precision, recall, hit at %d\t%.4f  %.4f  %.4f", k.K, k.Precision, k.Recall, k.Top)
	}
	row("coverage\t%.4f", r.Coverage)
	row("ranking loss\t%.4f", r.RankingLoss)
	row("LRAP\t%.4f", r.LRAP)
	row("one-error\t%.4f", r.OneError)
	if c := r.Calibration; c != nil {
		row("ECE, of classes, largest gap\t%.4f  %.4f  %.4f", c.ECE, c.ClassECE, c.MCE)
		row("Brier score\t%.4f", c.Brier)
	} else {
		row("ECE, Brier score\tthe scores are no probabilities: --logits for a sigmoid")
	}
	if s := r.Separation; s != nil {
		if s.W1 == nil {
			row("W1 of hidden positives\tnone: there are no hidden positives or no true negatives")
		} else {
			row("W1 of hidden positives\t%.4f", *s.W1)
		}
	}
	if p := r.Pseudo; p != nil {
		row("pseudo-labels P, R, F1\t%.4f  %.4f  %.4f   %d of %d right, %d hidden", p.Precision, p.Recall, p.F1, p.Correct, p.PseudoQuality.Pseudo, p.Hidden)
	}
	return w.Flush()
}
