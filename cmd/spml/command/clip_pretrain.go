package command

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/clip/pretrain"
	"github.com/gospml/gospml/data/shapes"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/metric"
	"github.com/gospml/gospml/spml/train"
	"github.com/gospml/gospml/torch"
)

func newClipPretrain() *cobra.Command {
	var (
		data, out, dtype, progress string
		device                     string
		pictures, evaluate         int
		pairsSeed                  uint64
		s                          = pretrain.Shapes()
	)
	cmd := &cobra.Command{
		Use:   "pretrain --out FOLDER",
		Short: "Train a tiny CLIP from pictures and captions",
		Long: `Trains a tiny CLIP with the symmetric contrastive loss and a learned temperature, and writes it as import does. --data shapes takes
drawn pictures with captions that name one or two of what each shows; their seed is one that data sets do not use, and the zero-shot mAP on
other pictures is printed at the end. --data FILE.csv takes your own pairs: a header "filename,caption", files beside it.

  spml clip pretrain --out tiny-clip
  spml clip pretrain --data captions.csv --steps 5000 --out my-clip

Several processes share each batch where a launcher starts them, on cards each with one of its own (NCCL); the loss sees
the whole batch, and the first process writes:
  torchrun --no-python --nproc-per-node 2 -- spml clip pretrain --out tiny-clip`,
		Args: exactly(0, "only flags"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				return usageError{fmt.Errorf("%s wants --out FOLDER", cmd.CommandPath())}
			}
			if s.Steps < 1 || s.Batch < 2 || !(s.LR > 0) {
				return usageError{fmt.Errorf("--steps %d, --batch %d, --lr %v: want a step or more, two pairs or more, a positive rate", s.Steps, s.Batch, s.LR)}
			}
			d, err := parseDType(dtype)
			if err != nil {
				return err
			}
			r, err := newReporter(cmd.ErrOrStderr(), progress)
			if err != nil {
				return err
			}
			if s.Device, err = chooseDevice(cmd, device); err != nil {
				return err
			}
			var pairs pretrain.Pairs
			if data == "shapes" {
				if pictures < 1 {
					return usageError{fmt.Errorf("--pictures %d: want 1 or more", pictures)}
				}
				pairs = pretrain.NewShapes(pairsSeed, pictures)
			} else if pairs, err = pretrain.OpenCSV(data, s.Model, uint64(s.Seed)); err != nil {
				return err
			}
			procs, err := train.Join(0)
			if err != nil {
				return err
			}
			first := procs.Rank() == 0
			last := time.Now()
			m, err := pretrain.RunGroup(cmd.Context(), procs.Group(), s, pairs, pretrain.Events{Step: func(p pretrain.Step) {
				if first && (p.Step == p.Steps || r.kind != progressOff && time.Since(last) > 5*time.Second) {
					last = time.Now()
					r.note(fmt.Sprintf("step %d/%d  loss %.4f  scale %.1f  %.0f pairs/s  %s left", p.Step, p.Steps, p.Loss, p.Scale, p.PairsPerSec, p.EstimatedLeft.Round(time.Second)))
				}
			}})
			if err := errors.Join(err, procs.Close(err)); err != nil || !first {
				return err
			}
			if err := clip.Save(out, m, d); err != nil {
				return err
			}
			plain.Fprintf(cmd.OutOrStdout(), "wrote %s\n", out)
			if data != "shapes" || evaluate < 1 {
				return nil
			}
			model, err := clip.NewModel(m, clip.Options{})
			if err != nil {
				return err
			}
			defer model.Close()
			mAP, chance, err := shapesMAP(cmd, model, 0, evaluate)
			if err != nil {
				return err
			}
			_, err = plain.Fprintf(cmd.OutOrStdout(), "zero-shot mAP on %d other pictures: %.2f (chance: %.2f)\n", evaluate, mAP, chance)
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&data, "data", "shapes", "shapes, or a CSV file of filename,caption")
	f.StringVar(&out, "out", "", "folder to write")
	f.StringVar(&dtype, "dtype", "float32", "type of the stored weights")
	f.IntVar(&s.Steps, "steps", s.Steps, "steps")
	f.IntVar(&s.Batch, "batch", s.Batch, "pairs a step")
	f.Float64Var(&s.LR, "lr", s.LR, "highest learning rate")
	f.Int64Var(&s.Seed, "seed", s.Seed, "of the initial weights")
	f.IntVar(&pictures, "pictures", pretrain.ShapesPictures, "drawn pictures to train on")
	f.Uint64Var(&pairsSeed, "pairs-seed", pretrain.ShapesSeed, "of the drawn pictures")
	f.IntVar(&evaluate, "evaluate", 1000, "drawn test pictures for the zero-shot mAP; 0: none")
	f.StringVar(&device, "device", "auto", deviceHelp)
	f.StringVar(&progress, "progress", progressAuto, "auto, bar, plain, json, off")
	return cmd
}

// shapesMAP is the zero-shot mAP on the test pictures of a shapes data set, by cosine, and what a constant score gets.
func shapesMAP(cmd *cobra.Command, m *clip.Model, seed uint64, n int) (mAP, chance float64, err error) {
	d, err := shapes.New(seed, 0, 0, n)
	if err != nil {
		return 0, 0, err
	}
	pictures := make([]byte, n*shapes.PictureBytes)
	for i := range n {
		shapes.Draw(seed, uint64(2)<<32|uint64(i), pictures[i*shapes.PictureBytes:(i+1)*shapes.PictureBytes]) // the test range of shapes.New
	}
	z, err := m.ZeroShot(cmd.Context(), d.Classes, nil)
	if err != nil {
		return 0, 0, err
	}
	var x *torch.Tensor
	if err := torch.Try(func() { x = pretrain.Input(pictures, n, m.Config()) }); err != nil {
		return 0, 0, err
	}
	y, err := m.EncodeImage(cmd.Context(), x)
	if err != nil {
		return 0, 0, err
	}
	s, err := z.Embeddings(cmd.Context(), y)
	if err != nil {
		return 0, 0, err
	}
	if mAP, err = metric.MAP(s.Cosines, d.Labels, len(d.Classes)); err != nil {
		return 0, 0, err
	}
	chance, err = metric.MAP(make([]float32, len(d.Labels)), d.Labels, len(d.Classes))
	return mAP, chance, err
}
