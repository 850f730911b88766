package train

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/random"
	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/input"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/label"
	"github.com/gospml/gospml/spml/latent"
	"github.com/gospml/gospml/spml/loss"
	"github.com/gospml/gospml/spml/method"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/network"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// session is what both ways of training share.
type session struct {
	c       config.Config
	ds      *data.Dataset
	ev      Events
	method  *method.Method
	entry   *loss.Entry // the method's loss
	values  loss.Values // its parameters
	options loss.Options
	loss    loss.Loss
	train   []int               // rows
	random  *random.RandomState // the recipe's draws, in their order
	torch   *torch.Generator    // initial values of a backbone without weights, and a latent head's draws

	device torch.Device // where the run computes
	where  string       // that in words, with the reason

	net network.Options

	procs *Processes // that share the run; nil for a single one

	latent, betas, maps bool // what the loss reads beside logits
}

// newSession looks the method up. ds may lack what the method needs; checkLabels says so.
func newSession(c config.Config, ds *data.Dataset, ev Events) (*session, error) {
	net, err := network.Prepare(c, ds, ev)
	if err != nil {
		return nil, err
	}
	e := net.Method.Loss
	set := c.Parameters(e)
	if err := expectedPositives(c, e, ds, set, ev); err != nil {
		return nil, err
	}
	s := &session{
		c: c, ds: ds, ev: ev, method: net.Method, entry: e, train: ds.Rows(data.Train), random: random.New(c.Run.Seed),
		torch: net.Generator, device: net.Device, where: net.Where, net: net,
	}
	if s.values, err = e.ResolveForm(c.Method.DataSet, set, c.Method.Form); err != nil {
		return nil, err
	}
	if s.values["schedule"] == loss.PointsLearned && e.Estimator != "schedule" {
		return nil, &config.Error{Msg: fmt.Sprintf("schedule=%d of %s: a schedule's parameters are learned by gr alone",
			loss.PointsLearned, e.ID)}
	}
	s.options = loss.Options{LogEps: c.Method.LogEps, Form: c.Method.Form, Impl: loss.Impl(compute.LossForm),
		GroupWeight: c.Method.GroupWeight}
	if s.loss, err = e.Make(c.Method.DataSet, set, s.options); err != nil {
		return nil, err
	}
	s.latent, s.betas, s.maps = e.Needs&loss.Latents != 0, e.Needs&loss.BetaParameters != 0, e.Needs&loss.ScoreMaps != 0
	return s, nil
}

// draws are those of a head with latents: the loss's exact logarithms of enhanced labels stay finite.
func (s *session) draws() latent.Draws {
	d := latent.Draws{Random: s.torch}
	if s.options.LogEps == 0 && s.entry.Forms[s.options.Form].LogEps == 0 {
		d.Margin = 1e-4
	}
	return d
}

// Check says what keeps a run of a resolved configuration from starting, as far as its settings, its network and the
// labels of ds tell; nil: nothing. It trains nothing.
func Check(c config.Config, ds *data.Dataset) (err error) {
	defer caught.Recover(&err)
	s, err := newSession(c, ds, Events{})
	if err != nil {
		return err
	}
	if err := s.checkLabels(); err != nil || !s.maps || c.Model.Mode == config.Frozen {
		return err
	}
	s.c.Model.Init = "" // of a run that may not be there yet
	l, err := newFineTune(s)
	if err != nil {
		return err
	}
	return l.close()
}

func (s *session) checkLabels() error {
	switch {
	case len(s.train) == 0:
		return fmt.Errorf("%w: %s has no training rows", ErrData, s.ds.Name)
	case s.entry.Needs&loss.Full != 0 && !labelled(s.ds, data.Train):
		return fmt.Errorf("%w: %s needs full labels of the training rows, %s has none", ErrData, s.c.Method.ID, s.ds.Name)
	case s.entry.Needs&loss.Observed != 0 && s.ds.Observed == nil:
		return fmt.Errorf("%w: %s has no observed labels", ErrData, s.ds.Name)
	}
	return nil
}

// learner is one way of training: it owns model and inputs.
type learner interface {
	// usable are the training rows that take part; a row's place is its position among them.
	usable() []int
	// constant are their features where those do not change [n, D], else nil.
	constant() *torch.Tensor
	// batches walks over an order of places from a batch number; flip says by place which images are mirrored, nil for
	// none.
	batches(ctx context.Context, order []int, flip []bool, start int) iter.Seq2[*view, error]
	// forward fills logits, and what else the loss reads of the model.
	forward(v *view, at *torch.Tensor, b *loss.Batch) error
	groups() (body, head []*torch.Tensor)
	state() nn.StateDict
	setTraining(on bool)
	// scores predicts rows in evaluation mode.
	scores(ctx context.Context, phase string, n int, rows []int) (*Scores, error)
	// finish makes of v.pooled what forward, on a view with split set, left to the whole batch. Its parameters are those
	// that whole lists.
	finish(v *view, b *loss.Batch)
	whole() []*torch.Tensor
	// linear are the inputs [n, D] of the training rows by place, and the weight and bias, of a model that is a linear map
	// and nothing else; nil for any other.
	linear() (x, weight, bias *torch.Tensor)
	// photoBytes is the room for decoded photos on the device.
	photoBytes() int64
	// syncBatchNorm makes live batch normalisation use the statistics of all processes, and says whether there is any.
	syncBatchNorm() bool
	// save writes the model as it is now.
	save(dir string) error
	broken() []data.Broken
	close() error
}

// view is a batch, or a part of one, as the loop hands it on.
type view struct {
	places   []int           // among the usable training rows
	images   *data.Batch     // nil on features
	gathered *input.Gathered // images, ready for the device; nil: not ahead
	from     int             // the part's first image in images
	flip     []bool          // of images; nil = none is mirrored
	epoch    int
	split    bool          // the batch is shared among processes: what cannot be computed in parts is left to finish
	pooled   *torch.Tensor // features [B, D] for finish

	masked       *torch.Tensor // logits [B, C] of the masked view, which forward leaves for the estimator
	weak, strong *torch.Tensor // label-wise embeddings of both views [B, C, D], which forward leaves for the estimator

	step *label.Step // as the estimator has filled it
}

// part is the view of the images from … to-1.
func (v *view) part(from, to int) *view {
	return &view{
		places: v.places[from:to], images: v.images, gathered: v.gathered, from: v.from + from, flip: v.flip, epoch: v.epoch,
		split: v.split,
	}
}

// position is where a run stands: everything beside tensors that going on needs.
type position struct {
	Epoch    int                `json:"epoch"` // the one in work, from 1
	Batch    int                `json:"batch"` // the next of the epoch
	Step     int                `json:"step"`  // steps taken in the run
	LossSum  float64            `json:"loss_sum"`
	Images   int                `json:"images"`           // seen in the epoch
	Trained  bool               `json:"trained"`          // all batches of the epoch are done
	Labelled bool               `json:"labelled"`         // the estimator's work after the epoch is done
	Seconds  float64            `json:"seconds"`          // of the epoch so far
	Random   []byte             `json:"random,omitempty"` // numpy's generator at the start of the epoch
	Micro    int                `json:"micro_batch"`
	Best     EpochRecord        `json:"best"`
	Bad      int                `json:"bad_epochs"` // in a row without improvement
	Epochs   []EpochRecord      `json:"epochs"`
	Done     string             `json:"done,omitempty"`          // why the run ended
	Skipped  int                `json:"skipped_steps,omitempty"` // of fp16, whose gradients overflowed
	Trace    []string           `json:"trace,omitempty"`         // hashes of the weights after the first steps
	Scores   *metric.PartScores `json:"scores,omitempty"`        // of the epoch's steps so far
}

// trainer is a run in work.
type trainer struct {
	*session
	l      learner
	step   *Stepper
	body   int       // groups of the optimiser that are the backbone's
	rates  []float64 // each group's learning rate before the schedule
	ema    *nn.Shadow
	dir    *rundir.Dir
	saver  *saver
	p      position
	total  int  // steps of the run
	traced bool // without a run directory too

	late   bool         // losses are read one step later, so that no step waits for the device
	arena  *torch.Arena // of the step in work, its scope
	now    reading      // what it sends to the host
	before *reading     // of the step before it

	quick  bool            // steps do without autograd
	shared []*torch.Tensor // parameters whose gradients are summed over processes
	synced bool            // batch normalisation's statistics are those of all processes
}

func newTrainer(ctx context.Context, s *session, dir *rundir.Dir) (*trainer, error) {
	t := &trainer{session: s, dir: dir, p: position{Epoch: 1}}
	var err error
	if s.c.Model.Mode == config.Frozen {
		t.l, err = newFrozen(ctx, s)
	} else {
		t.l, err = newFineTune(s)
	}
	if err != nil {
		return nil, err
	}
	t.synced = t.l.syncBatchNorm()
	usable := t.l.usable()
	labels := gatherLabels(s.ds, usable, s.device)
	if !s.method.Needs(loss.Full) {
		labels.full = nil
	}
	t.step = &Stepper{
		Loss:     s.loss,
		Observed: labels.observed,
		Full:     labels.full,
		ClipNorm: s.c.Optim.ClipNorm,
		Scaler:   newScaler(s.c, s.device),
	}
	if t.step.Estimator, err = t.newEstimator(ctx, usable); err != nil {
		return nil, errors.Join(err, t.l.close())
	}
	body, head := t.l.groups()
	var groups []group
	if len(body) > 0 {
		groups = append(groups, group{body, s.c.Optim.LR})
		t.body = 1
	}
	groups = append(groups, group{head, s.c.Optim.HeadLR})
	t.step.Parameters = append(append(t.step.Parameters, body...), head...)
	for _, p := range t.step.Parameters {
		if !slices.Contains(t.l.whole(), p) {
			t.shared = append(t.shared, p)
		}
	}
	for _, g := range t.step.Estimator.Groups() {
		groups = append(groups, group{g.Params, g.Factor * s.c.Optim.HeadLR})
	}
	for _, g := range groups {
		t.rates = append(t.rates, g.lr)
	}
	t.step.Optimizer = newOptimizer(s.c, groups)
	if s.c.Optim.EMA > 0 {
		t.ema = nn.NewShadow(t.l.state(), s.c.Optim.EMA)
	}
	t.total = s.c.Schedule.Epochs * ((len(usable) + s.c.Optim.BatchSize - 1) / s.c.Optim.BatchSize)
	t.p.Micro = s.c.Optim.MicroBatch
	t.quick = t.quickly()
	t.late = !s.onCPU() && s.procs == nil
	t.saver = newSaver(t)
	return t, nil
}

// newEstimator makes the method's estimator for the training rows in use.
func (t *trainer) newEstimator(ctx context.Context, usable []int) (method.Estimator, error) {
	if t.procs != nil && t.method.Single != nil {
		if why := t.method.Single(t.values); why != "" {
			return nil, &config.Error{Msg: why}
		}
	}
	setup, err := t.setup(ctx, usable, t.l.constant())
	if err != nil {
		return nil, err
	}
	setup.Saved, setup.Resumed = oldNumbers(t.dir.Path())
	return t.method.New(setup)
}

func (t *trainer) close() error {
	err := errors.Join(t.l.close(), t.dir.Close())
	if c, ok := label.As[io.Closer](t.step.Estimator); ok {
		err = errors.Join(err, c.Close())
	}
	return err
}

// fit trains from where t stands to the end.
func (t *trainer) fit(ctx context.Context) (*Result, error) {
	for t.p.Done == "" {
		if err := t.epoch(ctx); err != nil {
			return nil, t.stopped(ctx, t.procs.settle(err))
		}
	}
	broken, err := t.procs.broken(t.l.broken())
	if err != nil {
		return nil, err
	}
	res := &Result{Best: t.p.Best, Epochs: t.p.Epochs, Broken: broken, Stopped: t.p.Done}
	if t.dir.Path() != "" && len(res.Broken) > 0 {
		var names []map[string]string
		for _, b := range res.Broken {
			names = append(names, map[string]string{"image": b.Name, "reason": b.Err.Error()})
		}
		if err := t.dir.JSON("broken.json", names); err != nil {
			return nil, err
		}
	}
	return res, t.dir.JSON(rundir.ResultFile, res)
}

// epoch does what is left of the epoch in work.
func (t *trainer) epoch(ctx context.Context) error {
	n, start := t.p.Epoch, time.Now()
	before := t.p.Seconds
	clock := func() { t.p.Seconds = before + time.Since(start).Seconds() }
	if !t.p.Trained {
		if err := t.batches(ctx, clock); err != nil {
			return err
		}
		if err := t.procs.copyBuffers(t.l.state(), t.step.Parameters); err != nil {
			return err
		}
		t.p.Trained = true
	}
	t.l.setTraining(false)
	if !t.p.Labelled {
		if err := t.step.Estimator.End(n, func() (*torch.Tensor, error) { return t.trainScores(ctx, n) }); err != nil {
			return err
		}
		t.p.Labelled = true
	}
	rec := EpochRecord{Epoch: n, Loss: t.p.LossSum / float64(max(t.p.Images, 1))}
	if q, ok := label.As[interface{ Record() *metric.PseudoRecord }](t.step.Estimator); ok {
		rec.Pseudo = q.Record()
	}
	val, test, hasVal, err := t.evaluate(ctx, n, &rec)
	if err != nil {
		return err
	}
	// Without a validation part no epoch can be selected: the last one counts.
	rec.Best = n == 1 || !hasVal || rec.ValMAP > t.p.Best.ValMAP
	clock()
	rec.Seconds = t.p.Seconds
	if rec.Best {
		t.p.Best, t.p.Bad = rec, 0
		if err := t.keepBest(rec, test); err != nil {
			return err
		}
	} else {
		t.p.Bad++
	}
	t.p.Epochs = append(t.p.Epochs, rec)
	if err := errors.Join(t.dir.Metrics(t.p.Epochs), t.dir.PseudoLabels(t.p.Epochs), t.recordScores(n, val)); err != nil {
		return err
	}
	if err := t.dir.Curves(rec, hasVal); err != nil {
		return err
	}
	t.ev.Ended(rec)
	t.p.Done = t.finished(rec, hasVal)
	t.p = position{Epoch: n + 1, Step: t.p.Step, Micro: t.p.Micro, Best: t.p.Best, Bad: t.p.Bad, Epochs: t.p.Epochs, Done: t.p.Done, Trace: t.p.Trace, Skipped: t.p.Skipped}
	return t.saver.endOfEpoch(rec)
}

// finished says why the run ends after an epoch, "" where it goes on.
func (t *trainer) finished(rec EpochRecord, hasVal bool) string {
	switch drop := t.p.Best.ValMAP - rec.ValMAP; {
	case rec.Epoch >= t.c.Schedule.Epochs:
		return allEpochs
	case hasVal && t.c.Schedule.Patience > 0 && t.p.Bad >= t.c.Schedule.Patience:
		return fmt.Sprintf("no better validation mAP in %d epoch(s)", t.p.Bad)
	case hasVal && t.c.Schedule.MaxDrop > 0 && drop > t.c.Schedule.MaxDrop:
		return fmt.Sprintf("validation mAP %.2f below the best", drop)
	}
	return ""
}

// batches trains on the rest of the epoch's batches.
func (t *trainer) batches(ctx context.Context, clock func()) error {
	n := t.p.Epoch
	if t.p.Batch == 0 && t.p.Random == nil {
		b, err := t.random.MarshalBinary()
		if err != nil {
			return err
		}
		t.p.Random = b
	}
	usable := len(t.l.usable())
	order := t.random.Permutation(usable)
	var flip []bool
	if *t.c.Data.Flip {
		flip = make([]bool, usable)
		for i := range flip {
			flip[i] = t.random.RandomSample() < 0.5
		}
	}
	if err := t.step.Estimator.Start(n); err != nil {
		return err
	}
	t.l.setTraining(true)
	t.freeze(n <= t.c.Schedule.FreezeEpochs)
	begun, seen := time.Now(), 0
	var worked time.Duration // the rest is the loader's
	for v, err := range t.l.batches(ctx, order, flip, t.p.Batch) {
		got := time.Now()
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil && t.procs == nil { // processes stop together, after a step
			return err
		}
		if t.c.Run.MaxSteps > 0 && t.p.Step >= t.c.Run.MaxSteps {
			return errBudget
		}
		t.setRates()
		v.epoch = n
		x, images, err := t.takeStep(ctx, v, flip)
		if err != nil {
			return err
		}
		t.p.Batch++
		if v.images != nil {
			t.p.Batch = v.images.Index + 1
		}
		if images == 0 { // none of a shared batch could be read
			worked += time.Since(got)
			continue
		}
		t.p.Step++
		seen += images
		if t.late {
			if err := t.seal(images); err != nil {
				return err
			}
		} else {
			t.p.LossSum += x * float64(images)
			t.p.Images += images
		}
		if err := t.traceStep(); err != nil {
			return err
		}
		clock()
		if err := t.saver.afterStep(); err != nil {
			return err
		}
		worked += time.Since(got)
		if t.c.Model.Mode == config.FineTune {
			all := time.Since(begun)
			at := t.progress(n, usable, float64(seen)/all.Seconds())
			at.Waited = (all - worked).Seconds() / all.Seconds()
			t.ev.Tell(at)
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	if t.c.Model.Mode == config.Frozen {
		t.ev.Tell(t.progress(n, usable, float64(seen)/time.Since(begun).Seconds()))
	}
	return nil
}

// progress is what a step tells of epoch n: images of the usable ones, and how many a second.
func (t *trainer) progress(n, usable int, rate float64) Step {
	return Step{
		Phase: "train", Epoch: n, Epochs: t.c.Schedule.Epochs, Done: t.p.Images, Total: usable,
		Loss: t.p.LossSum / float64(max(t.p.Images, 1)), ImagesPerSec: rate, CardBytes: compute.UsedOn(t.device),
	}
}

// evaluate fills in the epoch's mAP and gives the scores behind it. hasVal says whether there is a validation part to
// select by.
func (t *trainer) evaluate(ctx context.Context, n int, rec *EpochRecord) (valScores, test *Scores, hasVal bool, err error) {
	val, rows := t.ds.Rows(data.Val), t.ds.Rows(data.Test)
	against := t.ds.Labels
	if rec.ValObserved = t.valObserved(); rec.ValObserved {
		if against = shown(t.ds, val); against == nil && t.c.Data.ValLabels == "single" {
			return nil, nil, false, fmt.Errorf("%w: %s has no observed labels to validate on", ErrData, t.ds.Name)
		}
	}
	hasVal = against != nil && len(val) > 0
	rec.NoVal, rec.ValObserved = !hasVal, rec.ValObserved && hasVal
	raw := math.Inf(-1) // validation mAP of the weights themselves
	var rawScores *Scores
	if t.ema != nil {
		if t.c.Optim.EMABest && hasVal {
			if rawScores, raw, err = t.mAP(ctx, "validate", n, val, against); err != nil {
				return nil, nil, false, err
			}
		}
		t.ema.Swap()
		defer func() {
			if rec.Average {
				t.ema.Swap()
			}
		}()
		rec.Average = true
	}
	if hasVal {
		if valScores, rec.ValMAP, err = t.mAP(ctx, "validate", n, val, against); err != nil {
			return nil, nil, false, err
		}
	}
	if raw > rec.ValMAP {
		rec.ValMAP, rec.Average, valScores = raw, false, rawScores
		t.ema.Swap()
	}
	rec.NoTest = t.c.Data.NoTest || !labelled(t.ds, data.Test) || len(rows) == 0
	if !rec.NoTest {
		if test, rec.TestMAP, err = t.mAP(ctx, "test", n, rows, t.ds.Labels); err != nil {
			return nil, nil, false, err
		}
	}
	return valScores, test, hasVal, nil
}

// valObserved says whether validation is scored against observed labels: where that is asked for, and where its rows
// have no full ones.
func (s *session) valObserved() bool {
	return s.c.Data.ValLabels == "single" || !labelled(s.ds, data.Val)
}

// scoringNotes say what the scores of a run mean where they are not those of full labels.
func (s *session) scoringNotes() {
	if len(s.ds.Rows(data.Val)) == 0 {
		s.ev.Say("val mAP: n/a, because no row is a validation row; the last epoch's model is kept")
	} else if s.valObserved() && slices.Contains(shown(s.ds, s.ds.Rows(data.Val)), -1) {
		s.ev.Say("val mAP is against the observed labels, positive and negative; what is not known does not count")
	} else if s.valObserved() {
		s.ev.Say("val mAP is against the observed labels, where what is not observed counts as absent: it is lower than " +
			"with full labels, and chooses the epoch")
	}
	if s.c.Data.NoTest {
		s.ev.Say("test mAP: n/a, because the run leaves the test part alone (no_test)")
	} else if len(s.ds.Rows(data.Test)) == 0 || !labelled(s.ds, data.Test) {
		s.ev.Say("test mAP: n/a, because no test row has full labels")
	}
}

// shown are observed labels as labels to score against: what is not positive is negative. Where negatives of the given
// rows are known, only what is known counts: unknown labels are -1, as metric.OpenImages reads them.
func shown(ds *data.Dataset, rows []int) []int8 {
	if ds.Observed == nil {
		return nil
	}
	var unknown int8
	for _, r := range rows {
		if slices.Contains(ds.ObservedRow(r), -1) {
			unknown = -1
		}
	}
	m := make([]int8, len(ds.Observed))
	for i, y := range ds.Observed {
		switch y {
		case 1:
			m[i] = 1
		case 0:
			m[i] = unknown
		}
	}
	return m
}

// scores predicts rows, each process its part.
func (t *trainer) scores(ctx context.Context, phase string, n int, rows []int) (*Scores, error) {
	if t.procs == nil {
		return t.l.scores(ctx, phase, n, rows)
	}
	from, to := t.procs.part(len(rows))
	s, err := &Scores{}, error(nil)
	if from < to {
		s, err = t.l.scores(ctx, phase, n, rows[from:to])
	}
	return t.procs.scores(err, s)
}

func (t *trainer) mAP(ctx context.Context, phase string, n int, rows []int, against []int8) (*Scores, float64, error) {
	sc, err := t.scores(ctx, phase, n, rows)
	if err != nil {
		return nil, 0, err
	}
	v, err := sc.MAP(t.ds, against)
	var score *metric.ScoreError
	if errors.As(err, &score) {
		return nil, 0, fmt.Errorf("%w: after epoch %d the score of %s for %q is %v; lower --lr", ErrNotFinite, n, t.ds.Images[sc.Rows[score.Row]], t.ds.Classes[score.Class], score.Score)
	}
	return sc, v, err
}

// trainScores are σ(z) of the usable training rows by place; the rows of images that could not be read are 1, which no
// estimator picks.
func (t *trainer) trainScores(ctx context.Context, n int) (*torch.Tensor, error) {
	usable := t.l.usable()
	sc, err := t.scores(ctx, "label", n, usable)
	if err != nil {
		return nil, err
	}
	if len(sc.Rows) < len(usable) {
		c, all, next := t.ds.C(), make([]float32, 0, len(usable)*t.ds.C()), 0
		for _, r := range usable {
			if next < len(sc.Rows) && sc.Rows[next] == r {
				all = append(all, sc.Values[next*c:(next+1)*c]...)
				next++
				continue
			}
			for range c {
				all = append(all, 1)
			}
		}
		sc.Values = all
	}
	for i, x := range sc.Values {
		if math.IsNaN(float64(x)) {
			return nil, fmt.Errorf("%w: after epoch %d the score of %s is NaN; lower --lr", ErrNotFinite, n, t.ds.Images[usable[i/t.ds.C()]])
		}
	}
	return compute.Upload(t.device, sc.Values, len(usable), t.ds.C()), nil
}

// keepBest writes the model of the best epoch so far.
func (t *trainer) keepBest(rec EpochRecord, test *Scores) error {
	if t.dir.Path() == "" {
		return nil
	}
	if rec.Average {
		t.ema.Swap()
		defer t.ema.Swap()
	}
	if err := errors.Join(t.l.save(filepath.Join(t.dir.Path(), "model")), t.keepEstimates()); err != nil {
		return err
	}
	if test == nil {
		return nil
	}
	if err := t.dir.TestScores(test); err != nil {
		return err
	}
	return t.dir.JSON("test_scores.json", summary(test, rec))
}
