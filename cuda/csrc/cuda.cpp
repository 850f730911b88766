// Streams, events, graphs, the allocator: what of libtorch's CUDA part is no operator.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/version.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gospml_cuda.h"

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
  } catch (const c10::Error& e) {
    r.msg = text(e.what_without_backtrace());
  } catch (const std::exception& e) {
    r.msg = text(e.what());
  } catch (...) {
    r.msg = text("an exception of unknown type");
  }
  return r;
}

void put(gc_result& r, int64_t w) { r.w[r.n++] = w; }

void check(cudaError_t e) { C10_CUDA_CHECK(e); }

c10::DeviceIndex index(int device) {
  TORCH_CHECK(device >= 0 && device < c10::cuda::device_count(), "there is no CUDA device ", device, " among ", static_cast<int>(c10::cuda::device_count()));
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
    for (int64_t v : {int64_t(p.major), int64_t(p.minor), int64_t(p.totalGlobalMem), int64_t(p.multiProcessorCount), int64_t(p.maxThreadsPerMultiProcessor),
                      int64_t(p.warpSize), int64_t(p.l2CacheSize), int64_t(p.sharedMemPerMultiprocessor), int64_t(p.sharedMemPerBlockOptin),
                      int64_t(p.regsPerMultiprocessor), int64_t(clock), int64_t(memory_clock), int64_t(p.memoryBusWidth), int64_t(p.integrated),
                      int64_t(p.pciBusID)})
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
  return guarded([&](gc_result& r) { put(r, reinterpret_cast<int64_t>(new Event(timing ? cudaEventDefault : cudaEventDisableTiming))); });
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

using Graph = at::cuda::CUDAGraph;

gc_result graph() {
  return guarded([&](gc_result& r) { put(r, reinterpret_cast<int64_t>(new Graph())); });
}

gc_result graph_begin(uint64_t g, uint64_t shared) {
  return guarded([&](gc_result&) {
    // Other threads may allocate meanwhile: only this one is held to what a capture allows.
    of<Graph>(g).capture_begin(shared ? of<Graph>(shared).pool() : c10::MempoolId_t{0, 0}, cudaStreamCaptureModeThreadLocal);
  });
}

gc_result graph_end(uint64_t g) {
  return guarded([&](gc_result&) { of<Graph>(g).capture_end(); });
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
    for (const auto* a : {&s.allocated_bytes, &s.reserved_bytes, &s.active_bytes, &s.requested_bytes, &s.allocation, &s.segment}) {
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

gc_result set_fraction(int device, double fraction) {
  return guarded([&](gc_result&) {
    TORCH_CHECK(fraction > 0 && fraction <= 1, "a memory fraction of ", fraction, " is not in (0, 1]");
    caching::setMemoryFraction(fraction, index(device));
  });
}

// The meeting of the allocator, which has no room, and a thread of Go that looks for unused tensors.
struct Pressure {
  std::mutex m;
  std::condition_variable asked, answered;
  uint64_t question = 0, seen = 0, answer = 0;
  bool listening = false;
  int waiting = 0;
  std::vector<uint64_t> handles;
};

Pressure& pressure() {
  static Pressure* p = new Pressure; // for ever: the allocator may ask while the process ends
  return *p;
}

void release(const std::vector<uint64_t>& handles) {
  for (uint64_t h : handles)
    c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim(reinterpret_cast<c10::TensorImpl*>(h)).reset();
}

} // namespace

namespace gospml {
struct UnusedTensors final : c10::FreeMemoryCallback {
  bool Execute() override {
    std::vector<uint64_t> handles;
    {
      Pressure& p = pressure();
      std::unique_lock<std::mutex> lock(p.m);
      if (!p.listening) return false;
      const uint64_t mine = ++p.question;
      p.asked.notify_all();
      p.waiting++;
      const bool came = p.answered.wait_for(lock, std::chrono::seconds(1), [&] { return p.answer >= mine; });
      p.waiting--;
      if (!came) return false;
      handles.swap(p.handles);
    }
    release(handles);
    return !handles.empty();
  }
};
} // namespace gospml

namespace {

int wait_pressure() {
  Pressure& p = pressure();
  std::unique_lock<std::mutex> lock(p.m);
  p.listening = true;
  p.asked.wait(lock, [&] { return p.question > p.seen; });
  p.seen = p.question;
  return 1;
}

void answer_pressure(const uint64_t* handles, size_t n) {
  Pressure& p = pressure();
  std::vector<uint64_t> late;
  {
    std::lock_guard<std::mutex> lock(p.m);
    p.handles.insert(p.handles.end(), handles, handles + n);
    p.answer = p.seen;
    if (!p.waiting) late.swap(p.handles); // the allocator has given up
    p.answered.notify_all();
  }
  release(late);
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
  return guarded([](gc_result&) { TORCH_CHECK(false, "this build of the CUDA library has no NCCL: its header was absent; run `spml setup --gpu`"); });
}
#endif

extern "C" const gc_api* gospml_cuda_api(uint32_t abi) {
  if (abi != GOSPML_CUDA_ABI) return nullptr;
  static const gc_api api = {
      GOSPML_CUDA_ABI, sizeof(gc_api), TORCH_VERSION, free_text,
      properties, synchronize,
      stream, current_stream, set_stream, stream_query, stream_synchronize,
      event, event_record, event_wait, event_query, event_synchronize, event_elapsed, event_free,
      graph, graph_begin, graph_end, graph_replay, graph_free,
      memory_stats, memory_info, empty_cache, reset_peak, set_fraction,
      wait_pressure, answer_pressure, gc_attach_nccl};
  return &api;
}
