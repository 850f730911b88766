package train

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/spml/config"
	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/nn"
)

// Plan is what a run would take.
type Plan struct {
	Epochs          int     `json:"epochs"`
	Steps           int     `json:"steps"`
	TrainImages     int     `json:"train_images"`
	Measured        int     `json:"measured_steps"`
	StepSeconds     float64 `json:"step_seconds"`
	ScoreSeconds    float64 `json:"score_seconds"` // of 32 images
	Seconds         float64 `json:"seconds"`       // of the whole run, with validation and test after each epoch
	ResidentBytes   int64   `json:"resident_bytes"`
	PeakBytes       int64   `json:"peak_bytes"`   // the most that the process held in the measured steps and scores
	MemoryBytes     int64   `json:"memory_bytes"` // that, with the rest of the cache of decoded images
	Checkpoints     int     `json:"checkpoints"`
	CheckpointBytes int64   `json:"checkpoint_bytes"`
	ModelBytes      int64   `json:"model_bytes"`
	DiskBytes       int64   `json:"disk_bytes"`
	// FeedPerSecond is how many photos a second this machine reads, decodes and resizes with nothing else to do; 0: not
	// measured, as on features. StepPerSecond is how many the steps take.
	FeedPerSecond float64 `json:"feed_images_per_second,omitempty"`
	StepPerSecond float64 `json:"step_images_per_second,omitempty"`
	Cores         int     `json:"cores"`
	// Card is what the run takes of a graphics card; nil on the CPU.
	Card *CardPlan `json:"card,omitempty"`
	// First is the first of two stages, whose time and disk are part of the sums above; nil where there is one.
	First *Plan `json:"first_stage,omitempty"`
}

// CardPlan is what a run takes of a graphics card. Sizes are bytes.
type CardPlan struct {
	Device string `json:"device"` // and why it was chosen
	Driver string `json:"driver,omitempty"`
	Code   string `json:"code,omitempty"` // how the kernels of this module run on it
	Peak   int64  `json:"peak_bytes"`     // in the measured steps and scores, with the photos that it keeps
	Photos int64  `json:"photo_bytes"`    // of these, for decoded photos
	Free   int64  `json:"free_bytes"`     // meanwhile, for all programs
	Total  int64  `json:"total_bytes"`
}

// Limits says in words whether the CPU side keeps the steps waiting; "" where it does not.
func (p *Plan) Limits() string {
	if p.FeedPerSecond == 0 || p.StepPerSecond == 0 || p.FeedPerSecond >= p.StepPerSecond {
		return ""
	}
	return fmt.Sprintf("decoding limits: %d cores feed %.0f images/s, the steps take %.0f; "+
		"once photos are decoded and kept, the steps alone count", p.Cores, p.FeedPerSecond, p.StepPerSecond)
}

// Feeding says in words from which speed on a card waits for photos: with this machine's cores, as measured, and with
// so many, if decoding grows with the cores; "" where photos are not decoded.
func (p *Plan) Feeding(cores int) string {
	if p.FeedPerSecond == 0 || p.Cores < 1 {
		return ""
	}
	return fmt.Sprintf("a card waits for photos from %.0f images/s on; beside %d cores from about %.0f, assuming that "+
		"decoding scales with cores (spml bench data --workers N measures it)", p.FeedPerSecond, cores,
		p.FeedPerSecond*float64(cores)/float64(p.Cores))
}

// cardPlan is nil on the CPU.
func (s *session) cardPlan(photos int64) *CardPlan {
	m, ok := compute.MemoryOf(s.device)
	if !ok {
		return nil
	}
	c := &CardPlan{Device: s.where, Peak: m.Peak, Photos: photos, Free: m.Free, Total: m.Total}
	if p, err := cuda.DeviceProperties(max(s.device.Index, 0)); err == nil {
		c.Code, _ = cuda.Code(p.Major, p.Minor)
	}
	if st, err := cuda.DeviceStatus(max(s.device.Index, 0)); err == nil {
		c.Driver = st.Driver
	}
	return c
}

// feed measures how many photos a second the loader gives without training.
func (t *trainer) feed(ctx context.Context, order []int) (float64, error) {
	if t.c.Model.Mode == config.Frozen || len(order) == 0 {
		return 0, nil
	}
	begun, n := time.Now(), 0
	for v, err := range t.l.batches(ctx, order, nil, 0) {
		if err != nil {
			return 0, err
		}
		n += len(v.places)
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// planSteps are taken to measure; the first warms up and does not count.
const planSteps = 4

// feedImages are read to measure the loader.
const feedImages = 128

// Estimate measures a run's first steps and the scoring of one batch, and says what the whole would take. It writes
// nothing.
func Estimate(ctx context.Context, c config.Config, ev Events) (*Plan, error) {
	c.Run.Dir = ""
	c, err := c.Ready()
	if err != nil {
		return nil, err
	}
	if err := torch.Available(); err != nil {
		return nil, err
	}
	p := &Plan{}
	err = compute.Guard(func() error {
		if c.Stages.Count == 2 && c.Model.Init == "" {
			first, err := c.FirstStage()
			if err != nil {
				return err
			}
			p.First = &Plan{}
			if err := estimate(ctx, first, ev, p.First); err != nil {
				return fmt.Errorf("stage 1: %w", err)
			}
		}
		if err := estimate(ctx, c, ev, p); err != nil {
			return err
		}
		if f := p.First; f != nil {
			p.Seconds += f.Seconds
			p.DiskBytes += f.DiskBytes
			p.MemoryBytes = max(p.MemoryBytes, f.MemoryBytes)
		}
		return nil
	})
	return p, err
}

func estimate(ctx context.Context, c config.Config, ev Events, p *Plan) error {
	ds, err := c.Data.Open()
	if err != nil {
		return err
	}
	defer ds.Close()
	s, err := newSession(c, ds, ev)
	if err != nil {
		return err
	}
	if err := s.checkLabels(); err != nil {
		return err
	}
	t, err := newTrainer(ctx, s, rundir.New(""))
	if err != nil {
		return err
	}
	defer t.close()
	usable := t.l.usable()
	p.Epochs, p.Steps, p.TrainImages = c.Schedule.Epochs, t.total, len(usable)
	if err := t.step.Estimator.Start(1); err != nil {
		return err
	}
	t.l.setTraining(true)
	order := t.random.Permutation(len(usable))
	cut := min(len(order), planSteps*c.Optim.BatchSize)
	order, others := order[:cut], order[cut:]
	var begun time.Time
	steps := 0
	for v, err := range t.l.batches(ctx, order, nil, 0) {
		if err != nil {
			return err
		}
		if _, _, err := t.takeStep(ctx, v, nil); err != nil {
			return err
		}
		if steps++; steps == 1 {
			begun = time.Now()
		}
	}
	if p.Measured = max(steps-1, 1); steps > 1 {
		p.StepSeconds = time.Since(begun).Seconds() / float64(p.Measured)
		p.StepPerSecond = float64(c.Optim.BatchSize) / p.StepSeconds
	}
	p.Cores = runtime.NumCPU()
	if p.FeedPerSecond, err = t.feed(ctx, others[:min(len(others), feedImages)]); err != nil {
		return err
	}
	t.l.setTraining(false)
	rows := usable[:min(32, len(usable))]
	begun = time.Now()
	if _, err := t.l.scores(ctx, "plan", 0, rows); err != nil {
		return err
	}
	p.ScoreSeconds = time.Since(begun).Seconds() * 32 / float64(len(rows))
	scored := 0
	for _, part := range []data.Split{data.Val, data.Test} {
		if labelled(ds, part) && !(part == data.Test && c.Data.NoTest) {
			scored += len(ds.Rows(part))
		}
	}
	p.Seconds = float64(p.Steps)*p.StepSeconds + float64(c.Schedule.Epochs*scored)/32*p.ScoreSeconds
	sd, _, _ := t.tensors()
	p.CheckpointBytes, p.ModelBytes = bytesIn(sd), bytesIn(t.l.state())
	p.Checkpoints = c.Run.KeepLast + c.Run.KeepBest
	p.DiskBytes = int64(p.Checkpoints+1)*p.CheckpointBytes + p.ModelBytes // one more while it is written
	p.Card = s.cardPlan(t.l.photoBytes())
	p.ResidentBytes = memory("VmRSS:")
	p.PeakBytes = max(memory("VmHWM:"), p.ResidentBytes)
	p.MemoryBytes = p.PeakBytes
	if c.Model.Mode == config.FineTune && c.Data.Cache.Kind != string(data.CacheNone) &&
		c.Data.Cache.Kind != string(data.CacheFile) {
		side := int64(c.Data.ImageSize)
		p.MemoryBytes += min(int64(c.Data.Cache.MB)<<20, 3*side*side*int64(ds.N()))
	}
	return nil
}

func bytesIn(sd nn.StateDict) (n int64) {
	for _, t := range sd {
		n += int64(t.Numel() * t.DType().Size())
	}
	return n
}

// memory reads a line of the system's account of this process, 0 where there is none.
func memory(line string) int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), line)
	var kb int64
	_, _ = fmt.Sscan(rest, &kb)
	return kb << 10
}
