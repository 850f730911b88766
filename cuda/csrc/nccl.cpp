// NCCL as a group's backend; empty where its header was absent.
#ifdef GOSPML_NCCL
#define USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <cstdlib>
#include <cstring>

#include "gospml_cuda.h"

gc_result gc_attach_nccl(uint64_t group, uint64_t store, int rank, int size, int64_t timeout) {
  gc_result r{};
  try {
    auto g = c10::intrusive_ptr<c10d::ProcessGroup>::reclaim_copy(reinterpret_cast<c10d::ProcessGroup*>(group));
    auto s = c10::intrusive_ptr<c10d::Store>::reclaim_copy(reinterpret_cast<c10d::Store*>(store));
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = std::chrono::milliseconds(timeout);
    const bool alone = !g->hasBackends(); // else it takes what is on cards, and Gloo stays the one for the rest
    auto keys = c10::make_intrusive<c10d::PrefixStore>("nccl", s);
    auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(keys, rank, size, options);
    backend->setSequenceNumberForGroup();
    g->setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::NCCL, backend);
    if (alone) g->setDefaultBackend(c10d::ProcessGroup::NCCL);
  } catch (const c10::Error& e) { r.msg = strdup(e.what_without_backtrace()); } catch (const std::exception& e) {
    r.msg = strdup(e.what());
  }
  return r;
}
#endif
