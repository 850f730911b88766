// Package goldenfill makes the numbers that the goldens were computed from: a hash of a tensor's name and an element's index, so that
// every language fills the same model without a file of weights.
package goldenfill

import "hash/crc32"

// Unit is element i (row major) of the tensor called name, in [0, 1).
func Unit(name string, i int) float64 { return unit(crc32.ChecksumIEEE([]byte(name)), i) }

func unit(k uint32, i int) float64 {
	h := uint32(i)*2654435761 + k
	h ^= h >> 15
	h *= 2246822519
	h ^= h >> 13
	return float64(h>>8) / (1 << 24)
}

// Values are n elements in [offset-scale/2, offset+scale/2).
func Values(name string, n int, offset, scale float64) []float64 {
	k := crc32.ChecksumIEEE([]byte(name))
	v := make([]float64, n)
	for i := range v {
		v[i] = offset + scale*(unit(k, i)-0.5)
	}
	return v
}

// Bytes are n elements as 8-bit pixels, the unit interval times 256.
func Bytes(name string, n int) []byte {
	k := crc32.ChecksumIEEE([]byte(name))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(unit(k, i) * 256)
	}
	return b
}
