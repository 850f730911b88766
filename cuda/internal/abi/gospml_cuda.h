/* The C ABI between Go and the CUDA part of libtorch: gospml_cuda_api returns a table of functions.
 * Rules of every entry: no C++ exception leaves it, the error comes back by value in the same call, no entry calls back
 * into Go. A stream is c10's number of it together with its device. */
#ifndef GOSPML_CUDA_H
#define GOSPML_CUDA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GOSPML_CUDA_ABI 2
#define GC_WORDS 32

typedef struct {
  char* msg; /* 0 = success; free with free_text */
  int32_t n;
  int32_t out_of_memory;
  int64_t w[GC_WORDS];
} gc_result;

typedef struct {
  uint32_t abi;
  uint32_t size;
  const char* torch_version; /* compiled against */
  void (*free_text)(char* p);

  /* Devices. */
  gc_result (*properties)(int device, char* name, size_t n); /* w: see cuda.cpp; the name into name */
  gc_result (*synchronize)(int device);

  /* Streams. */
  gc_result (*stream)(int device, int priority);                    /* w: stream */
  gc_result (*current_stream)(int device);                          /* w: stream */
  gc_result (*set_stream)(int64_t stream, int device); /* of this OS thread; w: the stream and the device before */
  gc_result (*stream_query)(int64_t stream, int device); /* w: 1 if all its work is done */
  gc_result (*stream_synchronize)(int64_t stream, int device);

  /* Events. */
  gc_result (*event)(int timing); /* w: event */
  gc_result (*event_record)(uint64_t event, int64_t stream, int device);
  gc_result (*event_wait)(uint64_t event, int64_t stream, int device); /* the stream waits */
  gc_result (*event_query)(uint64_t event);
  gc_result (*event_synchronize)(uint64_t event);
  gc_result (*event_elapsed)(uint64_t from, uint64_t to); /* w: bits of a float64, milliseconds */
  gc_result (*event_free)(uint64_t event);

  /* Graphs. */
  gc_result (*graph)(void);
  gc_result (*graph_begin)(
      uint64_t graph, uint64_t shared); /* on this thread's stream; shared: a graph whose memory is used too, or 0 */
  gc_result (*graph_end)(uint64_t graph);
  gc_result (*graph_replay)(uint64_t graph);
  gc_result (*graph_free)(uint64_t graph);

  /* Memory. */
  gc_result (*memory_stats)(int device); /* w: see cuda.cpp */
  gc_result (*memory_info)(int device); /* w: free, total */
  gc_result (*empty_cache)(void);
  gc_result (*reset_peak)(int device);
  gc_result (*set_fraction)(int device, double fraction);

  /* When the allocator finds little room it asks for handles of tensors that nobody uses: it wakes wait_pressure, and
   * releases on its own thread (it holds its lock) what answer_pressure brings within a second. */
  int (*wait_pressure)(void); /* blocks until there is pressure */
  void (*answer_pressure)(const uint64_t* handles, size_t n);

  /* NCCL, where this library was built with its header. group and store as in gospml_dist.h. */
  gc_result (*attach_nccl)(uint64_t group, uint64_t store, int rank, int size, int64_t timeout);

  gc_result (*ready)(void); /* w: 1 if libtorch found its CUDA part when it first looked; it looks once */
} gc_api;

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const gc_api* gospml_cuda_api(uint32_t abi);

#ifdef __cplusplus
}
#endif
#endif
