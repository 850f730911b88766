//go:build cgo

package pixel

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "gospml_image.h"

#cgo noescape gip_jpeg_header
#cgo nocallback gip_jpeg_header
#cgo noescape gip_jpeg_decode
#cgo nocallback gip_jpeg_decode
#cgo noescape gip_jpeg_resize
#cgo nocallback gip_jpeg_resize
#cgo noescape gip_resize
#cgo nocallback gip_resize
#cgo noescape gip_normalize
#cgo nocallback gip_normalize

typedef const gospml_image_api_table *gip_table;

// dlerror belongs to the thread, so its text is copied in the same call.
static void *gip_open(const char *path, int flags, char *text, size_t n) {
  void *lib = dlopen(path, flags);
  if (!lib) snprintf(text, n, "%s", dlerror());
  return lib;
}
// The table, or NULL where the library does not have the function.
static gip_table gip_find(void *lib) {
  gip_table (*f)(uint32_t) = (gip_table(*)(uint32_t))dlsym(lib, "gospml_image_api");
  return f ? f(GOSPML_IMAGE_ABI) : NULL;
}

static gospml_image_context *gip_context_new(gip_table t) { return t->context_new(); }
static void gip_context_free(gip_table t, gospml_image_context *c) { t->context_free(c); }
static int32_t gip_jpeg_header(gip_table t, const void *b, uint64_t n, int32_t *info, gospml_image_message *m) {
  return t->jpeg_header(b, n, info, m);
}
static int32_t gip_jpeg_decode(gip_table t, gospml_image_context *c, const void *b, uint64_t n, int64_t max, void *out,
                               uint64_t size, gospml_image_message *m) {
  return t->jpeg_decode(c, b, n, max, out, size, m);
}
static int32_t gip_jpeg_resize(gip_table t, gospml_image_context *c, const void *b, uint64_t n,
                               const gospml_image_job *job, void *out, uint64_t size, gospml_image_message *m) {
  return t->jpeg_resize(c, b, n, job, out, size, m);
}
static int32_t gip_resize(gip_table t, gospml_image_context *c, const void *p, int32_t w, int32_t h,
                          const gospml_image_job *job, void *out, uint64_t size, gospml_image_message *m) {
  return t->resize(c, p, w, h, job, out, size, m);
}
static int32_t gip_normalize(gip_table t, gospml_image_context *c, const void *p, int32_t w, int32_t h,
                             const float *mean, const float *std, int32_t flip, void *out, uint64_t size,
                             gospml_image_message *m) {
  return t->normalize(c, p, w, h, mean, std, flip, out, size, m);
}
static int32_t gip_coefficients(gip_table t, int32_t in, int32_t out, int32_t filter, int32_t *first, int32_t *taps,
                                int32_t *weights) {
  return t->coefficients(in, out, filter, first, taps, weights);
}
static int32_t gip_cpu(gip_table t) { return t->cpu(); }
static int32_t gip_set_cpu(gip_table t, int32_t level) { return t->set_cpu(level); }
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"github.com/gospml/gospml/third_party/native"
)

const (
	libraryName = "libgospml-image.so"
	abiVersion  = C.GOSPML_IMAGE_ABI
)

type library struct{ table C.gip_table }

// load opens the library on first use. Its result, good or bad, is kept.
var load = sync.OnceValues(func() (*library, error) {
	path, err := native.FindLib(libraryName)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLibrary, err)
	}
	l, err := openLibrary(path, native.FindTurboJPEG())
	if err != nil {
		return nil, err
	}
	return l, l.setCPUFromEnv()
})

// openLibrary opens libturbojpeg, which ours is linked to by bare name, then ours.
func openLibrary(path, turbo string) (*library, error) {
	if _, err := dlopen(turbo, C.RTLD_NOW|C.RTLD_GLOBAL); err != nil {
		return nil, fmt.Errorf("%w: libjpeg-turbo cannot be opened (%w); install libturbojpeg0 or run `%s`", ErrLibrary, err, native.SetupCommand)
	}
	lib, err := dlopen(path, C.RTLD_NOW|C.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot be opened (%w); run `%s`", ErrLibrary, path, err, native.SetupCommand)
	}
	table := C.gip_find(lib)
	if table == nil {
		return nil, fmt.Errorf("%w: %s is not the image library (no gospml_image_api); run `%s`", ErrLibrary, path, native.SetupCommand)
	}
	if table.abi != abiVersion || uintptr(table.size) < unsafe.Sizeof(*table) {
		return nil, fmt.Errorf("%w: %s has ABI %d, this program needs %d; run `%s`", ErrLibrary, path, table.abi, abiVersion, native.SetupCommand)
	}
	return &library{table}, nil
}

// dlopen never closes what it opened.
func dlopen(path string, flags C.int) (unsafe.Pointer, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var text [512]C.char
	lib := C.gip_open(name, flags, &text[0], C.size_t(len(text)))
	if lib == nil {
		return nil, errors.New(C.GoString(&text[0]))
	}
	return lib, nil
}

var cpuNames = [...]string{C.GOSPML_IMAGE_CPU_SSE: "sse", C.GOSPML_IMAGE_CPU_AVX2: "avx2", C.GOSPML_IMAGE_CPU_AVX512: "avx512"}

func (l *library) setCPUFromEnv() error {
	want := os.Getenv("GOSPML_CPU")
	if want == "" {
		return nil
	}
	for i, n := range cpuNames {
		if n == want {
			C.gip_set_cpu(l.table, C.int32_t(i))
			return nil
		}
	}
	return fmt.Errorf("%w: GOSPML_CPU=%s is none of %v", ErrLibrary, want, cpuNames)
}

// setCPU asks for kernels and returns those in use.
func (l *library) setCPU(level int) int { return int(C.gip_set_cpu(l.table, C.int32_t(level))) }

func (l *library) cpu() string { return cpuNames[C.gip_cpu(l.table)] }

// coefficients returns the first input and the fixed-point weights of each output of one axis.
func (l *library) coefficients(in, out int, f Filter) (first []int32, weights [][]int32) {
	i, o, k := C.int32_t(in), C.int32_t(out), C.int32_t(f)
	stride := int(C.gip_coefficients(l.table, i, o, k, nil, nil, nil))
	first, taps, flat := make([]int32, out), make([]int32, out), make([]int32, out*stride)
	C.gip_coefficients(l.table, i, o, k, (*C.int32_t)(&first[0]), (*C.int32_t)(&taps[0]), (*C.int32_t)(&flat[0]))
	for x := range out {
		weights = append(weights, flat[x*stride:x*stride+int(taps[x])])
	}
	return first, weights
}

// context is the library's scratch memory of one goroutine, with room for what crosses the border.
type context struct {
	lib     *library
	c       *C.gospml_image_context
	job     C.gospml_image_job
	message C.gospml_image_message
}

func newContext() (*context, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	c := C.gip_context_new(l.table)
	if c == nil {
		return nil, fmt.Errorf("pixel: out of memory")
	}
	return &context{lib: l, c: c}, nil
}

// release returns a function that frees the native side and holds no reference to the context.
func (c *context) release() func() {
	table, p := c.lib.table, c.c
	return func() { C.gip_context_free(table, p) }
}

// result turns a status into an error.
func (c *context) result(status C.int32_t) error { return statusError(status, &c.message) }

func statusError(status C.int32_t, m *C.gospml_image_message) error {
	if status == C.GOSPML_IMAGE_OK {
		return nil
	}
	text := errors.New(C.GoString(&m.text[0]))
	switch status {
	case C.GOSPML_IMAGE_DAMAGED:
		return fmt.Errorf("%w: %w", ErrDamaged, text)
	case C.GOSPML_IMAGE_TOO_LARGE:
		return fmt.Errorf("%w: %w", ErrTooLarge, text)
	case C.GOSPML_IMAGE_UNSUPPORTED:
		return fmt.Errorf("%w: %w", ErrUnknownFormat, text)
	}
	return fmt.Errorf("pixel: %w", text)
}

func jpegSize(b []byte) (w, h int, err error) {
	l, err := load()
	if err != nil {
		return 0, 0, err
	}
	var info [3]C.int32_t
	var m C.gospml_image_message
	status := C.gip_jpeg_header(l.table, unsafe.Pointer(unsafe.SliceData(b)), C.uint64_t(len(b)), &info[0], &m)
	return int(info[0]), int(info[1]), statusError(status, &m)
}

func (c *context) jpegDecode(b []byte, maxPixels int64, out []byte) error {
	return c.result(C.gip_jpeg_decode(c.lib.table, c.c, unsafe.Pointer(unsafe.SliceData(b)), C.uint64_t(len(b)),
		C.int64_t(maxPixels), unsafe.Pointer(unsafe.SliceData(out)), C.uint64_t(len(out)), &c.message))
}

// setJob fills the job; norm nil asks for uint8.
func (c *context) setJob(g Geometry, norm *norm, maxPixels int64) {
	rect := func(min, max struct{ X, Y int }) C.gospml_image_rect {
		return C.gospml_image_rect{C.int32_t(min.X), C.int32_t(min.Y), C.int32_t(max.X), C.int32_t(max.Y)}
	}
	c.job = C.gospml_image_job{
		width: C.int32_t(g.W), height: C.int32_t(g.H), filter: C.int32_t(g.Filter), max_pixels: C.int64_t(maxPixels),
		source: rect(g.Source.Min, g.Source.Max), window: rect(g.Window.Min, g.Window.Max),
	}
	if g.Flip {
		c.job.flip = 1
	}
	if norm != nil {
		c.job.normalize = 1
		for i := range 3 {
			c.job.mean[i], c.job.std[i] = C.float(norm.mean[i]), C.float(norm.std[i])
		}
	}
}

func (c *context) jpegResize(b []byte, out unsafe.Pointer, size int) error {
	return c.result(C.gip_jpeg_resize(c.lib.table, c.c, unsafe.Pointer(unsafe.SliceData(b)), C.uint64_t(len(b)), &c.job,
		out, C.uint64_t(size), &c.message))
}

func (c *context) resize(p *RGB, out unsafe.Pointer, size int) error {
	return c.result(C.gip_resize(c.lib.table, c.c, unsafe.Pointer(unsafe.SliceData(p.Pix)), C.int32_t(p.W), C.int32_t(p.H),
		&c.job, out, C.uint64_t(size), &c.message))
}

func (c *context) normalize(src []byte, w, h int, n *norm, flip bool, dst []float32) error {
	var mirrored C.int32_t
	if flip {
		mirrored = 1
	}
	return c.result(C.gip_normalize(c.lib.table, c.c, unsafe.Pointer(unsafe.SliceData(src)), C.int32_t(w), C.int32_t(h),
		(*C.float)(&n.mean[0]), (*C.float)(&n.std[0]), mirrored, unsafe.Pointer(unsafe.SliceData(dst)), C.uint64_t(len(dst)*4), &c.message))
}
