package shapes

import "github.com/gospml/gospml/data/random"

// Classes are the labels, in column order.
var Classes = [...]string{
	"circle", "square", "triangle", "star", "ring",
	"red", "green", "blue", "yellow",
	"striped", "dotted", "checkered",
}

// The first columns of the three kinds of labels.
const (
	firstColour  = 5
	firstTexture = 9
)

const (
	circle = iota
	square
	triangle
	star
	ring
)

const (
	plain = iota - 1 // no label
	striped
	dotted
	checkered
)

// Percentages of the draws.
var (
	objectsPercent = []int{45, 38, 17}         // 1, 2, 3 objects
	shapePercent   = []int{28, 24, 20, 15, 13} // by shape
	colourPercent  = [][]int{                  // by shape and colour
		circle:   {42, 14, 24, 20},
		square:   {16, 22, 46, 16},
		triangle: {18, 46, 16, 20},
		star:     {18, 10, 14, 58},
		ring:     {25, 25, 25, 25},
	}
	texturePercent = []int{44, 22, 18, 16} // plain, striped, dotted, checkered
)

// unit is the length of the geometry: an eighth of a pixel.
const unit = 8

// object is one thing in a picture. Lengths are in units.
type object struct {
	shape, colour, texture int
	x, y, r                int // centre and radius
	sin, cos               int // of its rotation, times 1 << 14
	period                 int // of the texture
	ink, second            [3]int
}

// generator is the splitmix64 stream of one picture.
type generator uint64

func (g *generator) next() uint64 {
	*g += 0x9e3779b97f4a7c15
	z := uint64(*g)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// between returns an integer in [lo, hi].
func (g *generator) between(lo, hi int) int { return lo + int(g.next()>>32%uint64(hi-lo+1)) }

// pick returns an index with the given percentages.
func (g *generator) pick(percent []int) int {
	at := g.between(0, 99)
	for i, p := range percent {
		if at -= p; at < 0 {
			return i
		}
	}
	return len(percent) - 1
}

// scene draws the objects of a picture. g goes on with the background afterwards.
func scene(seed, index uint64) (objects []object, g generator) {
	g = generator(random.Mix(seed, index))
	want := 1 + g.pick(objectsPercent)
	objects = make([]object, 0, want)
	for tries := 0; len(objects) < want && tries < 40; tries++ {
		o := g.object()
		if !touches(o, objects) {
			objects = append(objects, o)
		}
	}
	return objects, g
}

var inks = [][3]int{{206, 44, 44}, {48, 158, 58}, {46, 78, 204}, {222, 192, 36}}

func (g *generator) object() object {
	o := object{shape: g.pick(shapePercent)}
	o.colour = g.pick(colourPercent[o.shape])
	size := g.between(0, 99)
	switch {
	case size < 20:
		o.r = g.between(5*unit, 7*unit)
	case size < 70:
		o.r = g.between(8*unit, 12*unit)
	default:
		o.r = g.between(12*unit, 17*unit)
	}
	o.texture = g.pick(texturePercent) - 1
	if o.shape == ring || size < 20 {
		o.texture = plain
	}
	low, high := o.r-2*unit, size64-o.r+2*unit // up to two pixels may be cut off
	o.x, o.y = g.between(low, high), g.between(low, high)
	angle := g.between(0, 255)
	o.sin, o.cos = sine(angle), sine(angle+64)
	o.period = g.between(4*unit, 6*unit)
	if o.texture == dotted {
		o.period += unit
	}
	bright := g.between(62, 108)
	second := 238
	if g.between(0, 1) == 0 {
		second = 18
	}
	for c := range 3 {
		o.ink[c] = min(255, inks[o.colour][c]*bright/100+g.between(0, 16))
		o.second[c] = (o.ink[c]*3 + second*7) / 10
	}
	return o
}

// touches reports whether o would cover more than a corner of another object.
func touches(o object, others []object) bool {
	for _, p := range others {
		dx, dy, far := o.x-p.x, o.y-p.y, (o.r+p.r)*9/10
		if dx*dx+dy*dy < far*far {
			return true
		}
	}
	return false
}

// labels writes 1 for every class that an object has and 0 for the others.
func labels(objects []object) (y [len(Classes)]int8) {
	for _, o := range objects {
		y[o.shape], y[firstColour+o.colour] = 1, 1
		if o.texture != plain {
			y[firstTexture+o.texture] = 1
		}
	}
	return y
}

// quarter is sin(i·90°/64)·2¹⁴.
var quarter = [65]int{0, 402, 804, 1205, 1606, 2006, 2404, 2801, 3196, 3590, 3981, 4370, 4756, 5139, 5520, 5897, 6270, 6639, 7005, 7366, 7723, 8076, 8423, 8765, 9102, 9434, 9760, 10080, 10394, 10702, 11003, 11297, 11585, 11866, 12140, 12406, 12665, 12916, 13160, 13395, 13623, 13842, 14053, 14256, 14449, 14635, 14811, 14978, 15137, 15286, 15426, 15557, 15679, 15791, 15893, 15986, 16069, 16143, 16207, 16261, 16305, 16340, 16364, 16379, 16384}

// sine returns sin(angle·360°/256)·2¹⁴.
func sine(angle int) int {
	a := angle & 255
	if a >= 128 {
		return -sine(a - 128)
	}
	if a > 64 {
		a = 128 - a
	}
	return quarter[a]
}
