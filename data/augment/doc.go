// Package augment changes training pictures as the papers do: flips, RandAugment, Cutout, colour jitter, random resized crops.
//
// # Operations
//
// Each operation on a [pixel.RGB] (uint8, [H, W, 3]) gives the bytes that Pillow 13 gives: the functions of this package are Pillow's ImageOps,
// ImageEnhance and Image.transform as torchvision and the package randaugment 1.0.2 call them. They work in place.
//
// # Steps
//
// A [Step] draws its parameters and applies an operation; a [Pipeline] is a list of steps. [LACWeak] and [LACStrong] are LAC's two views, [SCPNet] and
// [DualCoOp] the training views of those. Draws come from [Draw]: a generator for each (seed, epoch, row, view), so a sample's picture is the same for
// any number of workers, any order of loading and after any restart. The released code draws from Python's global generators, whose order depends on
// the workers; here only the distributions are the same.
//
// # Threads
//
// Steps and pipelines hold no state and serve many goroutines; a picture belongs to one at a time.
package augment
