package torch_test

import (
	"strings"
	"testing"

	"github.com/gospml/gospml/torch"
	"github.com/stretchr/testify/require"
)

// tableLine is a line of the operator table; opgen writes them into schemas.gen_test.go.
type tableLine struct {
	schema string
	fn     any   // the Go function; a method takes its receiver first
	shown  []int // positions in the schema of the parameters of fn
}

func (l tableLine) op() string { return l.schema[:strings.IndexByte(l.schema, '(')] }

// TestSchemas compares the table with the operators of the loaded libtorch.
func TestSchemas(t *testing.T) {
	require.Greater(t, len(table), 150)
	for _, l := range table {
		if err := schemaDiffers(l.op(), l.schema); err != "" {
			t.Errorf("internal/opgen/ops.txt: %s", err)
		}
	}
}

func schemaDiffers(op, schema string) string {
	if !torch.Has(op) {
		return "libtorch has no operator " + op
	}
	have := torch.Schema(op)
	if have == schema {
		return ""
	}
	return op + " differs from the loaded libtorch\n\ttable:    " + schema + "\n\tlibtorch: " + have + "\n\t          " + strings.Repeat(" ", common(schema, have)) + "^ differs here"
}

func common(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

func TestSchemaDiffers(t *testing.T) {
	require.Contains(t, schemaDiffers("aten::mm", "aten::mm(Tensor self, Tensor mat3) -> Tensor"),
		"\ttable:    aten::mm(Tensor self, Tensor mat3) -> Tensor\n\tlibtorch: aten::mm(Tensor self, Tensor mat2) -> Tensor\n\t"+strings.Repeat(" ", len("table:    aten::mm(Tensor self, Tensor mat"))+"^ differs here")
	require.Equal(t, "libtorch has no operator aten::nothing", schemaDiffers("aten::nothing", "aten::nothing() -> ()"))
}
