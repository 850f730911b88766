package command

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/torch"
)

func newClip() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "clip",
		Short: "CLIP: look at, convert and use image-text models",
		Long: `Works with CLIP models in these forms: OpenAI's .pt, open_clip's .safetensors or .bin with its configuration,
Hugging Face folders, bare safetensors. A model is a folder or one of its files; what it was taken for is said.

  spml clip info ViT-B-16.pt
  spml clip zeroshot photo.jpg --model ViT-B-16.pt --labels "dog,cat,traffic light"
  spml clip encode --model ViT-B-16.pt --images photos --texts captions.txt --out features.safetensors
  spml clip export ViT-B-16.pt --to hf --out vit-b-16`,
	}
	cmd.AddCommand(newClipInfo(), newClipImport(), newClipExport(), newClipTokenize(), newClipEncode(), newClipZeroShot(), newClipPretrain())
	return cmd
}

// loadFlags are what a file without a configuration does not say.
type loadFlags struct {
	act, device string
	pixels      pixel.Options // of photos
}

// addDevice adds --device for commands that compute.
func (l *loadFlags) addDevice(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.device, "device", "auto", deviceHelp)
}

func (l *loadFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.act, "act", "", "activation of a file without a configuration: quick_gelu (OpenAI's, the default) or gelu")
}

func (l *loadFlags) options() (o clip.LoadOptions, err error) {
	switch l.act {
	case "", string(clip.QuickGELU), string(clip.GELU):
		o.Act = clip.Act(l.act)
		return o, nil
	}
	return o, usageError{fmt.Errorf("--act %q is neither quick_gelu nor gelu", l.act)}
}

// parseDType reads the names that people use.
func parseDType(s string) (torch.DType, error) {
	switch strings.ToLower(s) {
	case "float32", "fp32", "f32":
		return torch.Float32, nil
	case "bfloat16", "bf16":
		return torch.BFloat16, nil
	case "float16", "fp16", "f16", "half":
		return torch.Float16, nil
	}
	return 0, usageError{fmt.Errorf("--dtype %q is none of float32, bfloat16, float16", s)}
}

// parseSize reads N or HxW.
func parseSize(s string) (size [2]int, err error) {
	if s == "" {
		return size, nil
	}
	h, w, two := strings.Cut(strings.ToLower(s), "x")
	if !two {
		w = h
	}
	for i, v := range []string{h, w} {
		if size[i], err = strconv.Atoi(strings.TrimSpace(v)); err != nil || size[i] < 1 {
			return size, usageError{fmt.Errorf("--image-size %q: want N or HxW, for instance 224 or 224x336", s)}
		}
	}
	return size, nil
}

func newClipInfo() *cobra.Command {
	var load loadFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info MODEL",
		Short: "What a checkpoint is: form, shapes, activation, preprocessing",
		Args:  exactly(1, "a model"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := load.options()
			if err != nil {
				return err
			}
			m, l, err := clip.Load(args[0], o)
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(cmd.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(struct {
					Path          string      `json:"path"`
					Kind          string      `json:"kind"`
					Weights       []string    `json:"weights"`
					Container     string      `json:"container"`
					Configuration string      `json:"configuration"`
					Stored        string      `json:"stored"`
					Tensors       int         `json:"tensors"`
					Parameters    int         `json:"parameters"`
					Notes         []string    `json:"notes,omitempty"`
					Config        clip.Config `json:"config"`
				}{l.Path, l.Kind, l.Weights, l.Container, l.ConfigFrom, l.Stored, l.Tensors, l.Parameters, l.Notes, m.Config})
			}
			_, err = fmt.Fprintf(plain.Writer{W: cmd.OutOrStdout()}, "%s%s  parameters     %d in %d tensors\n", l, m.Config.Describe(), l.Parameters, l.Tensors)
			return err
		},
	}
	load.add(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// converter makes import and export, which differ in the form that they write.
func converter(use, short, long string, form func() (clip.Form, error)) (*cobra.Command, *string) {
	var load loadFlags
	var out, dtype string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && out == "" {
				out, args = args[1], args[:1]
			}
			if len(args) != 1 {
				return usageError{fmt.Errorf("%s wants a model and a folder, got %d arguments", cmd.CommandPath(), len(args))}
			}
			if out == "" {
				return usageError{fmt.Errorf("%s wants --out FOLDER", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := form()
			if err != nil {
				return err
			}
			d, err := parseDType(dtype)
			if err != nil {
				return err
			}
			o, err := load.options()
			if err != nil {
				return err
			}
			m, l, err := clip.Load(args[0], o)
			if err != nil {
				return err
			}
			fmt.Fprint(plain.Writer{W: cmd.ErrOrStderr()}, l)
			if err := clip.Export(out, m, f, d); err != nil {
				return err
			}
			_, err = plain.Fprintf(cmd.OutOrStdout(), "wrote %s\n", filepath.Clean(out))
			return err
		},
	}
	load.add(cmd)
	cmd.Flags().StringVar(&out, "out", "", "folder to write (or the second argument)")
	cmd.Flags().StringVar(&dtype, "dtype", "float32", "type of the stored weights: float32, bfloat16, float16")
	return cmd, &out
}

func newClipImport() *cobra.Command {
	cmd, _ := converter("import MODEL --out FOLDER", "Convert a model of any form to safetensors and a configuration",
		`Reads a model in any form and writes model.safetensors with OpenAI's names and clip_config.json.

  spml clip import RN50.pt --out rn50`, func() (clip.Form, error) { return clip.Own, nil })
	return cmd
}

func newClipExport() *cobra.Command {
	var to string
	cmd, _ := converter("export MODEL --to hf|open_clip --out FOLDER", "Write a model so that transformers or open_clip read it",
		`Writes a folder that transformers' CLIPModel.from_pretrained (hf) or open_clip's create_model("local-dir:FOLDER") (open_clip) reads.

  spml clip export ViT-B-32.pt --to hf --out vit-b-32 --dtype float16`, func() (clip.Form, error) {
			switch clip.Form(to) {
			case clip.HuggingFace, clip.OpenCLIP:
				return clip.Form(to), nil
			}
			return "", usageError{fmt.Errorf("--to %q is neither hf nor open_clip", to)}
		})
	cmd.Flags().StringVar(&to, "to", "", "hf (Hugging Face) or open_clip")
	return cmd
}
