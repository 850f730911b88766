package pretrain

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/pixel"
)

// OpenCSV reads pairs from a table with the columns filename and caption; files lie beside the table or in folders below it. Pictures are squashed to the
// model's size with its kernel and drawn in random order, each once an epoch. Not safe for concurrent use.
func OpenCSV(path string, c clip.Config, seed uint64) (Pairs, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := csv.NewReader(f)
	head, err := r.Read()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	name, caption := slices.Index(head, "filename"), slices.Index(head, "caption")
	if name < 0 || caption < 0 {
		return nil, fmt.Errorf("%s: the first line has to name the columns filename and caption, it is %q", path, head)
	}
	p := &filePairs{dir: filepath.Dir(path), config: c, random: rand.New(rand.NewPCG(seed, 2))}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if !filepath.IsLocal(row[name]) {
			return nil, fmt.Errorf("%s: %q leads out of the table's folder", path, row[name])
		}
		p.names, p.captions = append(p.names, row[name]), append(p.captions, row[caption])
	}
	if len(p.names) < 2 {
		return nil, fmt.Errorf("%s has %d pairs; contrast needs 2 or more", path, len(p.names))
	}
	p.decoder, err = pixel.NewDecoder(pixel.Options{})
	return p, err
}

type filePairs struct {
	dir             string
	config          clip.Config
	names, captions []string
	random          *rand.Rand
	order           []int
	decoder         *pixel.Decoder
}

// Vocabulary is all captions.
func (p *filePairs) Vocabulary() []string { return p.captions }

// Next reads the next pictures of the epoch's order.
func (p *filePairs) Next(pictures []byte, n int) ([]string, error) {
	h, w := p.config.Vision.ImageSize[0], p.config.Vision.ImageSize[1]
	filter := pixel.Bilinear
	if p.config.Preprocess.Interpolation == clip.Bicubic {
		filter = pixel.Bicubic
	}
	captions := make([]string, n)
	for i := range captions {
		if len(p.order) == 0 {
			p.order = p.random.Perm(len(p.names))
		}
		k := p.order[0]
		p.order = p.order[1:]
		path := filepath.Join(p.dir, filepath.FromSlash(p.names[k]))
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if err := p.decoder.Resized(b, w, h, filter, pictures[i*h*w*3:(i+1)*h*w*3]); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		captions[i] = p.captions[k]
	}
	return captions, nil
}
