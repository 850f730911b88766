package command

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gospml/gospml/cuda"
	"github.com/gospml/gospml/internal/plain"
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/dist"
)

// deviceHelp is the help of --device.
const deviceHelp = "where to compute: auto (a card where there is one), cpu, cuda, cuda:N"

// chooseDevice reads --device. auto takes the first card, or the one that a launcher gives the process, and says so, or
// why it cannot be used.
func chooseDevice(cmd *cobra.Command, s string) (torch.Device, error) {
	say := func(format string, a ...any) { plain.Fprintf(cmd.ErrOrStderr(), "spml: "+format+"\n", a...) }
	name, number, numbered := strings.Cut(strings.ToLower(s), ":")
	switch {
	case name == "cpu" && !numbered:
		return torch.CPU, nil
	case name == "auto" && !numbered:
		if cuda.DeviceCount() == 0 {
			return torch.CPU, nil
		}
		if err := cuda.Available(); err != nil {
			say("computing on the CPU: %v", err)
			return torch.CPU, nil
		}
		n, err := dist.Card(cuda.DeviceCount())
		if err != nil {
			return torch.CPU, err
		}
		what := fmt.Sprintf("cuda:%d", n)
		if p, err := cuda.DeviceProperties(n); err == nil {
			what += " (" + p.Name + ")"
		}
		say("computing on %s", what)
		return torch.CUDA(n), nil
	case name == "cuda":
		n := -1
		var err error
		if numbered {
			if n, err = strconv.Atoi(number); err != nil || n < 0 {
				return torch.CPU, usageError{fmt.Errorf("--device %q: want cuda:N, for instance cuda:0", s)}
			}
		}
		if err := cuda.Available(); err != nil {
			return torch.CPU, fmt.Errorf("--device %s: %w (--device cpu computes without)", s, err)
		}
		count := cuda.DeviceCount()
		if n < 0 {
			if n, err = dist.Card(count); err != nil {
				return torch.CPU, err
			}
		}
		if n >= count {
			return torch.CPU, usageError{fmt.Errorf("--device %s: there are %d cards here, numbered from 0", s, count)}
		}
		return torch.CUDA(n), nil
	}
	return torch.CPU, usageError{fmt.Errorf("--device %q is none of auto, cpu, cuda, cuda:N", s)}
}
