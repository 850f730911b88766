package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPictureNames(t *testing.T) {
	require.Equal(t, []string{"x", "y"}, pictureNames([]string{"a/x.jpg", "b/y.png"}))
	require.Equal(t, []string{"a_x.jpg", "b_x.jpg", "y"}, pictureNames([]string{"a/x.jpg", "b/x.jpg", "b/y.png"}))
	require.Equal(t, []string{"x.jpg", "x.png"}, pictureNames([]string{"./x.jpg", "x.png"}))
	require.Equal(t, []string{"d_sheet.png"}, pictureNames([]string{"d/sheet.png"}), "sheet.png is taken")
	// Names that the paths' parts give twice, or that another photo has, get a number.
	for _, photos := range [][]string{{"a_x.jpg.png", "a/x.jpg", "b/x.jpg"}, {"a/b_x.jpg", "a_b/x.jpg", "a/x.jpg", "q/b_x.jpg"}, {"a/X.jpg", "b/x.jpg", "A/x.JPG"}} {
		seen := map[string]bool{}
		for _, n := range pictureNames(photos) {
			require.False(t, seen[strings.ToLower(n)], "%v: %s twice", photos, n)
			seen[strings.ToLower(n)] = true
		}
	}
}
