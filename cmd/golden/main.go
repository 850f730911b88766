// Command golden runs files of reference numbers through this module. It is for developers: check compares, eval and trace print
// what the module computes, also for files without expected values.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/cmd/golden/internal/golden"
	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/torch"
)

func main() {
	if err := newRoot(os.Stdout, os.Stderr).Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "golden:", err)
		os.Exit(1)
	}
}

// errFailed ends check after its report has been printed.
var errFailed = errors.New("not everything passed")

func newRoot(out, errs io.Writer) *cobra.Command {
	var dtype, impl, device string
	options := func() (o golden.Options, err error) {
		switch dtype {
		case "float64":
			o.DType = torch.Float64
		case "float32":
			o.DType = torch.Float32
		case "bfloat16":
			o.DType = torch.BFloat16
		default:
			return o, fmt.Errorf("--dtype %q is none of float64, float32, bfloat16", dtype)
		}
		switch impl {
		case "composed":
		case "fused":
			o.Fused = true
		default:
			return o, fmt.Errorf("--impl %q is none of composed, fused", impl)
		}
		if err := torch.Available(); err != nil {
			return o, err
		}
		switch device {
		case "cpu":
		case "cuda":
			if err := cuda.Available(); err != nil {
				return o, err
			}
			o.Device = torch.CUDA(0)
		default:
			return o, fmt.Errorf("--device %q is none of cpu, cuda", device)
		}
		return o, torch.SetNumThreads(1) // the tensors are small: threads that wait for each other take up to 60 times as long in float64 depth-wise convolutions
	}
	flags := func(c *cobra.Command) *cobra.Command {
		c.Flags().StringVar(&dtype, "dtype", "float64", "number type of logits: float64, float32, bfloat16")
		c.Flags().StringVar(&impl, "impl", "composed", "form of the losses: composed, or fused where there is one")
		c.Flags().StringVar(&device, "device", "cpu", "where losses are computed: cpu, cuda")
		return c
	}
	root := &cobra.Command{
		Use:           "golden",
		Short:         "Compare this module with files of reference numbers",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(out)
	root.SetErr(errs)
	root.AddCommand(
		flags(&cobra.Command{
			Use: "check FILE…", Short: "Compare every case; exit 1 on a failure or a section that is not known", Args: cobra.MinimumNArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				o, err := options()
				if err != nil {
					return err
				}
				if o.DType == torch.BFloat16 {
					return errors.New("check compares float64 or float32; for bfloat16 use eval on rounded logits")
				}
				return check(out, args, o)
			},
		}),
		flags(&cobra.Command{
			Use: "eval FILE", Short: "Print one JSON line a case: {\"id\", \"outputs\"}", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				o, err := options()
				if err != nil {
					return err
				}
				f, err := open(args[0], o)
				if err != nil {
					return err
				}
				e := json.NewEncoder(out)
				return f.Kind.Eval(f, o, func(id string, outputs any) error {
					return e.Encode(struct {
						ID      string `json:"id"`
						Outputs any    `json:"outputs"`
					}{id, outputs})
				})
			},
		}),
		flags(&cobra.Command{
			Use: "trace FILE", Short: "Replay a training run and print it as one JSON object", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				o, err := options()
				if err != nil {
					return err
				}
				f, err := open(args[0], o)
				if err != nil {
					return err
				}
				t, err := golden.Trace(f, o)
				if err != nil {
					return err
				}
				return json.NewEncoder(out).Encode(t)
			},
		}),
	)
	return root
}

// open refuses kinds of files that know the CPU only, where another device is asked for.
func open(path string, o golden.Options) (*golden.File, error) {
	f, err := golden.Open(path)
	if err == nil && o.Device.Type != torch.DeviceCPU && f.Kind.Name() != "losses" {
		return nil, fmt.Errorf("%s: a file of %s is computed on the CPU only; leave --device out", path, f.Kind.Name())
	}
	return f, err
}

func check(out io.Writer, paths []string, o golden.Options) error {
	ok := true
	for _, p := range paths {
		f, err := open(p, o)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s (%s)\n", p, f.Kind.Name())
		r := golden.Report{Out: out}
		if err := f.Kind.Check(f, o, &r); err != nil {
			return err
		}
		r.Print(out)
		ok = ok && r.OK()
	}
	if !ok {
		return errFailed
	}
	return nil
}
