// Package npy reads and writes numpy's .npy files and reads .npz archives. It knows no tensor library: an Array is a dtype
// name, a shape and bytes, and converts itself to Go slices.
//
// Read accepts versions 1.0, 2.0 and 3.0, both byte orders, C and Fortran order, and the dtypes bool, int8 to int64,
// uint8 to uint64, float16 to float64 and fixed-width strings (U). Whatever the file's layout, Array.Data is little-endian
// and in C order. Object arrays are pickles, which can run code: they are refused, as are all other dtypes.
//
// The header is checked before anything is allocated: its length (10,000 bytes as in numpy), every key once, at most MaxRank
// dimensions, none negative, and the size it gives must be that of the rest of the file, neither more (a truncated file)
// nor less. Reading allocates no more than the file's size plus 1 MB.
//
// OpenNPZ accepts stored and deflated archives. Every entry's size is checked before it is read: entries that overlap,
// that claim more than deflate can give, or that together expand to more than a limit of the caller's are refused.
//
// Write makes version 1.0 files, byte for byte numpy's, and replaces the file atomically.
//
// An Array belongs to the caller; many goroutines may read it. An NPZ is safe for use by many goroutines until Close.
// A file that breaks the rules gives a *FormatError that names it; everything else is the system's error with the path.
package npy
