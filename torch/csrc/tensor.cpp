// Handles, scopes, descriptions, errors.
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <new>

#include "shim.h"

namespace gs {
namespace {

std::atomic<int64_t> live_handles{0};

struct Scope {
  uint32_t id;
  std::vector<Impl*> held;
};
thread_local std::vector<Scope> scopes;

// Bytes of the storage that ends with this reference.
uint64_t sole_bytes(Impl* t) {
  if (!t->has_storage()) return 0;
  const auto& s = t->unsafe_storage();
  if (!s || s.use_count() != 1) return 0;
  const auto& n = s.unsafeGetStorageImpl()->sym_nbytes();
  const auto i = n.maybe_as_int();
  return i ? static_cast<uint64_t>(*i) : 0;
}

uint64_t drop(Impl* t) {
  const uint64_t b = c10::raw::intrusive_ptr::use_count(t) == 1 ? sole_bytes(t) : 0;
  live_handles.fetch_sub(1, std::memory_order_relaxed);
  c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim(t);
  return b;
}

bool contains(const char* s, const char* what) { return strstr(s, what) != nullptr; }

} // namespace

uint64_t give(at::Tensor&& t, gs_result& r) {
  if (!t.defined()) return 0;
  Impl* impl = t.unsafeReleaseTensorImpl();
  live_handles.fetch_add(1, std::memory_order_relaxed);
  if (scopes.empty()) {
    if (c10::raw::intrusive_ptr::use_count(impl) == 1) r.bytes += sole_bytes(impl);
  } else {
    try {
      scopes.back().held.push_back(impl);
    } catch (...) {
      drop(impl);
      throw;
    }
    r.scope = scopes.back().id;
  }
  return reinterpret_cast<uint64_t>(impl);
}

void put_tensors(gs_result& r, std::vector<at::Tensor>&& ts) {
  auto* b = static_cast<uint64_t*>(malloc((ts.size() + 1) * sizeof(uint64_t)));
  if (!b) throw std::bad_alloc();
  b[0] = ts.size();
  for (size_t i = 0; i < ts.size(); i++) b[i + 1] = give(std::move(ts[i]), r);
  put(r, GS_TENSORS, reinterpret_cast<uint64_t>(b));
}

void* text_block(const std::string& s) {
  auto* b = static_cast<uint64_t*>(malloc(sizeof(uint64_t) + s.size() + 1));
  if (!b) throw std::bad_alloc();
  b[0] = s.size();
  memcpy(b + 1, s.c_str(), s.size() + 1);
  return b;
}

char* message(const char* s) {
  const size_t n = strlen(s);
  char* m = static_cast<char*>(malloc(n + 1));
  if (m) memcpy(m, s, n + 1);
  return m;
}

void fail(gs_result& r, int kind, const char* text) noexcept {
  memset(&r, 0, sizeof r);
  r.kind = kind;
  r.msg = message(text);
}

void fail_current(gs_result& r) noexcept {
  try {
    throw;
  } catch (const CallError& e) {
    fail(r, GS_ERR_CALL, e.what());
  } catch (const c10::OutOfMemoryError& e) {
    fail(r, GS_ERR_OUT_OF_MEMORY, e.what_without_backtrace());
  } catch (const c10::IndexError& e) {
    fail(r, GS_ERR_INDEX, e.what_without_backtrace());
  } catch (const c10::ValueError& e) {
    fail(r, GS_ERR_VALUE, e.what_without_backtrace());
  } catch (const c10::TypeError& e) {
    fail(r, GS_ERR_TYPE, e.what_without_backtrace());
  } catch (const c10::NotImplementedError& e) {
    fail(r, GS_ERR_NOT_IMPLEMENTED, e.what_without_backtrace());
  } catch (const c10::LinAlgError& e) {
    fail(r, GS_ERR_LINALG, e.what_without_backtrace());
  } catch (const c10::Error& e) {
    // The CPU allocator reports exhaustion as a plain error.
    const char* m = e.what_without_backtrace();
    fail(r, contains(m, "can't allocate memory") || contains(m, "not enough memory") ? GS_ERR_OUT_OF_MEMORY : GS_ERR_RUNTIME, m);
  } catch (const std::bad_alloc&) {
    fail(r, GS_ERR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::out_of_range& e) {
    fail(r, GS_ERR_INDEX, e.what());
  } catch (const std::exception& e) {
    fail(r, GS_ERR_RUNTIME, e.what());
  } catch (...) {
    fail(r, GS_ERR_INTERNAL, "an exception of unknown type");
  }
}

void free_block(void* p) { free(p); }

uint64_t release(const uint64_t* h, size_t n) {
  uint64_t b = 0;
  for (size_t i = 0; i < n; i++)
    if (h[i]) b += drop(reinterpret_cast<Impl*>(h[i]));
  return b;
}

gs_result retain(uint64_t h) {
  return guarded([&](gs_result& r) { put(r, GS_TENSOR, give(tensor_of(h), r)); });
}

int64_t live() { return live_handles.load(std::memory_order_relaxed); }

gs_result describe(uint64_t h, gs_desc* d) {
  return guarded([&](gs_result&) {
    const at::Tensor t = tensor_of(h);
    if (!t.defined()) throw CallError("describe: undefined tensor");
    const auto sizes = t.sizes();
    if (sizes.size() > GS_MAX_DIMS) throw CallError("a tensor of " + std::to_string(sizes.size()) + " dimensions; at most 16 are supported");
    memset(d, 0, sizeof *d);
    d->dtype = static_cast<int32_t>(t.scalar_type());
    const auto dev = t.device();
    d->device = static_cast<int32_t>(dev.type()) << 8 | (dev.has_index() ? dev.index() & 0xff : 0xff);
    d->ndim = static_cast<int32_t>(sizes.size());
    d->numel = t.numel();
    d->itemsize = static_cast<int64_t>(t.dtype().itemsize());
    for (size_t i = 0; i < sizes.size(); i++) d->sizes[i] = sizes[i];
    if (t.layout() == at::kStrided) {
      const auto strides = t.strides();
      for (size_t i = 0; i < sizes.size(); i++) d->strides[i] = strides[i];
      if (t.is_contiguous()) d->flags |= GS_F_CONTIGUOUS;
      if (sizes.size() == 4 && t.is_contiguous(at::MemoryFormat::ChannelsLast)) d->flags |= GS_F_CHANNELS_LAST;
    }
    if (t.has_storage()) {
      d->data = t.numel() ? reinterpret_cast<uint64_t>(t.const_data_ptr()) : 0;
      d->storage_bytes = static_cast<int64_t>(t.storage().nbytes());
    }
    if (t.requires_grad()) d->flags |= GS_F_REQUIRES_GRAD;
    if (t.is_inference()) {
      d->flags |= GS_F_INFERENCE;
      d->version = -1;
    } else {
      d->version = t._version();
    }
    if (t.is_leaf()) d->flags |= GS_F_LEAF;
    if (t.is_view()) d->flags |= GS_F_VIEW;
  });
}

void scope_begin(uint32_t id) { scopes.push_back(Scope{id, {}}); }

uint64_t scope_end() {
  if (scopes.empty()) return 0;
  std::vector<Impl*> held = std::move(scopes.back().held);
  scopes.pop_back();
  uint64_t b = 0;
  for (auto it = held.rbegin(); it != held.rend(); ++it) b += drop(*it);
  return b;
}

int64_t scope_keep(uint64_t h) {
  if (scopes.empty()) return -1;
  auto& held = scopes.back().held;
  for (size_t i = held.size(); i-- > 0;) {
    if (reinterpret_cast<uint64_t>(held[i]) != h) continue;
    held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    if (scopes.size() == 1) return 0;
    auto& outer = scopes[scopes.size() - 2];
    outer.held.push_back(reinterpret_cast<Impl*>(h));
    return outer.id;
  }
  return -1;
}

int32_t scope_drop(uint64_t h) {
  for (size_t k = scopes.size(); k-- > 0;) {
    auto& held = scopes[k].held;
    for (size_t i = held.size(); i-- > 0;) {
      if (reinterpret_cast<uint64_t>(held[i]) != h) continue;
      held.erase(held.begin() + static_cast<ptrdiff_t>(i));
      drop(reinterpret_cast<Impl*>(h));
      return 1;
    }
  }
  return 0;
}

} // namespace gs
