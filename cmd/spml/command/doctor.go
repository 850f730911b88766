package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/data/pixel"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/spml/rundir"
	"github.com/gospml/gospml/third_party/native"
	"github.com/gospml/gospml/torch"
)

// finding is one line of the doctor's report.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"` // the command that mends it
}

// errUnwell is returned when a check failed.
var errUnwell = fmt.Errorf("not everything is in place: %w", native.ErrNotFound)

func newDoctor() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check that everything is in place and how fast it is",
		Long: `Looks for the native libraries, trains 20 steps, checks a gradient against differences, measures matrix products and photo
decoding, and prints the command that mends each finding.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all []finding
			out := cmd.OutOrStdout()
			say := func(f finding) {
				all = append(all, f)
				if !asJSON {
					printFinding(out, f)
				}
			}
			examine(cmd, say)
			if asJSON {
				if err := json.NewEncoder(out).Encode(all); err != nil {
					return err
				}
			}
			for _, f := range all {
				if !f.OK {
					return errUnwell
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printFinding(w io.Writer, f finding) {
	mark := "ok  "
	if !f.OK {
		mark = "FAIL"
	}
	plain.Fprintf(w, "%s  %-11s %s\n", mark, f.Check, f.Text)
	if f.Mend != "" {
		plain.Fprintf(w, "      %-11s run: %s\n", "", f.Mend)
	}
}

func examine(cmd *cobra.Command, say func(finding)) {
	version, commit := rundir.BuildVersion()
	say(finding{"program", true, fmt.Sprintf("gospml %s %s, %s, %d cores", version, commit, runtime.Version(), runtime.NumCPU()), ""})
	const setup = "spml setup"
	st, err := native.Describe()
	if err != nil {
		say(finding{"cache", false, err.Error(), ""})
		return
	}
	if st.Torch == nil {
		say(finding{"libtorch", false, st.TorchErr.Error(), setup})
	} else {
		say(finding{"libtorch", true, fmt.Sprintf("%s in %s (from %s)", native.TorchVersion, st.Torch.Dir, st.Torch.Source), ""})
	}
	for _, l := range st.Libs {
		if l.Err != nil {
			text := l.Name + " is not built"
			if errors.Is(l.Err, native.ErrDamaged) {
				text = l.Err.Error()
			}
			say(finding{"library", false, text, setup})
		} else {
			say(finding{"library", true, l.Path, ""})
		}
	}
	if st.TurboJPEG == "" {
		say(finding{"jpeg", false, "libturbojpeg.so.0 is not installed", "apt-get install libturbojpeg0"})
	} else {
		say(finding{"jpeg", true, st.TurboJPEG, ""})
	}
	say(writable(st.CacheDir))
	libraries, wrong := native.Verify()
	damaged := false
	for _, err := range wrong {
		damaged = damaged || errors.Is(err, native.ErrDamaged)
		text, mend, _ := strings.Cut(err.Error(), "; run `")
		say(finding{"cache", false, text, strings.Replace(mend, "`", "", 1)})
	}
	if damaged {
		return // loading it could end this program
	}
	say(finding{"hashes", true, fmt.Sprintf("%d installed libraries are what was installed", libraries), ""})
	if err := torch.Available(); err != nil {
		say(finding{"load", false, err.Error(), setup})
		return
	}
	say(finding{"load", true, fmt.Sprintf("libtorch answers, %s instructions, %d threads per operation", torch.CPUCapability(), torch.NumThreads()), ""})
	for _, f := range cards() {
		say(f)
	}
	for _, check := range []func() finding{trainSteps, gradient, matmul, decode} {
		var f finding
		if err := torch.Try(func() { f = check() }); err != nil {
			f = finding{"maths", false, err.Error(), setup + " --force"}
		}
		say(f)
		if cmd.Context().Err() != nil {
			return
		}
	}
}

func writable(dir string) finding {
	probe, err := os.CreateTemp(dir, ".probe-*")
	if errors.Is(err, os.ErrNotExist) {
		return finding{"cache", false, dir + " does not exist", "spml setup"}
	}
	if err != nil {
		return finding{"cache", false, err.Error(), "chmod u+w " + dir + ", or set GOSPML_CACHE to a folder you may write"}
	}
	err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	return finding{"cache", err == nil, dir + " can be written", ""}
}

// cards says what the graphics cards are and what they lack. A machine without one is well.
func cards() []finding {
	n, err := cuda.DeviceCount(), cuda.Available()
	switch {
	case errors.Is(err, cuda.ErrNoDevice):
		return []finding{{"card", true, "none, runs compute on the CPU (" + strings.TrimPrefix(err.Error(),
			"cuda: ") + ")", ""}}
	case err != nil:
		text, mend, _ := strings.Cut(err.Error(), "; run `")
		return []finding{{"card", false, fmt.Sprintf("%d of them cannot be used: %s", n,
			strings.TrimPrefix(text, "cuda: ")), strings.TrimSuffix(mend, "`")}}
	}
	driver := ""
	if s, err := cuda.DeviceStatus(0); err == nil {
		driver = s.Driver
	}
	var all []finding
	for i := range n {
		p, err := cuda.DeviceProperties(i)
		free, _, err2 := cuda.MemoryInfo(i)
		if err = errors.Join(err, err2); err != nil {
			all = append(all, finding{"card", false, fmt.Sprintf("cuda:%d: %v", i, err), ""})
			continue
		}
		all = append(all, cardFinding(i, p, free, driver))
	}
	return all
}

// cardFinding is a card in a line.
func cardFinding(i int, p cuda.Properties, free int64, driver string) finding {
	_, ok := cuda.Code(p.Major, p.Minor)
	text := fmt.Sprintf("cuda:%d %v, %.1f GB free", i, p, float64(free)/1e9)
	if driver != "" {
		text += ", driver " + driver
	}
	if p.Major < 8 {
		text += ", no bfloat16: runs take float16"
	}
	return finding{"card", ok, text, ""}
}

// trainSteps fits 20 steps of gradient descent on a fixed problem, whose loss must fall.
func trainSteps() finding {
	var first, last float64
	torch.Scope(func(*torch.Arena) {
		g := torch.NewGenerator(0)
		x, y := torch.Randn(torch.S(64, 10), g), torch.Randn(torch.S(64, 1), g)
		w := torch.Zeros(torch.S(10, 1), torch.RequiresGrad)
		for i := range 20 {
			l := x.Mm(w).MseLoss(y, torch.ReductionMean)
			l.Backward()
			last = l.Item()
			if i == 0 {
				first = last
			}
			torch.NoGrad(func() { w.Sub_(w.Grad().MulScalar(0.1)) })
			torch.ZeroGrad([]*torch.Tensor{w}, false)
		}
	})
	return finding{"training", last < first, fmt.Sprintf("20 steps, loss %.4f -> %.4f", first, last), ""}
}

// gradient compares one derivative with a central difference in float64.
func gradient() finding {
	const at, h = 0.7, 1e-6
	f := func(v float64) float64 { return torch.Scalar(v).Sigmoid().Log().Item() }
	var got float64
	torch.Scope(func(*torch.Arena) {
		x := torch.Scalar(at).SetRequiresGrad(true)
		x.Sigmoid().Log().Backward()
		got = x.Grad().Item()
	})
	want := (f(at+h) - f(at-h)) / (2 * h)
	return finding{"gradient", math.Abs(got-want) < 1e-8, fmt.Sprintf("autograd %.9f, differences %.9f", got, want), ""}
}

func matmul() finding {
	const n, reps = 1024, 10
	best := math.Inf(1)
	torch.Scope(func(*torch.Arena) {
		a, b := torch.Rand(torch.S(n, n)), torch.Rand(torch.S(n, n))
		for range reps {
			start := time.Now()
			a.Mm(b)
			best = min(best, time.Since(start).Seconds())
		}
	})
	return finding{"matmul", true, fmt.Sprintf("%.0f GFLOP/s in float32 (1024³)", 2*n*n*n/best/1e9), ""}
}

// decode measures the resampling of a drawn picture to 448×448; JPEG decoding is measured where a photo can be encoded.
func decode() finding {
	photo, err := testPhoto()
	if err != nil {
		return finding{"photos", false, err.Error(), ""}
	}
	var d pixel.Decoder
	out := make([]float32, 3*448*448)
	one := func() error {
		return d.Normalized(photo, 448, 448, pixel.Bilinear, pixel.ImageNetMean, pixel.ImageNetStd, false, out)
	}
	if err := one(); err != nil {
		return finding{"photos", false, err.Error(), "spml setup"}
	}
	const reps = 20
	start := time.Now()
	for range reps {
		if err := one(); err != nil {
			return finding{"photos", false, err.Error(), ""}
		}
	}
	return finding{"photos", true, fmt.Sprintf("%.0f photos/s on one core (500×375 JPEG to 448×448, normalised)", reps/time.Since(start).Seconds()), ""}
}
