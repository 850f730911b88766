package scorefile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/npy"
	"github.com/gospml/gospml/torch/safetensors"
)

func file(t *testing.T, name, content string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestArrays(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, a *npy.Array, err error) string {
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		require.NoError(t, npy.Write(path, a))
		return path
	}
	a, err := npy.New([]int64{2, 3}, []float32{1, 0, -1, 0.5, 0, 1})
	m, err := Read(write("f4.npy", a, err))
	require.NoError(t, err)
	require.Equal(t, [2]int{2, 3}, [2]int{m.N, m.C})
	require.Equal(t, []float32{1, 0, -1, 0.5, 0, 1}, m.Single)
	_, err = m.Labels()
	require.ErrorContains(t, err, "row 1, column 0: 0.5 is no label")
	a, err = npy.New([]int64{3}, []float64{1, 0, -1})
	m, err = Read(write("f8.npy", a, err))
	require.NoError(t, err)
	require.Equal(t, [2]int{3, 1}, [2]int{m.N, m.C})
	y, err := m.Labels()
	require.NoError(t, err)
	require.Equal(t, []int8{1, 0, -1}, y)
	a, err = npy.New([]int64{1, 1, 1}, []int64{1})
	_, err = Read(write("i8.npy", a, err))
	require.ErrorContains(t, err, "its shape is [1 1 1]")

	st := filepath.Join(dir, "run.safetensors")
	require.NoError(t, safetensors.Write(st, []safetensors.Tensor{
		{Name: "logits", Dtype: safetensors.BF16, Shape: []int64{1, 2}, Data: []byte{0x80, 0x3f, 0x00, 0xc0}},
		{Name: "labels", Dtype: safetensors.U8, Shape: []int64{1, 2}, Data: []byte{1, 0}},
	}, nil))
	m, err = Read(st + ":logits")
	require.NoError(t, err)
	require.Equal(t, []float32{1, -2}, m.Single)
	m, err = Read(st + ":labels")
	require.NoError(t, err)
	require.Equal(t, []float32{1, 0}, m.Single)
	_, err = Read(st)
	require.ErrorContains(t, err, "several arrays: write "+st+":NAME with one of ")
	_, err = Read(st + ":p")
	require.ErrorContains(t, err, `no array "p"`)
	_, err = Read(filepath.Join(dir, "none.npy"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = Read(file(t, "x.txt", ""))
	require.ErrorContains(t, err, ".npy, .npz, .safetensors or .csv")
}

func TestCSV(t *testing.T) {
	for name, c := range map[string]struct {
		content         string
		images, classes []string
		want            []float64
	}{
		"plain":             {"0.5,1\n2,3e-1\n", nil, nil, []float64{0.5, 1, 2, 0.3}},
		"header":            {"cat,dog\n1,0\n", nil, []string{"cat", "dog"}, []float64{1, 0}},
		"header and names":  {"\ufefffilename,cat,dog\r\na.jpg,1,0\r\nb.jpg,0,1\r\n", []string{"a.jpg", "b.jpg"}, []string{"cat", "dog"}, []float64{1, 0, 0, 1}},
		"names only":        {"a.jpg,1\nb.jpg,0\n", []string{"a.jpg", "b.jpg"}, nil, []float64{1, 0}},
		"numbers as names":  {"id,cat\n12,1\n7,0\n", []string{"12", "7"}, []string{"cat"}, []float64{1, 0}},
		"one column":        {"cat\n1\n0\n", nil, []string{"cat"}, []float64{1, 0}},
		"nan is kept":       {"1,2\nnan,3\n", nil, nil, nil},
		"quotes and spaces": {"\"a,b\", 1, 0\n", []string{"a,b"}, nil, []float64{1, 0}},
	} {
		m, err := Read(file(t, "m.csv", c.content))
		require.NoError(t, err, name)
		require.Equal(t, c.images, m.Images, name)
		require.Equal(t, c.classes, m.Classes, name)
		if c.want != nil {
			require.Equal(t, c.want, m.Double, name)
		}
	}
	for content, want := range map[string]string{
		"":                 "no rows of numbers",
		"a,b\n":            "no rows of numbers",
		"1,2\n3\n":         "wrong number of fields",
		"1,2\n3,x\n":       `line 2, value 2: "x" is no number`,
		"1,2\n3,\n":        `line 2, value 2: "" is no number`,
		"image\na\n":       "line 2: it holds no numbers",
		"image,a\nx,\"1\n": "line",
	} {
		_, err := Read(file(t, "m.csv", content))
		require.ErrorContains(t, err, want, "%q", content)
	}
}

func TestMatch(t *testing.T) {
	scores, err := Read(file(t, "s.csv", "image,cat,dog\na,0.1,0.2\nb,0.3,0.4\n"))
	require.NoError(t, err)
	other, err := Read(file(t, "y.csv", "image,dog,cat\nb,1,0\na,-1,1\n"))
	require.NoError(t, err)
	same, err := scores.Match(other)
	require.NoError(t, err)
	require.Equal(t, []float64{1, -1, 0, 1}, same.Double)
	for content, want := range map[string]string{
		"image,cat,dog\na,0,1\n":         "it is 1 × 2",
		"image,cat,dog\na,0,1\na,0,1\n":  `the image "a" stands there twice`,
		"image,cat,dog\na,0,1\nc,0,1\n":  `the image "b" of`,
		"image,cat,bird\na,0,1\nb,0,1\n": `the class "dog" of`,
	} {
		other, err := Read(file(t, "y.csv", content))
		require.NoError(t, err)
		_, err = scores.Match(other)
		require.ErrorContains(t, err, want)
	}
	plain, err := Read(file(t, "y.csv", "1,0\n0,1\n"))
	require.NoError(t, err)
	same, err = scores.Match(plain)
	require.NoError(t, err)
	require.Same(t, plain, same)
}

func FuzzCSV(f *testing.F) {
	f.Add("image,cat\na,1\n")
	f.Add("1,2\n3,4")
	f.Fuzz(func(t *testing.T, content string) {
		m, err := Read(file(t, "m.csv", content))
		if err == nil && len(m.Double) != m.N*m.C {
			t.Fatalf("%d values in %d × %d", len(m.Double), m.N, m.C)
		}
	})
}
