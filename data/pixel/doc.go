// Package pixel turns image files into pixels: it decodes, resizes and normalizes, with the same bytes as Pillow 13 and
// torchvision give.
//
// # Types
//
// [RGB] is a picture in memory, uint8 [H, W, 3]. [Decode] reads a file's bytes into one, [Resize] resamples it.
// [Decoder] does decoding, resizing and normalizing of JPEG files in one call without allocating; it is what loaders use.
// [Geometry] says how: the papers' squash ([Squash]), CLIP's short side and centre crop ([ShortSide]), or any crop,
// window and flip.
//
// # Formats
//
// The content decides, never the name. JPEG goes through libjpeg-turbo (accurate IDCT, smooth chroma upsampling; grey,
// CMYK and YCCK, progressive, arithmetic coding). PNG goes through the standard library, WebP through golang.org/x/image. GIF, BMP (all headers, masks and run
// lengths that Pillow knows) and TIFF (strips, tiles, planes, BigTIFF; LZW, deflate, PackBits, CCITT group 3 and 4, JPEG) are read here on top of kept
// decompressors. TIFF's orientation is always applied, as Pillow does. Of animations the first frame is taken.
//
// Not read, with an error that says so: TIFF of Lab colours, in Zstandard, LZMA or WebP compression, with CMYK or alpha in JPEG. Compressed big-endian TIFF of 32 bits or with a
// sign is read right, where Pillow swaps the bytes.
//
// # Colours
//
// Everything becomes RGB before any resizing, as Pillow's convert("RGB") does it: alpha is dropped and never multiplied in,
// palettes are looked up, grey is repeated, 16 bits become the high byte, no colour profile is applied. The one difference
// is 16-bit grey, where Pillow clips all but the darkest 256 levels to white: here the high byte is taken, and
// [Options.Notices] says so once; [Options.PillowGray16] gives Pillow's bytes. The EXIF orientation is ignored, as in all
// training code, unless [Options.ApplyEXIF] is set.
//
// # Resampling
//
// Pillow's bilinear and bicubic filters in 22-bit fixed point, with antialiasing, and Pillow 13's order of the two passes:
// vertical first if the height shrinks by more than twice the pixels that the width shrinks by. Earlier versions always
// began with the horizontal pass, which differs by a level here and there for upright photos.
//
// # Errors
//
// [ErrDamaged], [ErrTooLarge], [ErrUnknownFormat] and [ErrLibrary] are found with errors.Is; everything else is a wrong
// argument. What Pillow reads is read, and a file that Pillow calls truncated or broken is ErrDamaged. The size is checked
// against [Options.MaxPixels] from the header, before anything is allocated. No input makes these functions panic.
//
// # Threads
//
// The functions are safe for use by many goroutines at once. A [Decoder] belongs to one goroutine at a time; a second one
// gets an error. Decoding and resizing run on the calling goroutine alone.
//
// # The native library
//
// JPEG and all resizing need libgospml-image.so and libturbojpeg.so.0, which are opened on first use (see third_party/native).
// Without them [Available] and the functions return one sentence that says what to run. The kernels are chosen by the
// processor (AVX-512, AVX2, plain C, all with the same results); GOSPML_CPU=avx2 or sse asks for slower ones.
package pixel
