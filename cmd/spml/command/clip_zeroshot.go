package command

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/internal/screen"
	tagged "github.com/gospml/gospml/spml/model"
	"github.com/gospml/gospml/spml/vlm"
)

func newClipZeroShot() *cobra.Command {
	var (
		load      loadFlags
		pixels    photoFlags
		model     string
		labels    []string
		names     string
		templates []string
		dtype     string
		size      string
		top       int
		asJSON    bool
	)
	cmd := &cobra.Command{
		Use:   "zeroshot PHOTO… --model MODEL --labels NAME,…",
		Short: "Which of some labels fits a photo, without training",
		Long: `Scores photos against labels by CLIP: the softmax over the labels of the scaled cosines. The numbers of a photo sum to 1: they compare the labels
with each other and are no probabilities of each being there.

  spml clip zeroshot photo.jpg --model ViT-B-16.pt --labels "dog,cat,traffic light"
  spml clip zeroshot photos/*.jpg --model ViT-B-16.pt --labels names.txt --template "a photo of a {}." --template "a drawing of a {}." --json`,
		Args: atLeast(1, "at least one photo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(labels) == 1 { // a file with a label a line
				if b, err := os.ReadFile(labels[0]); err == nil {
					labels = lines(string(b))
				}
			}
			if names != "" {
				if len(labels) > 0 {
					return usageError{fmt.Errorf("--labels and --class-names both name the labels; give one")}
				}
				var err error
				if labels, err = vlm.ReadNames(names); err != nil {
					return err
				}
			}
			if len(labels) == 0 {
				return usageError{fmt.Errorf("%s wants --labels NAME,…, or --class-names FILE with a name a line",
					cmd.CommandPath())}
			}
			for _, t := range templates {
				if !strings.Contains(t, "{}") {
					return usageError{fmt.Errorf("--template %q has no {} for the label", t)}
				}
			}
			var err error
			if load.pixels, err = pixels.options(); err != nil {
				return err
			}
			m, err := openClip(cmd, model, load, dtype, size, 0, nil)
			if err != nil {
				return err
			}
			defer m.Close()
			z, err := m.ZeroShot(cmd.Context(), labels, templates)
			if err != nil {
				return err
			}
			x, err := m.EncodePaths(cmd.Context(), args)
			if err != nil {
				return named(err, args)
			}
			s, err := z.Embeddings(cmd.Context(), x)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			for i, path := range args {
				cosines, p := s.Row(i)
				order := make([]int, len(labels))
				for k := range order {
					order[k] = k
				}
				slices.SortStableFunc(order, func(a, b int) int {
					switch {
					case p[a] > p[b]:
						return -1
					case p[a] < p[b]:
						return 1
					}
					return 0
				})
				if top > 0 {
					order = order[:min(top, len(order))]
				}
				if asJSON {
					type score struct {
						Name        string  `json:"name"`
						Probability float32 `json:"probability"`
						Cosine      float32 `json:"cosine"`
					}
					var l []score
					for _, k := range order {
						l = append(l, score{labels[k], p[k], cosines[k]})
					}
					b, err := json.Marshal(map[string]any{"image": path, "labels": l})
					if err != nil {
						return err
					}
					plain.Fprintf(out, "%s\n", b)
					continue
				}
				var l []tagged.Label
				for _, k := range order {
					l = append(l, tagged.Label{Name: labels[k], Probability: float64(p[k]), Present: k == order[0]})
				}
				if err := printBars(out, path, l, screen.HasColor(out)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	load.add(cmd)
	load.addDevice(cmd)
	f := cmd.Flags()
	f.StringVar(&model, "model", "", "folder or file of a CLIP (default: the small built-in one, which knows drawn shapes only)")
	f.StringSliceVar(&labels, "labels", nil, "names, separated by commas, or a file with a name a line")
	f.StringVar(&names, "class-names", "", "in place of --labels: file with a name a line or a JSON array, or cub "+
		"for CUB's 312 attributes in words")
	f.StringArrayVar(&templates, "template", nil, "prompt with {} for the name; several are averaged (default: "+clip.DefaultTemplate+")")
	pixels.add(f, pixel.EXIFApply, "")
	f.StringVar(&dtype, "dtype", "float32", "arithmetic: float32, bfloat16, float16")
	f.StringVar(&size, "image-size", "", "N or HxW instead of the model's")
	f.IntVar(&top, "top", 10, "labels per photo (0: all)")
	f.BoolVar(&asJSON, "json", false, "print one JSON object a photo")
	return cmd
}

func lines(s string) []string {
	var out []string
	for _, l := range strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n") {
		if l = strings.TrimSpace(l); l != "" {
			out = append(out, l)
		}
	}
	return out
}
