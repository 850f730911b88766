package metric

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"unsafe"
)

// Options choose what a [Report] holds.
type Options struct {
	AP Variant // "" = Step
	// Thresholds above which a score is a prediction: one, or one for each class; none = 0.5.
	Thresholds []float64
	K          []int // of precision and recall at k; nil = 1, 3 and 5 as far as there are classes
	Bins       int   // of the calibration; 0 = 15
	// MaxBytes is how much memory scores and labels may take; what is above goes to a temporary file. 0 = 1 GiB.
	MaxBytes int64
}

// Report is everything that is known of a model's scores. mAP is in percent, all else in [0, 1] or as documented at its type.
type Report struct {
	Images  int       `json:"images"`
	Classes int       `json:"classes"`
	MAP     float64   `json:"map"`
	AP      []float64 `json:"-"` // of each class; NaN where the class is not scored (OpenImages)
	Variant Variant   `json:"ap_form"`

	Thresholds []float64 `json:"-"`
	Counts     []Counts  `json:"-"` // of each class at its threshold
	Micro      PRF       `json:"micro"`
	Macro      PRF       `json:"macro"`
	Weighted   PRF       `json:"weighted"`
	// Hamming is the share of wrong entries, SubsetAccuracy the share of images without a wrong entry.
	Hamming        float64 `json:"hamming_loss"`
	SubsetAccuracy float64 `json:"subset_accuracy"`

	Ranking
	// Calibration is nil where a score is no probability.
	Calibration *Calibration `json:"calibration,omitempty"`
}

// Evaluate computes everything at once.
func Evaluate[S Score](scores []S, labels []int8, classes int, o Options) (Report, error) {
	a, err := NewAccumulator[S](classes, o)
	if err != nil {
		return Report{}, err
	}
	if err := a.add(scores, labels, false); err != nil {
		return Report{}, err
	}
	a.scores, a.labels = scores, labels
	return a.Report()
}

// Accumulator takes scores batch by batch. Average precision needs all of them: beyond [Options.MaxBytes] they go to a temporary file, and
// the report then reads that file once for every few classes, so the result is exact in bounded memory, whatever the number of images; the
// bound cannot go below one class. For one goroutine at a time. Close removes the file.
type Accumulator[S Score] struct {
	o       Options
	classes int
	rows    int
	counts  []Counts
	exact   int // images without a wrong entry
	ranker  *ranker
	binner  *binner // nil once a score is no probability
	scores  []S
	labels  []int8
	spill   *os.File
	spilled int // rows in the file
	buffer  []byte
}

// NewAccumulator returns an empty accumulator, or what is wrong with the options.
func NewAccumulator[S Score](classes int, o Options) (*Accumulator[S], error) {
	if classes < 1 {
		return nil, fmt.Errorf("metric: %d classes", classes)
	}
	if o.AP == "" {
		o.AP = Step
	}
	if _, err := ParseVariant(string(o.AP)); err != nil {
		return nil, err
	}
	if len(o.Thresholds) == 0 {
		o.Thresholds = []float64{0.5}
	}
	if o.K == nil {
		for _, k := range []int{1, 3, 5} {
			if k <= classes {
				o.K = append(o.K, k)
			}
		}
	}
	if o.Bins == 0 {
		o.Bins = 15
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	a := &Accumulator[S]{o: o, classes: classes, counts: make([]Counts, classes)}
	var err error
	if a.o.Thresholds, err = perClassThresholds(classes, o.Thresholds); err != nil {
		return nil, err
	}
	if a.ranker, err = newRanker(classes, o.K); err != nil {
		return nil, err
	}
	a.binner, err = newBinner(classes, o.Bins)
	return a, err
}

// Add takes whole rows of scores and labels. A row number in an error counts from the first row of all.
func (a *Accumulator[S]) Add(scores []S, labels []int8) error { return a.add(scores, labels, true) }

func (a *Accumulator[S]) add(scores []S, labels []int8, keep bool) error {
	if _, err := checkMatrix(scores, labels, a.classes); err != nil {
		var bad *ScoreError
		if errors.As(err, &bad) {
			bad.Row += a.rows
		}
		return err
	}
	for i := 0; i < len(scores); i += a.classes {
		s, y := scores[i:i+a.classes], labels[i:i+a.classes]
		if countRow(a.counts, s, y, a.o.Thresholds) == 0 {
			a.exact++
		}
		rankRow(a.ranker, s, y)
		if a.binner != nil && binRow(a.binner, s, y) >= 0 {
			a.binner = nil
		}
	}
	a.rows += len(scores) / a.classes
	if !keep {
		return nil
	}
	a.scores, a.labels = append(a.scores, scores...), append(a.labels, labels...)
	if int64(len(a.scores))*int64(1+unsafe.Sizeof(S(0))) > a.o.MaxBytes {
		return a.toFile()
	}
	return nil
}

// toFile appends what is held to the file: a row is its scores as little-endian float64 bits and then its labels.
func (a *Accumulator[S]) toFile() error {
	if a.spill == nil {
		f, err := os.CreateTemp("", "spml-scores-*")
		if err != nil {
			return err
		}
		a.spill = f
	}
	at := int64(a.spilled) * a.rowBytes()
	a.buffer = a.buffer[:0]
	for i := 0; i < len(a.scores); i += a.classes {
		for _, s := range a.scores[i : i+a.classes] {
			a.buffer = binary.LittleEndian.AppendUint64(a.buffer, math.Float64bits(float64(s)))
		}
		for _, y := range a.labels[i : i+a.classes] {
			a.buffer = append(a.buffer, byte(y))
		}
		if i+a.classes == len(a.scores) || len(a.buffer) > 1<<20 {
			if _, err := a.spill.WriteAt(a.buffer, at); err != nil {
				return err
			}
			at += int64(len(a.buffer))
			a.buffer = a.buffer[:0]
		}
		a.spilled++
	}
	a.scores, a.labels = a.scores[:0], a.labels[:0]
	return nil
}

func (a *Accumulator[S]) rowBytes() int64 { return 9 * int64(a.classes) }

// Report computes what has been added so far; more may be added after it.
func (a *Accumulator[S]) Report() (Report, error) {
	r := Report{
		Images: a.rows, Classes: a.classes, Variant: a.o.AP, Thresholds: a.o.Thresholds, Counts: append([]Counts(nil), a.counts...),
		Micro: Micro(a.counts), Macro: Macro(a.counts), Weighted: Weighted(a.counts), Ranking: a.ranker.mean(),
		SubsetAccuracy: ratio(float64(a.exact), float64(a.rows)),
	}
	all := Pooled(a.counts)
	r.Hamming = ratio(float64(all.FP+all.FN), float64(a.rows*a.classes))
	if a.binner != nil && a.rows > 0 {
		c := a.binner.result()
		r.Calibration = &c
	}
	var err error
	if a.spill == nil {
		r.AP, err = AveragePrecision(a.scores, a.labels, a.classes, a.o.AP)
	} else {
		r.AP, err = a.apFromFile()
	}
	r.MAP = 100 * Mean(r.AP)
	return r, err
}

func (a *Accumulator[S]) apFromFile() ([]float64, error) {
	if err := a.toFile(); err != nil {
		return nil, err
	}
	// Sorting takes about as much again as the scores themselves.
	perClass := int64(a.rows) * int64(2*unsafe.Sizeof(S(0))+9)
	width := int(min(max(a.o.MaxBytes/max(perClass, 1), 1), int64(a.classes)))
	scores, labels := make([]S, a.rows*width), make([]int8, a.rows*width)
	row := make([]byte, a.rowBytes())
	var ap []float64
	for first := 0; first < a.classes; first += width {
		w := min(width, a.classes-first)
		in := bufio.NewReaderSize(io.NewSectionReader(a.spill, 0, int64(a.rows)*a.rowBytes()), 1<<20)
		for i := range a.rows {
			if _, err := io.ReadFull(in, row); err != nil {
				return nil, err
			}
			for c := range w {
				scores[i*w+c] = S(math.Float64frombits(binary.LittleEndian.Uint64(row[8*(first+c):])))
				labels[i*w+c] = int8(row[8*a.classes+first+c])
			}
		}
		part, err := AveragePrecision(scores[:a.rows*w], labels[:a.rows*w], w, a.o.AP)
		if err != nil {
			return nil, err
		}
		ap = append(ap, part...)
	}
	return ap, nil
}

// Close removes the temporary file. The accumulator cannot be used afterwards.
func (a *Accumulator[S]) Close() error {
	if a.spill == nil {
		return nil
	}
	f := a.spill
	a.spill = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
