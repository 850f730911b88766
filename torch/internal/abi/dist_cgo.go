//go:build cgo

package abi

/*
#include <dlfcn.h>
#include <stdlib.h>
#include "gospml_dist.h"

static const gs_dist *dist;

typedef const gs_dist *(*dist_fn)(uint32_t);

// 0 = fine, 1 = symbol absent, 2 = other ABI
static int gs_bind_dist(void *lib) {
  dist_fn f = (dist_fn)dlsym(lib, "gospml_dist_api");
  if (!f) return 1;
  const gs_dist *d = f(GOSPML_DIST_ABI);
  if (!d || d->size < sizeof(gs_dist)) return 2;
  dist = d;
  return 0;
}

static gs_result gs_tcp_store(const char *host, int port, int server, int workers, int64_t timeout) { return dist->tcp_store(host, port, server, workers, timeout); }
static gs_result gs_prefix_store(uint64_t s, const char *prefix) { return dist->prefix_store(s, prefix); }
static gs_result gs_store_set(uint64_t s, const char *key, const void *v, size_t n) { return dist->store_set(s, key, (const uint8_t *)v, n); }
static gs_result gs_store_get(uint64_t s, const char *key, int64_t timeout) { return dist->store_get(s, key, timeout); }
static gs_result gs_store_add(uint64_t s, const char *key, int64_t n) { return dist->store_add(s, key, n); }
static gs_result gs_store_delete(uint64_t s, const char *key) { return dist->store_delete(s, key); }
static gs_result gs_store_free(uint64_t s) { return dist->store_free(s); }
static gs_result gs_gloo_group(uint64_t s, int rank, int size, const char *where, int host, int64_t timeout) { return dist->gloo_group(s, rank, size, where, host, timeout); }
static gs_result gs_empty_group(uint64_t s, int rank, int size) { return dist->empty_group(s, rank, size); }
static gs_result gs_group_timeout(uint64_t g, int64_t timeout) { return dist->group_timeout(g, timeout); }
static gs_result gs_group_free(uint64_t g) { return dist->group_free(g); }
static gs_result gs_start(uint64_t g, int kind, const uint64_t *a, size_t n, const uint64_t *b, size_t nb, int op, int root, int64_t timeout) { return dist->start(g, kind, a, n, b, nb, op, root, timeout); }
static gs_result gs_wait(uint64_t w, int64_t timeout) { return dist->wait(w, timeout); }
static gs_result gs_done(uint64_t w) { return dist->done(w); }
static gs_result gs_work_free(uint64_t w) { return dist->work_free(w); }
static gs_result gs_sync(uint64_t g, const uint64_t *t, size_t n, int root) { return dist->sync(g, t, n, root); }
static gs_result gs_verify(uint64_t g, const uint64_t *t, size_t n) { return dist->verify(g, t, n); }
static gs_result gs_reducer(uint64_t g, const uint64_t *t, size_t n, int64_t first, int64_t bucket, int unused) { return dist->reducer(g, t, n, first, bucket, unused); }
static gs_result gs_prepare(uint64_t r, const uint64_t *t, size_t n) { return dist->prepare(r, t, n); }
static gs_result gs_reducer_free(uint64_t r) { return dist->reducer_free(r); }
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/gospml/gospml/third_party/native"
)

var loadDist = sync.OnceValue(func() error {
	if err := Load(); err != nil {
		return err
	}
	if C.gs_bind_dist(coreLibrary) != 0 {
		return &LoadError{fmt.Sprintf("%s has not the entries for several processes; run `%s`", Loaded.Library, native.SetupCommand)}
	}
	return nil
})

// LoadDist is Load for the functions of several processes, which must not be called before it. They may block and take no
// slot of the semaphore meanwhile.
func LoadDist() error { return loadDist() }

func withString(s string, f func(*C.char) C.gs_result) Result {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	return result(f(c))
}

// TCPStore connects to a store or, with server, becomes its host; W: store, port.
func TCPStore(host string, port int, server bool, workers int, timeout int64) Result {
	return withString(host, func(h *C.char) C.gs_result {
		return C.gs_tcp_store(h, C.int(port), flag(server), C.int(workers), C.int64_t(timeout))
	})
}

// PrefixStore is a view of a store that puts a prefix before each key.
func PrefixStore(store uint64, prefix string) Result {
	return withString(prefix, func(p *C.char) C.gs_result { return C.gs_prefix_store(C.uint64_t(store), p) })
}

// StoreSet sets a value.
func StoreSet(store uint64, key string, value []byte) Result {
	return withString(key, func(k *C.char) C.gs_result {
		return C.gs_store_set(C.uint64_t(store), k, unsafe.Pointer(unsafe.SliceData(value)), C.size_t(len(value)))
	})
}

// StoreGet waits for a value; it is text in W[0].
func StoreGet(store uint64, key string, timeout int64) Result {
	return withString(key, func(k *C.char) C.gs_result { return C.gs_store_get(C.uint64_t(store), k, C.int64_t(timeout)) })
}

// StoreAdd adds to a counter and returns the sum.
func StoreAdd(store uint64, key string, n int64) Result {
	return withString(key, func(k *C.char) C.gs_result { return C.gs_store_add(C.uint64_t(store), k, C.int64_t(n)) })
}

// StoreDelete removes a key.
func StoreDelete(store uint64, key string) Result {
	return withString(key, func(k *C.char) C.gs_result { return C.gs_store_delete(C.uint64_t(store), k) })
}

// StoreFree gives a store back.
func StoreFree(store uint64) Result { return result(C.gs_store_free(C.uint64_t(store))) }

// GlooGroup makes a group over an interface, a host's address or, with "", libtorch's choice.
func GlooGroup(store uint64, rank, size int, where string, host bool, timeout int64) Result {
	return withString(where, func(w *C.char) C.gs_result {
		return C.gs_gloo_group(C.uint64_t(store), C.int(rank), C.int(size), w, flag(host), C.int64_t(timeout))
	})
}

// EmptyGroup makes a group to which another library adds a backend.
func EmptyGroup(store uint64, rank, size int) Result {
	return result(C.gs_empty_group(C.uint64_t(store), C.int(rank), C.int(size)))
}

// GroupTimeout sets how long a collective may take.
func GroupTimeout(group uint64, timeout int64) Result {
	return result(C.gs_group_timeout(C.uint64_t(group), C.int64_t(timeout)))
}

// GroupFree gives a group back.
func GroupFree(group uint64) Result { return result(C.gs_group_free(C.uint64_t(group))) }

// Start begins a collective; W[0] is the work.
func Start(group uint64, kind int, tensors, others []uint64, op, root int, timeout int64) Result {
	return result(C.gs_start(C.uint64_t(group), C.int(kind), words(tensors), C.size_t(len(tensors)), words(others), C.size_t(len(others)), C.int(op), C.int(root), C.int64_t(timeout)))
}

// Wait waits for a work.
func Wait(work uint64, timeout int64) Result {
	return result(C.gs_wait(C.uint64_t(work), C.int64_t(timeout)))
}

// Done reports whether a work has ended.
func Done(work uint64) Result { return result(C.gs_done(C.uint64_t(work))) }

// WorkFree gives a work back.
func WorkFree(work uint64) Result { return result(C.gs_work_free(C.uint64_t(work))) }

// Sync copies root's values into the tensors of all ranks.
func Sync(group uint64, tensors []uint64, root int) Result {
	return result(C.gs_sync(C.uint64_t(group), words(tensors), C.size_t(len(tensors)), C.int(root)))
}

// Verify compares number and shapes of the parameters over the ranks.
func Verify(group uint64, params []uint64) Result {
	return result(C.gs_verify(C.uint64_t(group), words(params), C.size_t(len(params))))
}

// Reducer averages gradients while backward runs; W: reducer, number of buckets.
func Reducer(group uint64, params []uint64, firstBucket, bucket int64, findUnused bool) Result {
	return result(C.gs_reducer(C.uint64_t(group), words(params), C.size_t(len(params)), C.int64_t(firstBucket), C.int64_t(bucket), flag(findUnused)))
}

// Prepare readies a reducer for the backward of outputs; W[0] is 1 if it rebuilt its buckets.
func Prepare(reducer uint64, outputs []uint64) Result {
	return result(C.gs_prepare(C.uint64_t(reducer), words(outputs), C.size_t(len(outputs))))
}

// ReducerFree gives a reducer back.
func ReducerFree(reducer uint64) Result { return result(C.gs_reducer_free(C.uint64_t(reducer))) }
