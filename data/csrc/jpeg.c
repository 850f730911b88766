/* JPEG through the TurboJPEG API, which keeps libjpeg's longjmp to itself. Accurate IDCT and smooth chroma upsampling,
 * as in Pillow; what is damaged or truncated for Pillow is an error here. */
#include <stdio.h>
#include <string.h>
#include <turbojpeg.h>

#include "image.h"

/* What the markers say. */
typedef struct frame {
  int32_t width, height, components, precision;
  int kind;     /* the SOF marker's low byte; 0: no frame header found */
  int one_scan; /* sequential, with all components in the first scan */
  int closed;   /* a marker follows the data of the first scan */
  int end;      /* an EOI marker was reached */
} frame;

enum { SOI = 0xd8, EOI = 0xd9, SOS = 0xda, DRI = 0xdd, RST0 = 0xd0, RST7 = 0xd7, TEM = 0x01 };

static int is_frame(int marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static int is_progressive(const frame* f) { return f->kind == 0xc2 || f->kind == 0xca; }

/* Walks from marker to marker as libjpeg does: garbage between segments is skipped. Stops at the frame header unless
 * to_end. */
static frame walk(const uint8_t* b, uint64_t n, int to_end) {
  frame f = {0};
  int scans = 0, restarts = 0;
  if (n < 2 || b[0] != 0xff || b[1] != SOI) return f;
  for (uint64_t i = 2;;) {
    const uint8_t* p = i < n ? memchr(b + i, 0xff, n - i) : NULL;
    if (!p) return f;
    i = (uint64_t)(p - b);
    while (i < n && b[i] == 0xff) i++;
    if (i >= n) return f;
    int marker = b[i++], restart = marker >= RST0 && marker <= RST7;
    if (marker == 0) continue;
    if (scans == 1 && !(restart && restarts)) f.closed = 1;
    if (marker == TEM || marker == SOI || restart) continue;
    if (marker == EOI) {
      f.end = 1;
      return f;
    }
    if (n - i < 2) return f;
    uint64_t length = (uint64_t)b[i] << 8 | b[i + 1];
    if (length < 2 || length > n - i) return f;
    if (is_frame(marker) && !f.kind && length >= 8) {
      f.kind = marker, f.precision = b[i + 2], f.components = b[i + 7];
      f.height = b[i + 3] << 8 | b[i + 4], f.width = b[i + 5] << 8 | b[i + 6];
      if (!to_end) return f;
    }
    if (marker == DRI && length >= 4) restarts = b[i + 2] || b[i + 3];
    if (marker == SOS && length >= 3 && scans++ == 0) f.one_scan = !is_progressive(&f) && b[i + 2] == f.components;
    i += length;
  }
}

static int32_t check_frame(const frame* f, int64_t max_pixels, gospml_image_message* m) {
  if (!f->kind) return fail(m, GOSPML_IMAGE_DAMAGED, "no JPEG frame header before the end of the file");
  if (f->width < 1 || f->height < 1)
    return fail(m, GOSPML_IMAGE_DAMAGED, "the JPEG header says %dx%d pixels", f->width, f->height);
  if ((int64_t)f->width * f->height > max_pixels)
    return fail(m, GOSPML_IMAGE_TOO_LARGE, "%dx%d pixels are more than the limit of %lld", f->width, f->height,
                (long long)max_pixels);
  if (f->precision != 8)
    return fail(m, GOSPML_IMAGE_UNSUPPORTED, "JPEG with %d bits per sample (only 8 are decoded)", f->precision);
  if (f->kind != 0xc0 && f->kind != 0xc1 && f->kind != 0xc2 && f->kind != 0xc9 && f->kind != 0xca)
    return fail(m, GOSPML_IMAGE_UNSUPPORTED, "JPEG process SOF%d (lossless or hierarchical) is not decoded",
                f->kind - 0xc0);
  if (f->components != 1 && f->components != 3 && f->components != 4)
    return fail(m, GOSPML_IMAGE_UNSUPPORTED, "JPEG with %d components (only 1, 3 and 4 are decoded)", f->components);
  return GOSPML_IMAGE_OK;
}

int32_t jpeg_header(const uint8_t* bytes, uint64_t n, int32_t info[3], gospml_image_message* m) {
  frame f = walk(bytes, n, 0);
  info[0] = f.width, info[1] = f.height, info[2] = f.components;
  return check_frame(&f, INT64_MAX, m);
}

static uint8_t multiply_255(int a, int b) {
  int t = a * b + 128;
  return (uint8_t)(((t >> 8) + t) >> 8);
}

/* Pillow's CMYK to RGB. Pillow takes every four-component JPEG for inverted, as Adobe's programs write them. */
static void cmyk_to_rgb(const uint8_t* cmyk, uint8_t* rgb, size_t pixels) {
  for (size_t i = 0; i < pixels; i++, cmyk += 4, rgb += 3) {
    int k = cmyk[3]; /* stored inverted: 255 - K */
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(k - multiply_255(255 - cmyk[c], k));
  }
}

/* libjpeg's warnings (JWRN_ in jerror.h). Any other sentence is an error. */
static int is_warning(const char* text) {
  static const char* const known[] = {
      "Corrupt JPEG data: ",  "Premature end of JPEG file",     "Inconsistent progression sequence ",
      "Unknown Adobe color ", "Warning: unknown JFIF revision", "Invalid SOS parameters for sequential JPEG",
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strncmp(text, known[i], strlen(known[i])) == 0) return 1;
  return 0;
}

/* Decodes a checked frame into rows of width*3 bytes. */
static int32_t decode(gospml_image_context* ctx, const uint8_t* bytes, uint64_t n, const frame* f, uint8_t* out,
                      gospml_image_message* m) {
  size_t pixels = (size_t)f->width * (size_t)f->height;
  uint8_t* target = out;
  int channels = f->components == 4 ? 4 : 3;
  if (channels == 4 && !(target = buffer_need(&ctx->cmyk, pixels * 4)))
    return fail(m, GOSPML_IMAGE_MEMORY, "out of memory for %dx%d pixels", f->width, f->height);
  /* A new handle each time (0.2 us): an old one keeps Huffman and quantisation tables, which a file that lacks its own
   * would then use. */
  tjhandle tj = tjInitDecompress();
  if (!tj) return fail(m, GOSPML_IMAGE_MEMORY, "libjpeg-turbo did not start: %s", tjGetErrorStr2(NULL));
  /* The size is given, so that the library can never write more than the buffer holds. */
  int rc = tjDecompress2(tj, bytes, n, target, f->width, f->width * channels, f->height,
                         channels == 4 ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS);
  if (rc != 0) {
    char text[sizeof m->text];
    snprintf(text, sizeof text, "%s", tjGetErrorStr2(tj));
    /* After a warning and then an error, TurboJPEG calls both a warning, but the sentence is the error's. */
    int warning = tjGetErrorCode(tj) == TJERR_WARNING && is_warning(text);
    tjDestroy(tj);
    if (!warning) return fail(m, GOSPML_IMAGE_DAMAGED, "damaged JPEG: %s", text);
    /* A warning: the decoder mended something. Pillow accepts that unless the file ended before all rows were decoded.
     * Only the first warning is kept, so the markers decide: one scan is complete once a marker follows its data, and
     * several scans need the end of the picture. */
    frame all = walk(bytes, n, 1);
    if (!all.end && !(all.one_scan && all.closed)) return fail(m, GOSPML_IMAGE_DAMAGED, "truncated JPEG: %s", text);
  } else {
    tjDestroy(tj);
  }
  if (channels == 4) cmyk_to_rgb(target, out, pixels);
  return GOSPML_IMAGE_OK;
}

int32_t jpeg_decode(gospml_image_context* ctx, const uint8_t* bytes, uint64_t n, int64_t max_pixels, uint8_t* out,
                    uint64_t out_size, gospml_image_message* m) {
  frame f = walk(bytes, n, 0);
  int32_t status = check_frame(&f, max_pixels, m);
  if (status) return status;
  if (out_size != (uint64_t)f.width * (uint64_t)f.height * 3)
    return fail(m, GOSPML_IMAGE_ARGUMENT, "%dx%d pixels take %lld bytes, not %llu", f.width, f.height,
                (long long)f.width * f.height * 3, (unsigned long long)out_size);
  return decode(ctx, bytes, n, &f, out, m);
}

int32_t jpeg_to_context(gospml_image_context* ctx, const uint8_t* bytes, uint64_t n, int64_t max_pixels, picture* p,
                        gospml_image_message* m) {
  frame f = walk(bytes, n, 0);
  int32_t status = check_frame(&f, max_pixels, m);
  if (status) return status;
  size_t stride = (size_t)f.width * 3, size = stride * (size_t)f.height;
  uint8_t* pixels = buffer_need(&ctx->picture, size + SLACK);
  if (!pixels) return fail(m, GOSPML_IMAGE_MEMORY, "out of memory for %dx%d pixels", f.width, f.height);
  *p = (picture){pixels, f.width, f.height, stride, pixels + size + SLACK};
  return decode(ctx, bytes, n, &f, pixels, m);
}
