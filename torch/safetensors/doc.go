// Package safetensors reads and writes safetensors files: 8 bytes with the header's length, a JSON header, the bytes
// of the tensors. It deals in dtype names, shapes and bytes and knows no tensor library.
//
// Reading: Open (or Parse for any io.ReaderAt) checks the whole header and reads no tensor. File.Info describes a
// tensor, File.ReadInto and File.Bytes read one. Data is little-endian, row-major, as in the file. A File is safe for
// use by many goroutines until Close. Nothing is memory-mapped, so a file that is cut short while open gives an error,
// not a dead process.
//
// What is accepted is what the format's text and its reference implementation accept, and a little less: the header is
// at most 100 MB, begins with {, is valid UTF-8 and JSON, has no key twice and no unknown field; every tensor has a known
// dtype and its range holds exactly shape × dtype; the ranges cover the data without hole or overlap. On top of that
// a tensor has at most MaxRank dimensions and the metadata at most MaxMetadata entries. Opening allocates
// no more than the header's length plus 1 MB, whatever the header says; File.Bytes allocates the tensor's size, which
// is always within the file.
//
// Writing: Write replaces a file atomically, Encode streams to a writer. The bytes are those of the Python library's
// save_file for the same tensors and at most one metadata entry (the library leaves the order of more to chance; here
// it is by key).
//
// Models in several files with an index: OpenSharded and WriteSharded.
//
// Errors: a file that breaks the rules gives a *FormatError, which names the file; everything else is the system's
// error, wrapped with the path.
package safetensors
