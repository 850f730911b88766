package data

import "fmt"

// Features are vectors that were measured or computed before: one for each row.
type Features struct {
	Dim    int
	Values []float32 // [N, Dim]
}

// N is the number of rows.
func (f *Features) N() int {
	if f.Dim == 0 {
		return 0
	}
	return len(f.Values) / f.Dim
}

// Row is the vector of a row, [Dim]. It is a view.
func (f *Features) Row(row int) []float32 { return f.Values[row*f.Dim : (row+1)*f.Dim : (row+1)*f.Dim] }

// Gather returns the vectors of the given rows.
func (f *Features) Gather(rows []int) *Features {
	out := &Features{Dim: f.Dim, Values: make([]float32, 0, len(rows)*f.Dim)}
	for _, r := range rows {
		out.Values = append(out.Values, f.Row(r)...)
	}
	return out
}

func (f *Features) check(rows int) error {
	if f.Dim < 1 || len(f.Values) != rows*f.Dim {
		return fmt.Errorf("%d feature values do not fill %d rows of %d", len(f.Values), rows, f.Dim)
	}
	return nil
}
