package data

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/caught"
	"github.com/gospml/gospml/internal/onewriter"
)

// faulty is a logger that panics.
type faulty struct{ slog.Handler }

func (faulty) Enabled(context.Context, slog.Level) bool  { return true }
func (faulty) Handle(context.Context, slog.Record) error { panic("a fault in the logger") }
func (f faulty) WithAttrs([]slog.Attr) slog.Handler      { return f }
func (f faulty) WithGroup(string) slog.Handler           { return f }
func endOf(l *Loader, p Plan) (err error) {
	for _, err = range l.Batches(context.Background(), p) {
	}
	return err
}

// TestFaultsOfCallersEndTheWalk: functions of a caller run on the loader's goroutines, where a panic would end the
// program.
func TestFaultsOfCallersEndTheWalk(t *testing.T) {
	p := Plan{Order: Shuffled([]int{0, 1, 2, 3, 4, 5, 6, 7}, 1, 1), BatchSize: 2, Flip: func(int) bool { panic("a fault in Flip") }}
	l := newLoader(t, patternSet(8, &patterns{}), LoaderOptions{Workers: 2})
	var fault *caught.Error
	require.ErrorAs(t, endOf(l, p), &fault)
	require.ErrorContains(t, fault, "a fault in Flip")
	require.Contains(t, string(fault.Stack), "faults_test.go")

	p.Flip = nil
	require.NoError(t, endOf(l, p), "the loader serves the next walk")
	l = newLoader(t, patternSet(8, &patterns{panic: map[int]bool{3: true}}), LoaderOptions{Workers: 2, Log: slog.New(faulty{})})
	require.ErrorAs(t, endOf(l, p), &fault)
	require.ErrorContains(t, fault, "a fault in the logger")
}

// TestExtremeLoaderOptions: whatever stands in a number of the options, it is an error or works.
func TestExtremeLoaderOptions(t *testing.T) {
	for i := range reflect.TypeFor[LoaderOptions]().NumField() {
		f := reflect.TypeFor[LoaderOptions]().Field(i)
		if f.Type.Kind() != reflect.Int && f.Type.Kind() != reflect.Int64 {
			continue
		}
		for _, x := range []int64{math.MinInt64, -1, 1 << 31, 1 << 62, math.MaxInt64} {
			o := LoaderOptions{Width: 5, Height: 3, Log: quiet()}
			reflect.ValueOf(&o).Elem().Field(i).SetInt(x)
			l, err := NewLoader(patternSet(4, &patterns{}), o)
			if err == nil {
				require.NoError(t, endOf(l, Plan{Order: []int{0, 1, 2, 3}, BatchSize: 2}), "%s = %d", f.Name, x)
				require.NoError(t, l.Close())
			}
		}
	}
	for _, size := range []int{math.MinInt64, -1, 0, 1 << 62, math.MaxInt64} {
		l := newLoader(t, patternSet(4, &patterns{}), LoaderOptions{})
		_ = endOf(l, Plan{Order: []int{0, 1, 2, 3}, BatchSize: size})
		_ = endOf(l, Plan{Order: []int{0, size}, BatchSize: 2, Start: size, Rank: size, World: size})
	}
}

// TestWriteIsAlone: two conversions into one folder would mix their files.
func TestWriteIsAlone(t *testing.T) {
	d := patternSet(4, &patterns{})
	dir := filepath.Join(t.TempDir(), "out")
	require.NoError(t, Write(d, dir, WriteOptions{Format: "csv", Lossy: true}))
	require.NoFileExists(t, filepath.Join(dir, lockFile))
	require.ErrorContains(t, Write(d, dir, WriteOptions{Format: "csv", Lossy: true}), "is not empty")

	dir = t.TempDir()
	l, err := onewriter.Take(filepath.Join(dir, lockFile), dir)
	require.NoError(t, err)
	require.ErrorContains(t, Write(d, dir, WriteOptions{Format: "csv", Lossy: true}), "is being written by process")
	require.NoError(t, l.Close())
	require.NoError(t, Write(d, dir, WriteOptions{Format: "csv", Lossy: true}))
}
