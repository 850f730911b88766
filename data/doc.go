// Package data holds data sets for multi-label learning with missing labels, and the loader that feeds a trainer with their images.
//
// # Types
//
//   - [Dataset]: classes, image names, full labels (0, 1), observed labels (-1, 0, 1: what training may see), the split, and a Source.
//     [OpenCSV] opens a folder of CSV files; package data/shapes draws one by code.
//   - [Source] and [Reader]: the images of a data set, by row. [Files] reads image files below one folder.
//   - [Loader], [Plan], [Batch]: decode workers that fill batches of uint8 RGB images, squashed to one size, in the order the caller gives, with a cache
//     in memory so that later epochs decode nothing.
//   - [FormatError]: the data set's own files are wrong. [Broken]: one image cannot be read.
//
// The random draws of the papers (single positives, split) are in data/random, decoding and resizing in data/pixel.
//
// # What is promised
//
// Batches are a function of the plan alone, not of the number of workers or their timing. An image that cannot be read is named once with its reason, left out and
// counted, and never shifts the others against their labels: each image of a batch comes with its row. Names and links that lead out of a data set's folder are refused.
//
// # Ownership and threads
//
// A Dataset is not changed after it was made and may be read by many goroutines; the caller closes it after its loaders. A Loader serves one walk at a time, its workers
// live only while the walk does, and a Batch is valid until the loop body ends. A Reader belongs to one goroutine.
//
// # Caveats
//
// Flips are decided here ([Batch.Flip]) but done where the images are normalised, so that the cache holds plain images. A read from a dead network
// drive cannot be interrupted: a cancelled walk waits for it. The package knows no tensors.
package data
