package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const head = "# one\n# two\n# three\n# section\n"

const mm = "aten::mm(Tensor self, Tensor mat2) -> Tensor | Mm(mat2) | Mm multiplies.\n"

func TestParseTable(t *testing.T) {
	sections, err := parseTable(head + mm + "\n# other, things\n" +
		"aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a) | View(size...) | View shows.\n" +
		"aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!) | Add_(other) | Add_ adds.\n" +
		"aten::cat(Tensor[] tensors, int dim=0) -> Tensor | func Cat(tensors, dim) | Cat joins.\n" +
		"aten::sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices) | Sort(dim) | Sort sorts.\n" +
		"aten::empty.memory_format(SymInt[] size, *, ScalarType? dtype=None) -> Tensor | func Cat2(size, dtype) | Cat2 is new.\n")
	require.NoError(t, err)
	require.Len(t, sections, 2)
	require.Equal(t, "other, things", sections[1].title)
	e := sections[1].entries
	require.Equal(t, []param{{"Tensor", "self", false}, {"int[]", "size", false}}, e[0].params)
	require.Equal(t, "size", e[0].variadic)
	require.Equal(t, "Tensor", e[1].overload)
	require.True(t, e[1].inplace)
	require.Empty(t, e[1].returns)
	require.Equal(t, map[string]bool{"self": true, "other": true}, e[1].shown)
	require.Equal(t, []param{{"Tensor[]", "tensors", false}, {"int", "dim", true}}, e[2].params)
	require.True(t, e[2].function)
	require.Equal(t, []string{"Tensor", "Tensor"}, e[3].returns)
	require.Equal(t, []param{{"int[]", "size", false}, {"ScalarType", "dtype", true}}, e[4].params)
}

func TestParseTableRefuses(t *testing.T) {
	for name, c := range map[string]struct{ table, words string }{
		"duplicate method":      {head + mm + mm, "line 6: Mm is already on line 5"},
		"duplicate function":    {head + "aten::mm(Tensor self, Tensor mat2) -> Tensor | func F(self, mat2) | F is.\n# more\naten::mv(Tensor self, Tensor vec) -> Tensor | func F(self, vec) | F is.", "line 7: func F is already on line 5"},
		"unknown parameter":     {head + "aten::mm(Tensor self, Tensor mat2) -> Tensor | Mm(mat3) | Mm is.", `line 5: aten::mm has no parameter "mat3"`},
		"order":                 {head + "aten::lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor | Lerp(weight, end) | Lerp is.", `parameter "end" is out of the schema's order`},
		"twice":                 {head + "aten::mm(Tensor self, Tensor mat2) -> Tensor | Mm(mat2, mat2) | Mm is.", `parameter "mat2" is out of the schema's order`},
		"hidden without a need": {head + "aten::mm(Tensor self, Tensor mat2) -> Tensor | Mm() | Mm is.", `parameter "mat2" has no default and must be shown`},
		"method of no tensor":   {head + "aten::cat(Tensor[] tensors, int dim=0) -> Tensor | Cat(dim) | Cat is.", "a method needs a tensor as its first argument"},
		"variadic in the middle": {head + "aten::roll(Tensor self, SymInt[1] shifts, int[1] dims=[]) -> Tensor | Roll(shifts..., dims) | Roll is.",
			"shifts... must be the last parameter"},
		"variadic number": {head + "aten::squeeze.dim(Tensor(a) self, int dim) -> Tensor(a) | Squeeze(dim...) | Squeeze is.", "dim is no list and cannot be variadic"},
		"small name":      {head + "aten::t(Tensor(a) self) -> Tensor(a) | t() | t is.", `"t" is no exported Go name`},
		"doc":             {head + "aten::t(Tensor(a) self) -> Tensor(a) | T() | Transposes.", `the doc line must begin with "T"`},
		"two columns":     {head + "aten::t(Tensor(a) self) -> Tensor(a) | T()", "want `schema | Name(params) | doc`"},
		"no parentheses":  {head + "aten::t(Tensor(a) self) -> Tensor(a) | T | T is.", `"T": want Name(params)`},
		"no schema":       {head + "aten::t | T() | T is.", "is no schema"},
		"unbalanced":      {head + "aten::t(Tensor(a) self -> Tensor | T() | T is.", "unbalanced parentheses"},
		"no returns":      {head + "aten::t(Tensor(a) self) | T() | T is.", "has no returns"},
		"no section":      {"# one\n# two\n# three\n" + mm, "no section title before it"},

		"a float that is a tensor": {
			head + "aten::mm(Tensor self, Tensor mat2) -> Tensor | Mm(mat2 float) | Mm is.",
			"Mm: mat2 float: only a Scalar can be shown",
		},
		"another type": {
			head + "aten::elu(Tensor self, Scalar alpha=1) -> Tensor | Elu(alpha int) | Elu is.",
			"Elu: alpha int: only a Scalar",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTable(c.table)
			require.ErrorContains(t, err, c.words)
		})
	}
}
