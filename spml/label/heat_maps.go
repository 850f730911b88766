package label

import (
	"fmt"
	"math"
	"slices"

	"github.com/gospml/gospml/spml/internal/compute"
	"github.com/gospml/gospml/torch"
)

// Crop is the part of an image that a network sees: fractions of the image's height and width, mirrored left to right or not.
type Crop struct {
	Top, Left, Height, Width float64
	Flip                     bool
}

// Whole is the image as it is.
var Whole = Crop{Height: 1, Width: 1}

func (c Crop) check() error {
	if !(c.Height > 0 && c.Width > 0 && c.Top >= 0 && c.Left >= 0 && c.Top+c.Height <= 1+1e-9 && c.Left+c.Width <= 1+1e-9) {
		return fmt.Errorf("label: the crop %+v is not inside the image", c)
	}
	return nil
}

// HeatMaps are EN+SCL's running averages of class score maps, [N, C, W, W] with values 0 to 255 for 0 to 1: ones for observed
// positives, zeros elsewhere at the start. COCO's take 3.8 GiB; changes below 1/510 are lost to rounding.
//
// They lie in the host's memory. Scores of a device come there on their own while the next step is at work: Maps holds
// them after Settle, and Lookup waits for those of rows that it is asked for.
//
// Source: Verelst et al. 2023 as described by others.
type HeatMaps struct {
	Maps *torch.Tensor // uint8
	Mu   float64

	arrivals compute.Arrivals[seen]
}

// seen is what a step showed of some rows; its scores are on the way.
type seen struct {
	rows  []int
	crops []Crop
}

// NewHeatMaps starts from observed labels [N, C]; the papers have W = 28, μ = 0.8.
func NewHeatMaps(observed *torch.Tensor, w int, mu float64) (*HeatMaps, error) {
	if err := matrix("observed labels", observed); err != nil {
		return nil, err
	}
	if w < 1 || !(mu >= 0 && mu <= 1) {
		return nil, fmt.Errorf("label: heat maps of side %d with μ %v", w, mu)
	}
	h := &HeatMaps{Mu: mu}
	err := build(func(s *torch.Arena) {
		start := observed.EqScalar(1).ToDType(torch.Uint8).MulScalar(255)
		h.Maps = s.Keep(start.Reshape(observed.Size(0), observed.Size(1), 1, 1).Repeat(1, 1, w, w))
	})
	return h, err
}

func (h *HeatMaps) check(rows []int, crops []Crop) error {
	if len(rows) != len(crops) {
		return fmt.Errorf("label: %d crops for %d rows", len(crops), len(rows))
	}
	for i, r := range rows {
		if r < 0 || r >= h.Maps.Size(0) {
			return fmt.Errorf("label: row %d of a table with %d", r, h.Maps.Size(0))
		}
		if err := crops[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// Lookup gives what the crops show of the rows' maps, bilinearly resized to [len(rows), C, g, g], float32 in [0, 1].
func (h *HeatMaps) Lookup(rows []int, crops []Crop, g int) (heat *torch.Tensor, err error) {
	if err := h.check(rows, crops); err != nil {
		return nil, err
	}
	h.arrivals.Mark()
	if h.arrivals.Any(func(s seen) bool {
		return slices.ContainsFunc(s.rows, func(r int) bool { return slices.Contains(rows, r) })
	}) {
		if err := h.Settle(); err != nil {
			return nil, err
		}
	}
	c, w := h.Maps.Size(1), h.Maps.Size(2)
	out := make([]float32, len(rows)*c*g*g)
	err = torch.Try(func() {
		torch.View(h.Maps, func(maps []uint8) {
			for i, r := range rows {
				k := crops[i]
				for j := range c {
					from := maps[(r*c+j)*w*w:][:w*w]
					at := func(y, x int) float64 { return float64(from[y*w+x]) }
					to := out[(i*c+j)*g*g:][:g*g]
					for y := range g {
						for x := range g {
							u, v := (float64(y)+0.5)/float64(g), (float64(x)+0.5)/float64(g)
							if k.Flip {
								v = 1 - v
							}
							to[y*g+x] = float32(bilinear(at, w, (k.Top+k.Height*u)*float64(w)-0.5, (k.Left+k.Width*v)*float64(w)-0.5) / 255)
						}
					}
				}
			}
		})
		heat = torch.FromSlice(out, len(rows), c, g, g)
	})
	return heat, err
}

// Update takes in the scores σ(Z) [len(rows), C, G, G] of what the crops showed: H ← μ·H + (1-μ)·score where a crop covers the centre of
// a cell, unchanged elsewhere.
func (h *HeatMaps) Update(rows []int, crops []Crop, scores *torch.Tensor) error {
	if err := h.check(rows, crops); err != nil {
		return err
	}
	c := h.Maps.Size(1)
	if scores == nil || scores.Dim() != 4 || scores.Size(0) != len(rows) || scores.Size(1) != c || scores.Size(2) != scores.Size(3) || scores.Size(2) < 1 {
		return fmt.Errorf("label: score maps want shape [%d, %d, G, G]", len(rows), c)
	}
	if scores.Device().Type == torch.DeviceCPU {
		return h.take(rows, crops, scores)
	}
	if err := h.arrivals.Settle(false, h.arrived); err != nil {
		return err
	}
	return h.arrivals.Send(seen{slices.Clone(rows), slices.Clone(crops)}, scores)
}

// Settle waits for scores that are on their way from a device and takes them in.
func (h *HeatMaps) Settle() error { return h.arrivals.Settle(true, h.arrived) }

func (h *HeatMaps) arrived(s seen, scores []*torch.Tensor) error {
	return h.take(s.rows, s.crops, scores[0])
}

// take is Update with scores on the CPU.
func (h *HeatMaps) take(rows []int, crops []Crop, scores *torch.Tensor) error {
	c, w := h.Maps.Size(1), h.Maps.Size(2)
	g := scores.Size(2)
	var bad error
	err := torch.Try(func() {
		if bad = finite("score maps", scores); bad != nil {
			return
		}
		p := torch.ToSlice[float32](scores.Detach().ToDType(torch.Float32).Contiguous())
		torch.View(h.Maps, func(maps []uint8) {
			for i, r := range rows {
				k := crops[i]
				for j := range c {
					from := p[(i*c+j)*g*g:][:g*g]
					at := func(y, x int) float64 { return float64(from[y*g+x]) }
					to := maps[(r*c+j)*w*w:][:w*w]
					for y := range w {
						for x := range w {
							u, v := ((float64(y)+0.5)/float64(w)-k.Top)/k.Height, ((float64(x)+0.5)/float64(w)-k.Left)/k.Width
							if u < 0 || u > 1 || v < 0 || v > 1 {
								continue
							}
							if k.Flip {
								v = 1 - v
							}
							s := bilinear(at, g, u*float64(g)-0.5, v*float64(g)-0.5)
							to[y*w+x] = uint8(math.Round(h.Mu*float64(to[y*w+x]) + (1-h.Mu)*255*s))
						}
					}
				}
			}
		})
	})
	if bad != nil {
		return bad
	}
	return err
}

// bilinear reads a square of side n between its cells' centres; outside, the border's value.
func bilinear(at func(y, x int) float64, n int, y, x float64) float64 {
	clip := func(v float64) (lo, hi int, f float64) {
		v = min(max(v, 0), float64(n-1))
		lo = int(v)
		return lo, min(lo+1, n-1), v - float64(lo)
	}
	y0, y1, fy := clip(y)
	x0, x1, fx := clip(x)
	top := at(y0, x0)*(1-fx) + at(y0, x1)*fx
	return top*(1-fy) + (at(y1, x0)*(1-fx)+at(y1, x1)*fx)*fy
}

// State holds the maps.
func (h *HeatMaps) State() State {
	h.arrivals.Hold(h.Settle())
	return State{Tensors: map[string]*torch.Tensor{"maps": h.Maps}}
}

// LoadState restores them.
func (h *HeatMaps) LoadState(s State) error {
	if err := h.Settle(); err != nil {
		return err
	}
	return s.restore("maps", h.Maps)
}
