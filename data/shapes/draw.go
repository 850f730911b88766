package shapes

// Size is the width and height of a picture in pixels.
const Size = 64

const (
	size64 = Size * unit
	// PictureBytes is the size of a picture, [Size, Size, 3].
	PictureBytes = Size * Size * 3
)

// Draw draws picture index of a seed into dst, uint8 [Size, Size, 3], and returns its labels in the order of [Classes]. dst must have
// [PictureBytes] bytes.
func Draw(seed, index uint64, dst []byte) [len(Classes)]int8 {
	dst = dst[:PictureBytes]
	objects, g := scene(seed, index)
	g.background(dst)
	for range g.between(0, 4) {
		g.line(dst)
	}
	for i := range objects {
		objects[i].paint(dst)
	}
	g.noise(dst)
	return labels(objects)
}

// background fills the picture with greyish light: even, a slope, or patches.
func (g *generator) background(dst []byte) {
	const cells = 4
	kind, base := g.between(0, 2), g.between(50, 200)
	var tint [3]int
	for c := range tint {
		tint[c] = g.between(-14, 14)
	}
	var corner [cells + 1][cells + 1]int // light at the corners of cells of 16 × 16 pixels
	switch kind {
	case 1:
		dx, dy := g.between(-14, 14), g.between(-14, 14)
		for y := range corner {
			for x := range corner[y] {
				corner[y][x] = (2*x-cells)*dx/2 + (2*y-cells)*dy/2
			}
		}
	case 2:
		for y := range corner {
			for x := range corner[y] {
				corner[y][x] = g.between(-38, 38)
			}
		}
	}
	const side = Size / cells
	for y := range Size {
		cy, fy := y/side, y%side
		for x := range Size {
			cx, fx := x/side, x%side
			top := corner[cy][cx]*(side-fx) + corner[cy][cx+1]*fx
			low := corner[cy+1][cx]*(side-fx) + corner[cy+1][cx+1]*fx
			light := base + (top*(side-fy)+low*fy)/(side*side)
			at := (y*Size + x) * 3
			for c := range 3 {
				dst[at+c] = byte(max(0, min(255, light+tint[c])))
			}
		}
	}
}

// line draws a grey line one pixel wide through the picture.
func (g *generator) line(dst []byte) {
	x0, y0 := g.between(0, Size-1), g.between(0, Size-1)
	x1, y1 := g.between(0, Size-1), g.between(0, Size-1)
	grey := g.between(20, 230)
	steps := max(abs(x1-x0), abs(y1-y0), 1)
	for i := range steps + 1 {
		x, y := x0+(x1-x0)*i/steps, y0+(y1-y0)*i/steps
		at := (y*Size + x) * 3
		dst[at], dst[at+1], dst[at+2] = byte(grey), byte(grey), byte(grey)
	}
}

func abs(x int) int { return max(x, -x) }

// noise adds triangular noise of a random strength to every byte.
func (g *generator) noise(dst []byte) {
	strength := g.between(10, 44)
	for at := 0; at < len(dst); at += 4 {
		bits := g.next()
		for i := range 4 {
			n := (int(bits&255) + int(bits>>8&255) - 255) * strength / 256
			bits >>= 16
			dst[at+i] = byte(max(0, min(255, int(dst[at+i])+n)))
		}
	}
}

// Percentages of r: no point of a shape is further from its centre, and every point is as near (a ring has a hole).
var (
	outerPercent = [...]int{circle: 100, square: 124, triangle: 115, star: 120, ring: 100}
	innerPercent = [...]int{circle: 100, square: 87, triangle: 57, star: 37, ring: 0}
)

// paint draws the object with 4 × 4 samples a pixel.
func (o *object) paint(dst []byte) {
	const half = 6 // from the middle of a pixel to beyond its corners
	outer, inner := o.r*outerPercent[o.shape]/100+half, max(0, o.r*innerPercent[o.shape]/100-half)
	y0, y1 := max(0, (o.y-outer)/unit), min(Size-1, (o.y+outer)/unit)
	x0, x1 := max(0, (o.x-outer)/unit), min(Size-1, (o.x+outer)/unit)
	for y := y0; y <= y1; y++ {
		for x := x0; x <= x1; x++ {
			mx, my := x*unit+unit/2-o.x, y*unit+unit/2-o.y
			away := mx*mx + my*my
			if away > outer*outer {
				continue
			}
			inked, second := 0, 0
			if within := away < inner*inner; within && o.texture == plain {
				inked = 16
			} else {
				inked, second = o.sample(x, y, within)
			}
			at := (y*Size + x) * 3
			for c := range 3 {
				mixed := int(dst[at+c])*(16-inked-second) + o.ink[c]*inked + o.second[c]*second
				dst[at+c] = byte(mixed / 16)
			}
		}
	}
}

// sample counts the samples of a pixel that have the object's first and second colour. within: all of them lie inside.
func (o *object) sample(x, y int, within bool) (inked, second int) {
	for s := range 16 {
		dx, dy := x*unit+s%4*2+1-o.x, y*unit+s/4*2+1-o.y
		u, v := (dx*o.cos+dy*o.sin)>>14, (dy*o.cos-dx*o.sin)>>14
		if !within && !o.inside(u, v) {
			continue
		}
		if o.alternate(u, v) {
			second++
		} else {
			inked++
		}
	}
	return inked, second
}

// Outward normals times 1 << 14, towards the points of a star and the sides of a triangle.
var (
	starNormals     = [5][2]int{{0, -16384}, {15582, -5063}, {9630, 13255}, {-9630, 13255}, {-15582, -5063}}
	triangleNormals = [3][2]int{{0, 16384}, {-14189, -8192}, {14189, -8192}}
)

// inside reports whether a point, relative to the centre and turned with the object, belongs to its shape.
func (o *object) inside(u, v int) bool {
	r := o.r
	switch o.shape {
	case circle:
		return u*u+v*v <= r*r
	case ring:
		d := u*u + v*v
		return d <= r*r && d*100 >= r*r*30
	case square:
		return max(abs(u), abs(v))*8 <= r*7
	case triangle: // equilateral: within three lines at half the distance of its points
		far := r * 115 / 200
		for _, n := range triangleNormals {
			if (u*n[0]+v*n[1])>>14 > far {
				return false
			}
		}
		return true
	default: // a pentagram: within at least four of five lines, at cos(72°) of the distance of its points
		far, beyond := r*120*309/100000, 0
		for _, n := range starNormals {
			if (u*n[0]+v*n[1])>>14 > far {
				beyond++
			}
		}
		return beyond <= 1
	}
}

// alternate reports whether a point has the texture's second colour.
func (o *object) alternate(u, v int) bool {
	p := o.period
	u, v = u+64*p, v+64*p // positive
	switch o.texture {
	case striped:
		return u%p*2 < p
	case dotted:
		du, dv := u%p-p/2, v%p-p/2
		return (du*du+dv*dv)*100 < p*p*12
	case checkered:
		half := p * 5 / 8
		return (u/half+v/half)%2 == 0
	}
	return false
}
