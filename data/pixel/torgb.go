package pixel

// gray16 converts big-endian 16-bit grey with the given bytes per pixel.
func gray16(step int, o Options) func(src, dst []byte) {
	if !o.PillowGray16 {
		o.Notices.add(noticeGray16)
	}
	return func(src, dst []byte) {
		for x := range len(dst) / 3 {
			v := src[step*x]
			if o.PillowGray16 {
				if v > 0 {
					v = 255
				} else {
					v = src[step*x+1]
				}
			}
			dst[3*x], dst[3*x+1], dst[3*x+2] = v, v, v
		}
	}
}

// straight undoes the multiplication with alpha, as Pillow's RGBa to RGBA.
func straight(v, a byte) byte {
	if a == 255 || a == 0 {
		return v
	}
	return byte(min(255, 255*int(v)/int(a)))
}
