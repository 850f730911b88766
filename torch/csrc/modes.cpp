// Autocast, the switches of the process, and a profiler of operators.
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/anomaly_mode.h>

#include <chrono>
#include <map>
#include <mutex>

#include "shim.h"

namespace gs {

gs_result autocast_enter(int device_type, int on, int dtype) {
  return guarded([&](gs_result& r) {
    const auto d = static_cast<at::DeviceType>(device_type);
    const uint64_t before = static_cast<uint64_t>(at::autocast::get_autocast_dtype(d)) << 1 |
                            (at::autocast::is_autocast_enabled(d) ? 1 : 0);
    if (on) {
      const auto t = static_cast<at::ScalarType>(dtype);
      TORCH_CHECK_VALUE(t == at::kBFloat16 || t == at::kHalf, "autocast runs in bfloat16 or float16, not in ", t);
      at::autocast::set_autocast_dtype(d, t);
    }
    at::autocast::set_autocast_enabled(d, on != 0);
    at::autocast::increment_nesting();
    thread().steady++;
    put(r, GS_INT, before);
  });
}

gs_result autocast_leave(int device_type, uint64_t before) {
  return guarded([&](gs_result&) {
    const auto d = static_cast<at::DeviceType>(device_type);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(d, before & 1);
    at::autocast::set_autocast_dtype(d, static_cast<at::ScalarType>(before >> 1));
    thread().steady--;
  });
}

gs_result autocast_state(int device_type) {
  return guarded([&](gs_result& r) {
    const auto d = static_cast<at::DeviceType>(device_type);
    put(r, GS_BOOL, at::autocast::is_autocast_enabled(d));
    put(r, GS_INT, static_cast<uint64_t>(at::autocast::get_autocast_dtype(d)));
  });
}

gs_result set_flag(int which, int value) {
  return guarded([&](gs_result&) {
    auto& c = at::globalContext();
    switch (which) {
      case GS_FLAG_TF32:
        c.setAllowTF32CuBLAS(value != 0);
        c.setAllowTF32CuDNN(value != 0);
        break;
      case GS_FLAG_CUDNN_BENCHMARK: c.setBenchmarkCuDNN(value != 0); break;
      case GS_FLAG_CUDNN_DETERMINISTIC: c.setDeterministicCuDNN(value != 0); break;
      case GS_FLAG_DETERMINISTIC: c.setDeterministicAlgorithms(value != 0, false); break;
      case GS_FLAG_ANOMALY: torch::autograd::AnomalyMode::set_enabled(value != 0, true); break;
      case GS_FLAG_MATMUL_PRECISION:
        c.setFloat32MatmulPrecision(value == 0 ? "highest" : value == 1 ? "high" : "medium");
        break;
      default: throw CallError("no such flag");
    }
  });
}

gs_result get_flag(int which) {
  return guarded([&](gs_result& r) {
    auto& c = at::globalContext();
    uint64_t v = 0;
    switch (which) {
      case GS_FLAG_TF32: v = c.allowTF32CuDNN() && c.allowTF32CuBLAS(); break;
      case GS_FLAG_CUDNN_BENCHMARK: v = c.benchmarkCuDNN(); break;
      case GS_FLAG_CUDNN_DETERMINISTIC: v = c.deterministicCuDNN(); break;
      case GS_FLAG_DETERMINISTIC: v = c.deterministicAlgorithms(); break;
      case GS_FLAG_ANOMALY: v = torch::autograd::AnomalyMode::is_enabled(); break;
      case GS_FLAG_MATMUL_PRECISION: v = static_cast<uint64_t>(c.float32MatmulPrecision()); break;
      default: throw CallError("no such flag");
    }
    put(r, GS_INT, v);
  });
}

namespace {

struct Times {
  uint64_t calls = 0, total = 0, own = 0;
};

std::mutex profile_mutex;
std::map<std::string, Times>* profile = nullptr; // while one runs

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Span : at::ObserverContext {
  int64_t start = now();
  int64_t inner = 0; // spent in calls within
  Span* outer;
  static thread_local Span* current;
  Span() : outer(current) { current = this; }
};
thread_local Span* Span::current = nullptr;

std::unique_ptr<at::ObserverContext> span_begin(const at::RecordFunction&) { return std::make_unique<Span>(); }

void span_end(const at::RecordFunction& f, at::ObserverContext* c) {
  auto* s = static_cast<Span*>(c);
  const int64_t took = now() - s->start;
  Span::current = s->outer;
  if (s->outer) s->outer->inner += took;
  std::lock_guard<std::mutex> lock(profile_mutex);
  if (!profile) return;
  Times& t = (*profile)[f.name()];
  t.calls++;
  t.total += static_cast<uint64_t>(took);
  t.own += static_cast<uint64_t>(took - s->inner);
}

} // namespace

gs_result profile_begin() {
  return guarded([&](gs_result& r) {
    {
      std::lock_guard<std::mutex> lock(profile_mutex);
      if (profile) throw CallError("a profile is being taken already");
      profile = new std::map<std::string, Times>;
    }
    at::RecordFunctionCallback c(span_begin, span_end);
    c.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    put(r, GS_INT, at::addGlobalCallback(c));
  });
}

gs_result profile_end(uint64_t handle) {
  return guarded([&](gs_result& r) {
    at::removeCallback(handle);
    std::map<std::string, Times> taken;
    {
      std::lock_guard<std::mutex> lock(profile_mutex);
      if (profile) taken = std::move(*profile);
      delete profile;
      profile = nullptr;
    }
    std::string s;
    for (const auto& [name, t] : taken)
      s += name + "\t" + std::to_string(t.calls) + "\t" + std::to_string(t.total) + "\t" + std::to_string(t.own) + "\n";
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(s)));
  });
}

} // namespace gs
