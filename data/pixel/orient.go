package pixel

// oriented returns the picture as a viewer shows it whose file has this EXIF orientation (1 to 8); p itself where nothing
// changes. The mapping is that of Pillow's ImageOps.exif_transpose.
func (p *RGB) oriented(orientation int) *RGB {
	if orientation < 2 || orientation > 8 {
		return p
	}
	q := newRGB(p.W, p.H)
	if orientation >= 5 {
		q.W, q.H = p.H, p.W
	}
	for y := range q.H {
		for x := range q.W {
			sx, sy := x, y
			switch orientation {
			case 2: // mirrored
				sx = p.W - 1 - x
			case 3: // half a turn
				sx, sy = p.W-1-x, p.H-1-y
			case 4: // upside down, mirrored
				sy = p.H - 1 - y
			case 5: // transposed
				sx, sy = y, x
			case 6: // a quarter turn clockwise
				sx, sy = y, p.H-1-x
			case 7: // transposed over the other diagonal
				sx, sy = p.W-1-y, p.H-1-x
			case 8: // a quarter turn the other way
				sx, sy = p.W-1-y, x
			}
			copy(q.Pix[(y*q.W+x)*3:][:3], p.Pix[(sy*p.W+sx)*3:][:3])
		}
	}
	return q
}
