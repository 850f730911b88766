// Several processes: stores, groups, collectives and the reducer of gradients, all of libtorch's c10d.
#define USE_C10D_GLOO
#include <torch/version.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <c10/core/GradMode.h>

#include <algorithm>
#include <chrono>

#include "gospml_dist.h"
#include "shim.h"

namespace gs {
namespace {

using ms = std::chrono::milliseconds;
using StorePtr = c10::intrusive_ptr<c10d::Store>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

template <class T>
c10::intrusive_ptr<T> of(uint64_t h) {
  if (!h) throw HandleError("the store, group or work was closed");
  return c10::intrusive_ptr<T>::reclaim_copy(reinterpret_cast<T*>(h));
}

template <class T>
uint64_t give(c10::intrusive_ptr<T> p) {
  return reinterpret_cast<uint64_t>(p.release());
}

template <class T>
gs_result drop(uint64_t h) {
  return guarded([&](gs_result&) {
    if (h) c10::intrusive_ptr<T>::reclaim(reinterpret_cast<T*>(h)).reset();
  });
}

gs_result tcp_store(const char* host, int port, int server, int workers, int64_t timeout) {
  return guarded([&](gs_result& r) {
    c10d::TCPStoreOptions o;
    TORCH_CHECK(port >= 0 && port < 65536, "port ", port, " is not in 0 to 65535");
    o.port = static_cast<uint16_t>(port);
    o.isServer = server != 0;
    if (workers > 0) o.numWorkers = workers;
    o.waitWorkers = workers > 0;
    o.timeout = ms(timeout);
    auto s = c10::make_intrusive<c10d::TCPStore>(host, o);
    const int got = s->getPort();
    put(r, GS_INT, give<c10d::Store>(std::move(s)));
    put(r, GS_INT, got);
  });
}

gs_result prefix_store(uint64_t store, const char* prefix) {
  return guarded([&](gs_result& r) {
    put(r, GS_INT, give<c10d::Store>(c10::make_intrusive<c10d::PrefixStore>(prefix, of<c10d::Store>(store))));
  });
}

gs_result store_set(uint64_t store, const char* key, const uint8_t* value, size_t n) {
  return guarded([&](gs_result&) { of<c10d::Store>(store)->set(key, std::vector<uint8_t>(value, value + n)); });
}

gs_result store_get(uint64_t store, const char* key, int64_t timeout) {
  return guarded([&](gs_result& r) {
    auto s = of<c10d::Store>(store);
    s->wait({key}, ms(timeout));
    const auto v = s->get(key);
    put(r, GS_STR, reinterpret_cast<uint64_t>(text_block(std::string(v.begin(), v.end()))));
  });
}

gs_result store_add(uint64_t store, const char* key, int64_t n) {
  return guarded([&](gs_result& r) { put(r, GS_INT, of<c10d::Store>(store)->add(key, n)); });
}

gs_result store_delete(uint64_t store, const char* key) {
  return guarded([&](gs_result& r) { put(r, GS_INT, of<c10d::Store>(store)->deleteKey(key)); });
}

gs_result store_free(uint64_t store) { return drop<c10d::Store>(store); }

gs_result gloo_group(uint64_t store, int rank, int size, const char* where, int is_host, int64_t timeout) {
  return guarded([&](gs_result& r) {
    auto s = of<c10d::Store>(store);
    auto options = c10d::ProcessGroupGloo::Options::create(ms(timeout));
    options->devices.push_back(!*where   ? c10d::ProcessGroupGloo::createDefaultDevice()
                               : is_host ? c10d::ProcessGroupGloo::createDeviceForHostname(where)
                                         : c10d::ProcessGroupGloo::createDeviceForInterface(where));
    auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(s, rank, size, options);
    backend->setSequenceNumberForGroup();
    auto group = c10::make_intrusive<c10d::ProcessGroup>(s, rank, size);
    group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::GLOO, backend);
    group->setDefaultBackend(c10d::ProcessGroup::GLOO);
    put(r, GS_INT, give<c10d::ProcessGroup>(std::move(group)));
  });
}

gs_result empty_group(uint64_t store, int rank, int size) {
  return guarded([&](gs_result& r) {
    put(r, GS_INT,
        give<c10d::ProcessGroup>(c10::make_intrusive<c10d::ProcessGroup>(of<c10d::Store>(store), rank, size)));
  });
}

gs_result group_timeout(uint64_t group, int64_t timeout) {
  return guarded([&](gs_result&) {
    auto g = of<c10d::ProcessGroup>(group);
    g->getDefaultBackend()->setTimeout(ms(timeout));
  });
}

// NCCL's threads and communicators end with shutdown alone; Gloo's does nothing.
gs_result group_free(uint64_t group) {
  gs_result ended = guarded([&](gs_result&) { of<c10d::ProcessGroup>(group)->shutdown(); });
  gs_result freed = drop<c10d::ProcessGroup>(group);
  return ended.msg ? ended : freed;
}

gs_result start(uint64_t group, int kind, const uint64_t* tensors, size_t n, const uint64_t* others, size_t nothers,
                int op, int root, int64_t timeout) {
  return guarded([&](gs_result& r) {
    auto g = of<c10d::ProcessGroup>(group);
    c10::AutoGradMode no_grad(false);
    auto a = list(tensors, n), b = list(others, nothers);
    const ms limit = timeout > 0 ? ms(timeout) : c10d::kUnsetTimeout;
    const c10d::ReduceOp reduce(static_cast<c10d::ReduceOp::RedOpType>(op));
    WorkPtr w;
    switch (kind) {
      case GS_DIST_ALLREDUCE: {
        c10d::AllreduceOptions o;
        o.reduceOp = reduce;
        o.timeout = limit;
        w = g->allreduce(a, o);
        break;
      }
      case GS_DIST_BROADCAST: {
        c10d::BroadcastOptions o;
        o.rootRank = root;
        o.timeout = limit;
        w = g->broadcast(a, o);
        break;
      }
      case GS_DIST_ALLGATHER: {
        c10d::AllgatherOptions o;
        o.timeout = limit;
        std::vector<std::vector<at::Tensor>> out{a};
        w = g->allgather(out, b, o);
        break;
      }
      case GS_DIST_REDUCE_SCATTER: {
        c10d::ReduceScatterOptions o;
        o.reduceOp = reduce;
        o.timeout = limit;
        std::vector<std::vector<at::Tensor>> in{b};
        w = g->reduce_scatter(a, in, o);
        break;
      }
      case GS_DIST_BARRIER: {
        c10d::BarrierOptions o;
        o.timeout = limit;
        w = g->barrier(o);
        break;
      }
      default: throw CallError("no such collective");
    }
    put(r, GS_INT, give<c10d::Work>(std::move(w)));
  });
}

gs_result wait(uint64_t work, int64_t timeout) {
  return guarded([&](gs_result&) { of<c10d::Work>(work)->wait(timeout > 0 ? ms(timeout) : kNoTimeout); });
}

gs_result done(uint64_t work) {
  return guarded([&](gs_result& r) { put(r, GS_INT, of<c10d::Work>(work)->isCompleted()); });
}

gs_result work_free(uint64_t work) { return drop<c10d::Work>(work); }

constexpr size_t kBroadcastBuffer = size_t(250) << 20; // as PyTorch's DistributedDataParallel

gs_result sync(uint64_t group, const uint64_t* tensors, size_t n, int root) {
  return guarded([&](gs_result&) {
    c10::AutoGradMode no_grad(false);
    auto all = list(tensors, n);
    for (auto& t : all) t = t.detach();
    // Coalescing wants tensors of one type and device.
    while (!all.empty()) {
      const auto options = all.front().options();
      std::vector<at::Tensor> same, rest;
      for (auto& t : all) (t.options().type_equal(options) ? same : rest).push_back(t);
      c10d::broadcast_coalesced(of<c10d::ProcessGroup>(group), same, kBroadcastBuffer, root);
      all = std::move(rest);
    }
  });
}

gs_result verify(uint64_t group, const uint64_t* params, size_t n) {
  return guarded([&](gs_result&) {
    c10d::verify_params_across_processes(of<c10d::ProcessGroup>(group), list(params, n), std::nullopt);
  });
}

gs_result reducer(uint64_t group, const uint64_t* params, size_t n, int64_t first_bucket, int64_t bucket,
                  int find_unused) {
  return guarded([&](gs_result& r) {
    auto p = list(params, n);
    const std::vector<bool> dense(n, false);
    const std::vector<size_t> limits{static_cast<size_t>(first_bucket), static_cast<size_t>(bucket)};
    auto assigned = c10d::compute_bucket_assignment_by_size(p, limits, dense);
    auto buckets = std::get<0>(assigned);
    std::reverse(buckets.begin(), buckets.end()); // gradients become ready from the last layer to the first
    const size_t count = buckets.size();
    auto* red = new c10d::Reducer(p, buckets, of<c10d::ProcessGroup>(group), dense, bucket, find_unused != 0, false, {},
                                  first_bucket, false, false
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR > 10
                                  ,
                                  {} // caps of single buckets
#endif
    );
    put(r, GS_INT, reinterpret_cast<uint64_t>(red));
    put(r, GS_INT, count);
  });
}

gs_result prepare(uint64_t h, const uint64_t* outputs, size_t n) {
  return guarded([&](gs_result& r) {
    auto* red = reinterpret_cast<c10d::Reducer*>(h);
    if (!red) throw HandleError("the reducer was closed");
    red->prepare_for_forward();
    put(r, GS_INT, red->rebuild_buckets());
    red->prepare_for_backward(list(outputs, n));
  });
}

gs_result reducer_free(uint64_t h) {
  return guarded([&](gs_result&) { delete reinterpret_cast<c10d::Reducer*>(h); });
}

} // namespace
} // namespace gs

extern "C" const gs_dist* gospml_dist_api(uint32_t abi) {
  if (abi != GOSPML_DIST_ABI) return nullptr;
  static const gs_dist api = {GOSPML_DIST_ABI, sizeof(gs_dist),   gs::tcp_store,    gs::prefix_store, gs::store_set,
                              gs::store_get,   gs::store_add,     gs::store_delete, gs::store_free,   gs::gloo_group,
                              gs::empty_group, gs::group_timeout, gs::group_free,   gs::start,        gs::wait,
                              gs::done,        gs::work_free,     gs::sync,         gs::verify,       gs::reducer,
                              gs::prepare,     gs::reducer_free};
  return &api;
}
