package pretrain

import (
	"context"
	"math"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/caught"
)

// TestExtremeSettings: a number nobody should set is refused before anything is allocated.
func TestExtremeSettings(t *testing.T) {
	pairs := NewShapes(1, 8)
	for i := range reflect.TypeFor[Settings]().NumField() {
		f := reflect.TypeFor[Settings]().Field(i)
		var values []any
		switch f.Type.Kind() {
		case reflect.Int:
			values = []any{math.MinInt64, -1, 1 << 62, math.MaxInt64}
		case reflect.Float64:
			values = []any{math.NaN(), math.Inf(1), math.Inf(-1), -1.0, math.MaxFloat64}
		}
		for _, v := range values {
			s := small()
			reflect.ValueOf(&s).Elem().Field(i).Set(reflect.ValueOf(v))
			_, err := Run(context.Background(), s, pairs, Events{})
			require.Error(t, err, "%s = %v", f.Name, v)
			var fault *caught.Error
			require.NotErrorAs(t, err, &fault, "%s = %v", f.Name, v)
		}
	}
	for _, n := range []int{-1, 0} {
		s := small()
		_, err := Run(context.Background(), s, NewShapes(1, n), Events{})
		require.ErrorContains(t, err, "no drawn pictures")
	}
}
