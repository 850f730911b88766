package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPagesCompile builds every Go line of the pages for people who come from elsewhere.
func TestPagesCompile(t *testing.T) {
	var b strings.Builder
	b.WriteString(`package main

import (
	"github.com/gospml/gospml/torch"
	"github.com/gospml/gospml/torch/amp"
	"github.com/gospml/gospml/torch/nn"
	"github.com/gospml/gospml/torch/optim"
)

var (
	x, y *torch.Tensor
	m    nn.Sequential
	opt  optim.Optimizer
	_    = amp.Options{}
)

func main() {}
`)
	code := regexp.MustCompile("`([^`]+)`")
	lines := 0
	for _, page := range []string{"from-pytorch.md", "from-gotorch.md"} {
		raw, err := os.ReadFile(filepath.Join("../../docs", page))
		require.NoError(t, err)
		for n, line := range strings.Split(string(raw), "\n") {
			cells := strings.Split(line, " | ")
			if !strings.HasPrefix(line, "|") || len(cells) != 2 || !strings.Contains(cells[1], "`") {
				continue
			}
			for _, c := range code.FindAllStringSubmatch(cells[1], -1) {
				lines++
				fmt.Fprintf(&b, "\n//line %s:%d\nfunc _() { %s }\n", page, n+1, c[1])
			}
		}
	}
	require.Greater(t, lines, 40)
	file := filepath.Join(t.TempDir(), "pages.go")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	cmd := exec.Command("go", "build", "-o", filepath.Join(t.TempDir(), "pages"), file)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
