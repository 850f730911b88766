package pixel

// oriented returns the picture as a viewer shows it whose file has this EXIF orientation (1 to 8); p itself where
// nothing changes. The mapping is that of Pillow's ImageOps.exif_transpose.
func (p *RGB) oriented(orientation int) *RGB {
	if orientation < 2 || orientation > 8 {
		return p
	}
	q := newRGB(p.W, p.H)
	if orientation >= 5 {
		q.W, q.H = p.H, p.W
	}
	// The source of the first pixel, and the steps of the source along a column and a row of the result.
	right, below, last := 3, 3*p.W, 3*(p.H-1)*p.W
	var at, dx, dy int
	switch orientation {
	case 2: // mirrored
		at, dx, dy = below-3, -right, below
	case 3: // half a turn
		at, dx, dy = last+below-3, -right, -below
	case 4: // upside down, mirrored
		at, dx, dy = last, right, -below
	case 5: // transposed
		at, dx, dy = 0, below, right
	case 6: // a quarter turn clockwise
		at, dx, dy = last, -below, right
	case 7: // transposed over the other diagonal
		at, dx, dy = last+below-3, -below, -right
	case 8: // a quarter turn the other way
		at, dx, dy = below-3, below, -right
	}
	const block = 64 // pixels: both sides of a quarter turn stay in the cache
	for y0 := 0; y0 < q.H; y0 += block {
		for x0 := 0; x0 < q.W; x0 += block {
			for y := y0; y < min(y0+block, q.H); y++ {
				from, to := at+y*dy+x0*dx, (y*q.W+x0)*3
				for range min(block, q.W-x0) {
					copy(q.Pix[to:to+3], p.Pix[from:from+3])
					from, to = from+dx, to+3
				}
			}
		}
	}
	return q
}
