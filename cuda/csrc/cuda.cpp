// Streams, events, graphs, the allocator: what of libtorch's CUDA part is no operator.
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "capture.h"
#include "gospml_cuda.h"
#include "pressure.h"

void gc_handles(); // handles.cpp

namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

char* text(const char* s) {
  char* p = static_cast<char*>(std::malloc(std::strlen(s) + 1));
  if (p) std::strcpy(p, s);
  return p;
}

template <class F>
gc_result guarded(F&& f) noexcept {
  gc_result r{};
  try {
    f(r);
  } catch (const c10::OutOfMemoryError& e) {
    r.out_of_memory = 1;
    r.msg = text(e.what_without_backtrace());
  } catch (const c10::Error& e) { r.msg = text(e.what_without_backtrace()); } catch (const std::exception& e) {
    r.msg = text(e.what());
  } catch (...) { r.msg = text("an exception of unknown type"); }
  return r;
}

void put(gc_result& r, int64_t w) { r.w[r.n++] = w; }

void check(cudaError_t e) { C10_CUDA_CHECK(e); }

c10::DeviceIndex index(int device) {
  TORCH_CHECK(device >= 0 && device < c10::cuda::device_count(), "there is no CUDA device ", device, " among ",
              static_cast<int>(c10::cuda::device_count()));
  return static_cast<c10::DeviceIndex>(device);
}

c10::cuda::CUDAStream stream_of(int64_t id, int device) {
  return c10::cuda::CUDAStream(c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::kCUDA, index(device)), id));
}

template <class T>
T& of(uint64_t h) {
  TORCH_CHECK(h, "the event or graph was closed");
  return *reinterpret_cast<T*>(h);
}

gc_result properties(int device, char* name, size_t n) {
  return guarded([&](gc_result& r) {
    cudaDeviceProp p;
    check(cudaGetDeviceProperties(&p, index(device)));
    std::strncpy(name, p.name, n - 1);
    name[n - 1] = 0;
    int memory_clock = 0, clock = 0;
    check(cudaDeviceGetAttribute(&clock, cudaDevAttrClockRate, device));
    check(cudaDeviceGetAttribute(&memory_clock, cudaDevAttrMemoryClockRate, device));
    for (int64_t v :
         {int64_t(p.major), int64_t(p.minor), int64_t(p.totalGlobalMem), int64_t(p.multiProcessorCount),
          int64_t(p.maxThreadsPerMultiProcessor), int64_t(p.warpSize), int64_t(p.l2CacheSize),
          int64_t(p.sharedMemPerMultiprocessor), int64_t(p.sharedMemPerBlockOptin), int64_t(p.regsPerMultiprocessor),
          int64_t(clock), int64_t(memory_clock), int64_t(p.memoryBusWidth), int64_t(p.integrated), int64_t(p.pciBusID)})
      put(r, v);
  });
}

gc_result synchronize(int device) {
  return guarded([&](gc_result&) {
    c10::cuda::CUDAGuard guard(index(device));
    c10::cuda::device_synchronize();
  });
}

gc_result stream(int device, int priority) {
  return guarded([&](gc_result& r) { put(r, c10::cuda::getStreamFromPool(priority, index(device)).id()); });
}

gc_result current_stream(int device) {
  return guarded([&](gc_result& r) { put(r, c10::cuda::getCurrentCUDAStream(index(device)).id()); });
}

gc_result set_stream(int64_t id, int device) {
  return guarded([&](gc_result& r) {
    const auto s = stream_of(id, device);
    const auto before = c10::cuda::current_device();
    put(r, c10::cuda::getCurrentCUDAStream(s.device_index()).id());
    put(r, before);
    c10::cuda::set_device(s.device_index());
    c10::cuda::setCurrentCUDAStream(s);
  });
}

gc_result stream_query(int64_t id, int device) {
  return guarded([&](gc_result& r) { put(r, stream_of(id, device).query()); });
}

gc_result stream_synchronize(int64_t id, int device) {
  return guarded([&](gc_result&) { stream_of(id, device).synchronize(); });
}

using Event = c10::cuda::CUDAEvent;

gc_result event(int timing) {
  return guarded([&](gc_result& r) {
    put(r, reinterpret_cast<int64_t>(new Event(timing ? cudaEventDefault : cudaEventDisableTiming)));
  });
}

gc_result event_record(uint64_t e, int64_t s, int device) {
  return guarded([&](gc_result&) { of<Event>(e).record(stream_of(s, device)); });
}

gc_result event_wait(uint64_t e, int64_t s, int device) {
  return guarded([&](gc_result&) { of<Event>(e).block(stream_of(s, device)); });
}

gc_result event_query(uint64_t e) {
  return guarded([&](gc_result& r) { put(r, of<Event>(e).query()); });
}

gc_result event_synchronize(uint64_t e) {
  return guarded([&](gc_result&) { of<Event>(e).synchronize(); });
}

gc_result event_elapsed(uint64_t from, uint64_t to) {
  return guarded([&](gc_result& r) {
    const double ms = of<Event>(from).elapsed_time(of<Event>(to));
    int64_t bits;
    std::memcpy(&bits, &ms, sizeof bits);
    put(r, bits);
  });
}

gc_result event_free(uint64_t e) {
  return guarded([&](gc_result&) { delete reinterpret_cast<Event*>(e); });
}

// A graph that gives everything back when its capture fails, which libtorch's own does not.
struct Graph final : at::cuda::CUDAGraph {
  bool ended() const { return capture_ended_; }
  void end_allocation() { caching::endAllocateToPool(capture_dev_, mempool_id_); }
  void release_pool() { caching::releasePool(capture_dev_, mempool_id_); }
  void end_generators() {
    for (auto& [state, increments] : captured_generator_states_) state->capture_epilogue();
  }
  c10::MempoolId_t memory() const { return mempool_id_; }
};

gc_result graph() {
  return guarded([&](gc_result& r) { put(r, reinterpret_cast<int64_t>(new Graph())); });
}

gc_result graph_begin(uint64_t g, uint64_t shared) {
  return guarded([&](gc_result&) {
    gc_handles(); // of this thread: they cannot be made within a capture
    // Other threads may allocate meanwhile: only this one is held to what a capture allows.
    of<Graph>(g).capture_begin(shared ? of<Graph>(shared).memory() : c10::MempoolId_t{0, 0},
                               cudaStreamCaptureModeThreadLocal);
  });
}

gc_result graph_end(uint64_t g) {
  return guarded([&](gc_result&) { gospml::end_capture(of<Graph>(g)); });
}

gc_result graph_replay(uint64_t g) {
  return guarded([&](gc_result&) { of<Graph>(g).replay(); });
}

gc_result graph_free(uint64_t g) {
  return guarded([&](gc_result&) { delete reinterpret_cast<Graph*>(g); });
}

gc_result memory_stats(int device) {
  return guarded([&](gc_result& r) {
    const auto s = caching::getDeviceStats(index(device));
    for (const auto* a :
         {&s.allocated_bytes, &s.reserved_bytes, &s.active_bytes, &s.requested_bytes, &s.allocation, &s.segment}) {
      const auto& all = (*a)[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
      put(r, all.current);
      put(r, all.peak);
    }
    for (int64_t v : {s.num_alloc_retries, s.num_ooms, s.num_device_alloc, s.num_device_free}) put(r, v);
  });
}

gc_result memory_info(int device) {
  return guarded([&](gc_result& r) {
    c10::cuda::CUDAGuard guard(index(device));
    size_t free = 0, total = 0;
    check(cudaMemGetInfo(&free, &total));
    put(r, static_cast<int64_t>(free));
    put(r, static_cast<int64_t>(total));
  });
}

gc_result empty_cache() {
  return guarded([&](gc_result&) { caching::emptyCache(); });
}

gc_result reset_peak(int device) {
  return guarded([&](gc_result&) { caching::resetPeakStats(index(device)); });
}

// What SetMemoryCap left of each device; 0 = all.
std::array<std::atomic<double>, 64> fractions{};

gc_result set_fraction(int device, double fraction) {
  return guarded([&](gc_result&) {
    TORCH_CHECK(fraction > 0 && fraction <= 1, "a memory fraction of ", fraction, " is not in (0, 1]");
    caching::setMemoryFraction(fraction, index(device));
    if (static_cast<size_t>(device) < fractions.size()) fractions[static_cast<size_t>(device)] = fraction;
  });
}

using gospml::Pressure;

Pressure& pressure() {
  static Pressure* p = new Pressure; // for ever: the allocator may ask while the process ends
  return *p;
}

void release(const std::vector<uint64_t>& handles) {
  for (uint64_t h : handles)
    c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(reinterpret_cast<c10::TensorImpl*>(h))
        .reset();
}

// What can still be had of the current device: from the driver, and under the cap. The allocator holds its lock, which
// this thread may take again.
gospml::Room room() {
  gospml::Room r;
  size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) {
    (void)cudaGetLastError();
    return r; // nothing is known: as if there were none
  }
  const auto device = c10::cuda::current_device();
  r.free = static_cast<int64_t>(free), r.total = static_cast<int64_t>(total);
  const double share =
      static_cast<size_t>(device) < fractions.size() ? fractions[static_cast<size_t>(device)].load() : 0;
  if (share > 0) {
    const auto reserved = caching::getDeviceStats(device)
                              .reserved_bytes[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)]
                              .current;
    r.total = static_cast<int64_t>(share * static_cast<double>(total));
    r.free = std::min(r.free, r.total - reserved);
  }
  return r;
}

} // namespace

namespace gospml {
struct UnusedTensors final : c10::FreeMemoryCallback {
  // libtorch asks before each cudaMalloc, not only when memory is out; a search takes a collection of Go's heap.
  bool Execute() override {
    std::vector<uint64_t> handles;
    if (!pressure().ask(room(), std::chrono::steady_clock::now(), handles)) return false;
    release(handles);
    return !handles.empty();
  }
};
} // namespace gospml

namespace {

int wait_pressure() { return pressure().wait(); }

void answer_pressure(const uint64_t* handles, size_t n) { release(pressure().bring(handles, n)); }

// Did libtorch find its CUDA part when it looked for it first? What it finds then it keeps for ever.
gc_result ready() {
  return guarded([&](gc_result& r) { put(r, at::detail::getCUDAHooks().hasCUDART()); });
}

void free_text(char* p) { std::free(p); }

} // namespace

namespace c10 {
REGISTER_FREE_MEMORY_CALLBACK(gospml_unused, gospml::UnusedTensors)
}

#ifdef GOSPML_NCCL
gc_result gc_attach_nccl(uint64_t group, uint64_t store, int rank, int size, int64_t timeout);
#else
static gc_result gc_attach_nccl(uint64_t, uint64_t, int, int, int64_t) {
  return guarded([](gc_result&) {
    TORCH_CHECK(false, "this build of the CUDA library has no NCCL: its header was absent; run `spml setup --gpu`");
  });
}
#endif

extern "C" const gc_api* gospml_cuda_api(uint32_t abi) {
  if (abi != GOSPML_CUDA_ABI) return nullptr;
  static const gc_api api = {GOSPML_CUDA_ABI,    sizeof(gc_api), TORCH_VERSION,  free_text,     properties,
                             synchronize,        stream,         current_stream, set_stream,    stream_query,
                             stream_synchronize, event,          event_record,   event_wait,    event_query,
                             event_synchronize,  event_elapsed,  event_free,     graph,         graph_begin,
                             graph_end,          graph_replay,   graph_free,     memory_stats,  memory_info,
                             empty_cache,        reset_peak,     set_fraction,   wait_pressure, answer_pressure,
                             gc_attach_nccl,     ready};
  return &api;
}
