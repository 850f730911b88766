package pretrain

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"

	"github.com/gospml/gospml/clip"
	"github.com/gospml/gospml/data/shapes"
)

// ShapesSeed is the seed of the pictures that the built-in model is trained on. Data sets of package shapes take the
// seeds that users name, which are small numbers; a test compares the pictures by hash.
const ShapesSeed = 0xC11B_5EED_0000_0001

// Shapes are the settings of the built-in model.
func Shapes() Settings {
	p, err := clip.NamedPreprocess("squash")
	if err != nil {
		panic(err) // the name is in Variants
	}
	return Settings{
		Model: clip.Config{EmbedDim: 64, Preprocess: p,
			Vision: &clip.Vision{ImageSize: [2]int{shapes.Size, shapes.Size}, Width: 16, Heads: 8, Stages: []int{1, 1, 1, 1}, Positions: clip.PositionsAuto},
			Text:   &clip.Text{ContextLength: 77, VocabSize: 49408, Width: 64, Heads: 4, Layers: 2, MLP: 256, Act: clip.QuickGELU, Eps: 1e-5}},
		Steps: 2500, Batch: 48, LR: 2e-3, WeightDecay: 0.05, Warmup: 100, Seed: 1,
	}
}

// ShapesPictures is how many pictures the built-in model is trained on.
const ShapesPictures = 8000

// NewShapes gives pictures 0 to n-1 of a seed, in random order again and again, with captions that name one or two
// labels of each, chosen at random; without pictures (n below 1) Next is an error. The captions of a batch differ as
// long as pictures with others are found, because InfoNCE takes every other caption for a wrong one. Not safe for
// concurrent use.
func NewShapes(seed uint64, n int) Pairs {
	n = max(n, 0)
	d := &drawn{random: rand.New(rand.NewPCG(seed, 1)), pictures: make([]byte, n*shapes.PictureBytes), labels: make([][len(shapes.Classes)]int8, n)}
	var wg sync.WaitGroup
	workers := runtime.NumCPU()
	for g := range workers {
		wg.Go(func() {
			for i := g; i < n; i += workers {
				d.labels[i] = shapes.Draw(seed, uint64(i), d.picture(i))
			}
		})
	}
	wg.Wait()
	return d
}

type drawn struct {
	random   *rand.Rand
	pictures []byte
	labels   [][len(shapes.Classes)]int8
}

func (d *drawn) picture(i int) []byte {
	return d.pictures[i*shapes.PictureBytes : (i+1)*shapes.PictureBytes]
}

// attempts bounds the pictures that are looked at for one place of a batch.
const attempts = 20

// Vocabulary is a caption with all classes.
func (d *drawn) Vocabulary() []string {
	return []string{"a photo of a " + strings.Join(shapes.Classes[:], " and a ") + "."}
}

// Next picks pictures.
func (d *drawn) Next(pictures []byte, n int) ([]string, error) {
	if len(pictures) != n*shapes.PictureBytes {
		return nil, fmt.Errorf("pretrain: drawn pictures are %d×%d", shapes.Size, shapes.Size)
	}
	if len(d.labels) == 0 {
		return nil, errors.New("pretrain: there are no drawn pictures")
	}
	seen := make(map[string]bool, n)
	captions := make([]string, n)
	for i := range captions {
		for try := range attempts {
			k := d.random.IntN(len(d.labels))
			captions[i] = d.caption(d.labels[k][:])
			if !seen[captions[i]] || try == attempts-1 {
				copy(pictures[i*shapes.PictureBytes:], d.picture(k))
				break
			}
		}
		seen[captions[i]] = true
	}
	return captions, nil
}

func (d *drawn) caption(y []int8) string {
	var there []string
	for i, v := range y {
		if v == 1 {
			there = append(there, shapes.Classes[i])
		}
	}
	d.random.Shuffle(len(there), func(i, k int) { there[i], there[k] = there[k], there[i] })
	if len(there) == 1 || d.random.IntN(2) == 0 {
		return fmt.Sprintf("a photo of a %s.", there[0])
	}
	return fmt.Sprintf("a photo of a %s and a %s.", there[0], there[1])
}
