package torchtest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

var held []*torch.Tensor

func TestNoLeaks(t *testing.T) {
	// Garbage is no leak, and neither is what a scope or Free took.
	require.Empty(t, record(t, func(t testing.TB) {
		NoLeaks(t)
		for range 50 {
			torch.Ones(torch.S(4)).AddScalar(1)
		}
		torch.Ones(torch.S(4)).Free()
		torch.Scope(func(*torch.Arena) { torch.Ones(torch.S(4)).AddScalar(1) })
	}))
	messages := record(t, func(t testing.TB) {
		NoLeaks(t)
		held = append(held, torch.Ones(torch.S(4)), torch.Ones(torch.S(2)))
	})
	require.Len(t, messages, 1)
	require.Contains(t, messages[0], "2 tensors alive at the end that were not at the start")
	if torch.LiveAt() == nil {
		require.Contains(t, messages[0], "set GOSPML_TRACE=1")
	} else {
		require.Contains(t, messages[0], "2 made at leaks_test.go:")
	}
	for _, x := range held {
		x.Free()
	}
	held = nil
}

// TestTrace runs itself and other tests of this package in a process that traces: the trace knows as many tensors as
// there are.
func TestTrace(t *testing.T) {
	if torch.LiveAt() == nil {
		c := exec.Command(os.Args[0], "-test.run=TestNoLeaks$|TestGradcheckAccepts|TestTrace$", "-test.v")
		c.Env = append(os.Environ(), "GOSPML_TRACE=1")
		out, err := c.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "PASS: TestTrace")
		return
	}
	x := torch.Ones(torch.S(2, 2))
	view, again := x.T(), x.Retain()
	torch.Scope(func(outer *torch.Arena) {
		a := x.Exp()
		x.Retain().Free()
		torch.Scope(func(s *torch.Arena) { held = append(held, s.Keep(a.Exp()), x.Log()) })
		require.Equal(t, torch.Live(), total())
		outer.Keep(held[0])
	})
	view.Free()
	settled(0)
	require.Equal(t, torch.Live(), total())
	require.NotZero(t, total())
	held[0].Free()
	again.Free()
	x.Free()
	held = nil
	settled(0)
	require.Equal(t, torch.Live(), total())
}

func total() int {
	n := 0
	for _, k := range torch.LiveAt() {
		n += k
	}
	return n
}
