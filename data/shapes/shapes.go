package shapes

import (
	"bytes"
	"fmt"
	"image"
	"image/png"

	"github.com/gospml/gospml/data"
	"github.com/gospml/gospml/data/pixel"
)

// New returns a data set of drawn pictures: nTrain train rows, then nVal val rows, then nTest test rows. A part's picture i depends on the seed
// and i alone, so a larger set begins with the pictures of a smaller one. Pictures are drawn when they are read. Observed labels are not set: see [data.Dataset.WithSinglePositives].
func New(seed uint64, nTrain, nVal, nTest int) (*data.Dataset, error) {
	const most = 10_000_000
	n := 0
	for _, k := range []int{nTrain, nVal, nTest} {
		if k < 0 || k > most {
			return nil, fmt.Errorf("shapes: %d train, %d val and %d test pictures: each must be 0 to %d", nTrain, nVal, nTest, most)
		}
		n += k
	}
	if n == 0 {
		return nil, fmt.Errorf("shapes: no pictures asked for")
	}
	d := &data.Dataset{
		Name:    "shapes",
		Classes: append([]string(nil), Classes[:]...),
		Images:  make([]string, 0, n),
		Labels:  make([]int8, 0, n*len(Classes)),
		Split:   make([]data.Split, 0, n),
		Info: data.Info{
			Labels: fmt.Sprintf("what the pictures show, drawn by code with seed %d", seed),
			Split:  "pictures of separate ranges",
		},
	}
	src := &source{seed: seed, index: make([]uint64, 0, n)}
	for part, k := range []int{nTrain, nVal, nTest} {
		for i := range k {
			index := uint64(part)<<32 | uint64(i)
			objects, _ := scene(seed, index)
			y := labels(objects)
			d.Labels = append(d.Labels, y[:]...)
			d.Images = append(d.Images, fmt.Sprintf("%v/%d", data.Split(part), i))
			d.Split = append(d.Split, data.Split(part))
			src.index = append(src.index, index)
		}
	}
	d.Source = src
	return d, nil
}

// source draws rows when they are read.
type source struct {
	seed  uint64
	index []uint64
}

func (s *source) NewReader(opt data.ReadOptions) (data.Reader, error) {
	return &reader{source: s, filter: opt.Filter}, nil
}

func (s *source) Close() error { return nil }

// ReadFile gives a row's picture as a PNG file, for what reads photos as files ([data.RawSource]).
func (s *source) ReadFile(row int, buf []byte) ([]byte, error) {
	rgb := make([]byte, PictureBytes)
	Draw(s.seed, s.index[row], rgb)
	m := image.NewRGBA(image.Rect(0, 0, Size, Size))
	for i := range Size * Size {
		copy(m.Pix[4*i:], rgb[3*i:3*i+3])
		m.Pix[4*i+3] = 255
	}
	b := bytes.NewBuffer(buf[:0])
	err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(b, m)
	return b.Bytes(), err
}

type reader struct {
	*source
	filter  pixel.Filter
	picture []byte // for sizes other than the pictures' own
}

// Read draws a row's picture. Another size than [Size] needs the image library, as photos do.
func (r *reader) Read(row, w, h int, dst []byte) error {
	if w == Size && h == Size {
		Draw(r.seed, r.index[row], dst)
		return nil
	}
	if r.picture == nil {
		r.picture = make([]byte, PictureBytes)
	}
	Draw(r.seed, r.index[row], r.picture)
	p, err := pixel.Resize(&pixel.RGB{W: Size, H: Size, Pix: r.picture}, w, h, r.filter)
	if err != nil {
		return err
	}
	copy(dst, p.Pix)
	return nil
}
