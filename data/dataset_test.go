package data

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDatasetViews(t *testing.T) {
	d := patternSet(4, &patterns{})
	d.Classes = []string{"x", "y"}
	d.Labels = []int8{0, 1, 1, 0, 1, 1, 0, 0}
	d.Split = []Split{Train, Val, Train, Test}
	require.NoError(t, d.Validate())
	require.Equal(t, []int{0, 2}, d.Rows(Train))
	require.Equal(t, []int8{1, 1}, d.LabelRow(2))
	require.Nil(t, d.ObservedRow(2))
	d, err := d.WithSinglePositives(3)
	require.NoError(t, err)
	require.NoError(t, d.Validate())

	s, err := d.Subset([]int{3, 0, 2})
	require.NoError(t, err)
	require.NoError(t, s.Validate())
	require.Equal(t, []string{"3.jpg", "0.jpg", "2.jpg"}, s.Images)
	require.Equal(t, []int8{0, 0, 0, 1, 1, 1}, s.Labels)
	require.Equal(t, d.ObservedRow(2), s.ObservedRow(2))
	require.Equal(t, []Split{Test, Train, Train}, s.Split)
	r, err := s.Source.NewReader(ReadOptions{})
	require.NoError(t, err)
	got, want := make([]byte, 12), make([]byte, 12)
	require.NoError(t, r.Read(0, 2, 2, got))
	fill(want, 3)
	require.Equal(t, want, got)
	require.NoError(t, r.Close())
	_, err = d.Subset([]int{0, 4})
	require.ErrorContains(t, err, "row 4, but it has rows 0 to 3")
	_, err = d.Subset([]int{0, 1, 0})
	require.ErrorContains(t, err, "row 0 is named twice")

	// The fingerprint sees everything but the observed labels.
	prints := map[string]bool{d.Fingerprint(): true}
	for _, change := range []func(*Dataset){
		func(d *Dataset) { d.Images = slices.Clone(d.Images); d.Images[1] = "other.jpg" },
		func(d *Dataset) { d.Classes = []string{"x", "z"} },
		func(d *Dataset) { d.Classes = []string{"xy", ""} },
		func(d *Dataset) { d.Labels = slices.Clone(d.Labels); d.Labels[7] = 1 },
		func(d *Dataset) { d.Split = slices.Clone(d.Split); d.Split[0] = Val },
	} {
		c := *d
		change(&c)
		require.False(t, prints[c.Fingerprint()])
		prints[c.Fingerprint()] = true
	}
	o := *d
	o.Observed = []int8{0, 0, 0, 0, 0, 0, 0, 0}
	require.Equal(t, d.Fingerprint(), o.Fingerprint())
	require.NotEqual(t, d.ObservedFingerprint(), o.ObservedFingerprint())
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Dataset){
		"at least one of each":                     func(d *Dataset) { d.Classes = nil },
		"3 split entries":                          func(d *Dataset) { d.Split = d.Split[:3] },
		"3 labels, but 4 rows of 1 classes are 4":  func(d *Dataset) { d.Labels = d.Labels[:3] },
		`row 2 (2.jpg), class "x": 2 is not allow`: func(d *Dataset) { d.Labels[2] = 2 },
		`class "x": -1 is not allowed among the l`: func(d *Dataset) { d.Labels[2] = -1 },
		`-2 is not allowed among the observed lab`: func(d *Dataset) { d.Observed = []int8{0, 0, -2, 0} },
		"row 1 (1.jpg), class \"x\": the observed": func(d *Dataset) { d.Observed = []int8{0, 1, 0, 0} },
		"the observed label contradicts":           func(d *Dataset) { d.Labels[3] = 1; d.Observed = []int8{0, 0, 0, -1} },
		`image "0.jpg" is both number 0 and numbe`: func(d *Dataset) { d.Images[3] = "0.jpg" },
		"class 0 has no name":                      func(d *Dataset) { d.Classes = []string{""} },
		"Split(9) is no part":                      func(d *Dataset) { d.Split[1] = 9 },
	} {
		d := patternSet(4, nil)
		change(d)
		require.ErrorContains(t, d.Validate(), want)
	}
	_, err := ParseSplit("valid")
	require.ErrorContains(t, err, "train, val or test")
}
