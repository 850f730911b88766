//go:build cgo

package abi

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include "gospml_cuda.h"

static const gc_api *api;

static void *gc_open(const char *path) { return dlopen(path, RTLD_NOW | RTLD_GLOBAL); }
static const char *gc_dlerror(void) { return dlerror(); }
// 0 = fine, 1 = symbol absent, 2 = other ABI
static int gc_bind(void *lib) {
  const gc_api *(*f)(uint32_t) = (const gc_api *(*)(uint32_t))dlsym(lib, "gospml_cuda_api");
  if (!f) return 1;
  const gc_api *a = f(GOSPML_CUDA_ABI);
  if (!a || a->size < sizeof(gc_api)) return 2;
  api = a;
  return 0;
}

// The number of devices, or -1: no driver, -2: the driver fails with *code.
static int gc_driver_count(int *code) {
  void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) return -1;
  int (*init)(unsigned) = (int (*)(unsigned))dlsym(lib, "cuInit");
  int (*count)(int *) = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
  int n = 0;
  if (!init || !count) return -1;
  if ((*code = init(0)) != 0) return -2;
  if ((*code = count(&n)) != 0) return -2;
  return n;
}

// NVML, declared here because its header comes with toolkits only.
typedef struct { unsigned long long total, free, used; } gc_nvml_memory;
typedef struct { unsigned gpu, memory; } gc_nvml_busy;
typedef struct {
  int code;     // 0 = fine, -1 = no library, else NVML's
  char where[40];
  char name[96], uuid[96], driver[96];
  gc_nvml_memory memory;
  gc_nvml_busy busy;
  unsigned temperature, milliwatts;
} gc_nvml;

static void gc_nvml_read(unsigned index, gc_nvml *o) {
  memset(o, 0, sizeof *o);
  void *lib = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib) { o->code = -1; return; }
#define GC_SYMBOL(var, name, type) type var = (type)dlsym(lib, name); if (!var) { o->code = -1; strcpy(o->where, name); return; }
  typedef int (*plain)(void);
  typedef int (*by_index)(unsigned, void **);
  typedef int (*texts)(void *, char *, unsigned);
  typedef int (*text)(char *, unsigned);
  typedef int (*out)(void *, void *);
  typedef int (*sensor)(void *, int, unsigned *);
  GC_SYMBOL(init, "nvmlInit_v2", plain)
  GC_SYMBOL(shutdown, "nvmlShutdown", plain)
  GC_SYMBOL(handle, "nvmlDeviceGetHandleByIndex_v2", by_index)
  GC_SYMBOL(name, "nvmlDeviceGetName", texts)
  GC_SYMBOL(uuid, "nvmlDeviceGetUUID", texts)
  GC_SYMBOL(driver, "nvmlSystemGetDriverVersion", text)
  GC_SYMBOL(memory, "nvmlDeviceGetMemoryInfo", out)
  GC_SYMBOL(busy, "nvmlDeviceGetUtilizationRates", out)
  GC_SYMBOL(power, "nvmlDeviceGetPowerUsage", out)
  GC_SYMBOL(temperature, "nvmlDeviceGetTemperature", sensor)
#undef GC_SYMBOL
  strcpy(o->where, "nvmlInit_v2");
  if ((o->code = init()) != 0) return;
  void *d = 0;
  strcpy(o->where, "nvmlDeviceGetHandleByIndex_v2");
  if ((o->code = handle(index, &d)) == 0) {
    // What a device does not tell stays 0.
    name(d, o->name, sizeof o->name);
    uuid(d, o->uuid, sizeof o->uuid);
    driver(o->driver, sizeof o->driver);
    memory(d, &o->memory);
    busy(d, &o->busy);
    power(d, &o->milliwatts);
    temperature(d, 0, &o->temperature);
  }
  shutdown();
}

static const char *gc_compiled(void) { return api->torch_version; }
static void gc_free_text(char *p) { api->free_text(p); }
static gc_result gc_properties(int d, char *name, size_t n) { return api->properties(d, name, n); }
static gc_result gc_synchronize(int d) { return api->synchronize(d); }
static gc_result gc_stream(int d, int priority) { return api->stream(d, priority); }
static gc_result gc_current_stream(int d) { return api->current_stream(d); }
static gc_result gc_set_stream(int64_t s, int d) { return api->set_stream(s, d); }
static gc_result gc_stream_query(int64_t s, int d) { return api->stream_query(s, d); }
static gc_result gc_stream_synchronize(int64_t s, int d) { return api->stream_synchronize(s, d); }
static gc_result gc_event(int timing) { return api->event(timing); }
static gc_result gc_event_record(uint64_t e, int64_t s, int d) { return api->event_record(e, s, d); }
static gc_result gc_event_wait(uint64_t e, int64_t s, int d) { return api->event_wait(e, s, d); }
static gc_result gc_event_query(uint64_t e) { return api->event_query(e); }
static gc_result gc_event_synchronize(uint64_t e) { return api->event_synchronize(e); }
static gc_result gc_event_elapsed(uint64_t a, uint64_t b) { return api->event_elapsed(a, b); }
static gc_result gc_event_free(uint64_t e) { return api->event_free(e); }
static gc_result gc_graph(void) { return api->graph(); }
static gc_result gc_graph_begin(uint64_t g, uint64_t shared) { return api->graph_begin(g, shared); }
static gc_result gc_graph_end(uint64_t g) { return api->graph_end(g); }
static gc_result gc_graph_replay(uint64_t g) { return api->graph_replay(g); }
static gc_result gc_graph_free(uint64_t g) { return api->graph_free(g); }
static gc_result gc_memory_stats(int d) { return api->memory_stats(d); }
static gc_result gc_memory_info(int d) { return api->memory_info(d); }
static gc_result gc_empty_cache(void) { return api->empty_cache(); }
static gc_result gc_reset_peak(int d) { return api->reset_peak(d); }
static gc_result gc_set_fraction(int d, double f) { return api->set_fraction(d, f); }
static gc_result gc_attach_nccl(uint64_t g, uint64_t s, int rank, int size, int64_t timeout) { return api->attach_nccl(g, s, rank, size, timeout); }
static gc_result gc_ready(void) { return api->ready(); }
static int gc_wait_pressure(void) { return api->wait_pressure(); }
static void gc_answer_pressure(const uint64_t *h, size_t n) { api->answer_pressure(h, n); }
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"
)

type count struct {
	n      int
	reason string
}

var driver = sync.OnceValue(func() count {
	var code C.int
	switch n := int(C.gc_driver_count(&code)); {
	case n == -1:
		return count{reason: "the NVIDIA driver (libcuda.so.1) is not installed"}
	case n == -2 && code == 100: // CUDA_ERROR_NO_DEVICE
		return count{reason: "the driver sees no GPU"}
	case n == -2:
		return count{reason: fmt.Sprintf("the NVIDIA driver fails with CUDA error %d", int(code))}
	case n == 0:
		return count{reason: "the driver shows no GPU; look at CUDA_VISIBLE_DEVICES"}
	default:
		return count{n: n}
	}
})

// Driver returns why no card can be used, "" where one can.
func Driver() string { return driver().reason }

// DeviceCount is the number of cards that the driver shows.
func DeviceCount() int { return driver().n }

// Open opens the libraries in this order, ours last, for ever.
func Open(preload []string, path string) error {
	runtime.LockOSThread() // dlerror is of the thread
	defer runtime.UnlockOSThread()
	for _, p := range append(preload, path) {
		c := C.CString(p)
		lib := C.gc_open(c)
		C.free(unsafe.Pointer(c))
		if lib == nil {
			return fmt.Errorf("%s cannot be opened (%s)", p, C.GoString(C.gc_dlerror()))
		}
		if p == path {
			if code := C.gc_bind(lib); code != 0 {
				return fmt.Errorf("%s belongs to another version of gospml", p)
			}
		}
	}
	return nil
}

// CompiledFor is the libtorch that our library was built for.
func CompiledFor() string { return C.GoString(C.gc_compiled()) }

func result(c C.gc_result) Result {
	var r Result
	if c.msg != nil {
		r.Message, r.OutOfMemory = C.GoString(c.msg), c.out_of_memory != 0
		C.gc_free_text(c.msg)
		return r
	}
	for i := range int(c.n) {
		r.W[i] = int64(c.w[i])
	}
	return r
}

// Properties returns a device's facts and its name.
func Properties(device int) (Result, string) {
	var name [256]C.char
	r := result(C.gc_properties(C.int(device), &name[0], 256))
	return r, C.GoString(&name[0])
}

// The entries of gospml_cuda.h.

func Synchronize(device int) Result      { return result(C.gc_synchronize(C.int(device))) }
func Stream(device, priority int) Result { return result(C.gc_stream(C.int(device), C.int(priority))) }
func CurrentStream(device int) Result    { return result(C.gc_current_stream(C.int(device))) }
func SetStream(id int64, device int) Result {
	return result(C.gc_set_stream(C.int64_t(id), C.int(device)))
}
func StreamQuery(id int64, device int) Result {
	return result(C.gc_stream_query(C.int64_t(id), C.int(device)))
}
func StreamSynchronize(id int64, device int) Result {
	return result(C.gc_stream_synchronize(C.int64_t(id), C.int(device)))
}
func Event(timing bool) Result {
	var t C.int
	if timing {
		t = 1
	}
	return result(C.gc_event(t))
}
func EventRecord(event uint64, stream int64, device int) Result {
	return result(C.gc_event_record(C.uint64_t(event), C.int64_t(stream), C.int(device)))
}
func EventWait(event uint64, stream int64, device int) Result {
	return result(C.gc_event_wait(C.uint64_t(event), C.int64_t(stream), C.int(device)))
}
func EventQuery(event uint64) Result { return result(C.gc_event_query(C.uint64_t(event))) }
func EventSynchronize(event uint64) Result {
	return result(C.gc_event_synchronize(C.uint64_t(event)))
}
func EventElapsed(from, to uint64) Result {
	return result(C.gc_event_elapsed(C.uint64_t(from), C.uint64_t(to)))
}
func EventFree(event uint64) Result { return result(C.gc_event_free(C.uint64_t(event))) }
func Graph() Result                 { return result(C.gc_graph()) }
func GraphBegin(graph, shared uint64) Result {
	return result(C.gc_graph_begin(C.uint64_t(graph), C.uint64_t(shared)))
}
func GraphEnd(graph uint64) Result    { return result(C.gc_graph_end(C.uint64_t(graph))) }
func GraphReplay(graph uint64) Result { return result(C.gc_graph_replay(C.uint64_t(graph))) }
func GraphFree(graph uint64) Result   { return result(C.gc_graph_free(C.uint64_t(graph))) }
func MemoryStats(device int) Result   { return result(C.gc_memory_stats(C.int(device))) }
func MemoryInfo(device int) Result    { return result(C.gc_memory_info(C.int(device))) }
func EmptyCache() Result              { return result(C.gc_empty_cache()) }
func ResetPeak(device int) Result     { return result(C.gc_reset_peak(C.int(device))) }
func SetFraction(device int, fraction float64) Result {
	return result(C.gc_set_fraction(C.int(device), C.double(fraction)))
}

func AttachNCCL(group, store uint64, rank, size int, timeout int64) Result {
	return result(C.gc_attach_nccl(C.uint64_t(group), C.uint64_t(store), C.int(rank), C.int(size), C.int64_t(timeout)))
}

// Ready says in W[0] whether libtorch has found its CUDA part.
func Ready() Result { return result(C.gc_ready()) }

// WaitPressure blocks until the allocator finds no room.
func WaitPressure() bool { return C.gc_wait_pressure() != 0 }

// AnswerPressure hands it the handles of tensors that nobody uses; it releases them.
func AnswerPressure(handles []uint64) {
	C.gc_answer_pressure((*C.uint64_t)(unsafe.Pointer(unsafe.SliceData(handles))), C.size_t(len(handles)))
}

// NVML asks the management library about a device; the text says why it cannot.
func NVML(device int) (NVMLStatus, string) {
	if device < 0 {
		return NVMLStatus{}, fmt.Sprintf("there is no device %d", device)
	}
	var o C.gc_nvml
	C.gc_nvml_read(C.uint(device), &o)
	switch {
	case o.code == -1 && o.where[0] == 0:
		return NVMLStatus{NoDevice: true}, "the NVIDIA driver (libnvidia-ml.so.1) is not installed"
	case o.code == -1:
		return NVMLStatus{}, "libnvidia-ml.so.1 has no " + C.GoString(&o.where[0])
	case o.code == 6: // NVML_ERROR_NOT_FOUND
		return NVMLStatus{}, fmt.Sprintf("there is no device %d", device)
	case o.code == 9: // NVML_ERROR_DRIVER_NOT_LOADED
		return NVMLStatus{NoDevice: true}, "the NVIDIA driver is not loaded"
	case o.code != 0:
		return NVMLStatus{}, fmt.Sprintf("%s fails with %d", C.GoString(&o.where[0]), int(o.code))
	}
	return NVMLStatus{
		Name: C.GoString(&o.name[0]), UUID: C.GoString(&o.uuid[0]), Driver: C.GoString(&o.driver[0]),
		MemoryTotal: int64(o.memory.total), MemoryUsed: int64(o.memory.used), GPUBusy: int(o.busy.gpu), MemoryBusy: int(o.busy.memory),
		Temperature: int(o.temperature), MilliWatts: int(o.milliwatts),
	}, ""
}
