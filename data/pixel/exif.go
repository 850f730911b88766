package pixel

import "encoding/binary"

// tagOrientation is the one EXIF tag that is read.
const tagOrientation = 0x0112

// Orientation returns the EXIF orientation of a JPEG, PNG, WebP or TIFF file: 1 (as stored) to 8; 1 where there is none or
// it makes no sense.
func Orientation(b []byte) int {
	f, err := Sniff(b)
	if err != nil {
		return 1
	}
	var block []byte
	switch f {
	case JPEG:
		block = jpegEXIF(b)
	case PNG:
		block = pngChunk(b, "eXIf")
	case WebP:
		block = riffChunk(b, "EXIF")
	case TIFF:
		block = b
	}
	return tiffOrientation(trimEXIF(block))
}

// trimEXIF takes off the "Exif\0\0" that JPEG requires and others sometimes write.
func trimEXIF(b []byte) []byte {
	if len(b) >= 6 && string(b[:6]) == "Exif\x00\x00" {
		return b[6:]
	}
	return b
}

// jpegEXIF returns the first EXIF segment before the image data.
func jpegEXIF(b []byte) []byte {
	for i := 2; i+4 <= len(b); {
		if b[i] != 0xff {
			i++
			continue
		}
		marker := b[i+1]
		switch {
		case marker == 0xff:
			i++
			continue
		case marker == 0 || marker == 1 || marker >= 0xd0 && marker <= 0xd8:
			i += 2
			continue
		case marker == 0xd9 || marker == 0xda:
			return nil
		}
		end := i + 2 + int(binary.BigEndian.Uint16(b[i+2:]))
		if end < i+4 || end > len(b) {
			return nil
		}
		if body := b[i+4 : end]; marker == 0xe1 && len(body) >= 6 && string(body[:6]) == "Exif\x00\x00" {
			return body
		}
		i = end
	}
	return nil
}

// pngChunk returns the body of the first chunk of that type.
func pngChunk(b []byte, kind string) []byte {
	for i := 8; len(b)-i >= 12; {
		n := int64(binary.BigEndian.Uint32(b[i:]))
		if n > int64(len(b)-i-12) {
			return nil
		}
		if string(b[i+4:i+8]) == kind {
			return b[i+8 : i+8+int(n)]
		}
		i += 12 + int(n)
	}
	return nil
}

// tiffOrientation finds the tag in the first directory of a TIFF block.
func tiffOrientation(b []byte) int {
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder
	switch string(b[:4]) {
	case "II*\x00":
		order = binary.LittleEndian
	case "MM\x00*":
		order = binary.BigEndian
	default:
		return 1
	}
	at := int64(order.Uint32(b[4:]))
	if at+2 > int64(len(b)) {
		return 1
	}
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if order.Uint16(entries) == tagOrientation {
			const short, long = 3, 4
			var v int
			switch order.Uint16(entries[2:]) {
			case short:
				v = int(order.Uint16(entries[8:]))
			case long:
				v = int(order.Uint32(entries[8:]))
			}
			if v >= 1 && v <= 8 && order.Uint32(entries[4:]) >= 1 {
				return v
			}
			return 1
		}
		entries = entries[12:]
	}
	return 1
}
