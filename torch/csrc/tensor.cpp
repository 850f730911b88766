// Handles, scopes, descriptions, errors.
#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>

#include <atomic>
#include <new>

#include "shim.h"

namespace gs {
namespace {

std::atomic<int64_t> live_handles{0};

// Bytes of the storage that ends with this reference.
uint64_t sole_bytes(Impl* t) {
  if (c10::raw::intrusive_ptr::use_count(t) != 1 || !t->has_storage()) return 0;
  const auto& s = t->unsafe_storage();
  if (!s || s.use_count() != 1) return 0;
  const auto& n = s.unsafeGetStorageImpl()->sym_nbytes();
  const auto i = n.maybe_as_int();
  return i ? static_cast<uint64_t>(*i) : 0;
}

void drop(Impl* t) { c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim(t); }

bool contains(const char* s, const char* what) { return strstr(s, what) != nullptr; }

void fail(gs_result& r, int kind, const char* text) noexcept {
  clear(r);
  r.kind = kind;
  r.msg = message(text);
}

} // namespace

constinit thread_local Thread* this_thread = nullptr;

Thread& make_thread() {
  struct Owner {
    Thread* t = new Thread;
    ~Owner() {
      this_thread = nullptr;
      delete t;
    }
  };
  static thread_local Owner owner;
  this_thread = owner.t;
  return *owner.t;
}

namespace {

// A reference that the caller is given, recorded in the innermost scope.
uint64_t give(at::Tensor&& t, gs_result& r) {
  if (!t.defined()) return 0;
  Thread& th = thread();
  if (th.depth) {
    Scope& s = th.scopes[th.depth - 1];
    if (!r.scope) {
      r.scope = s.id;
      r.slot = static_cast<uint32_t>(s.held.size());
    }
    s.held.push_back(t.unsafeGetTensorImpl());
  } else {
    r.bytes += sole_bytes(t.unsafeGetTensorImpl());
  }
  live_handles.fetch_add(1, std::memory_order_relaxed);
  return reinterpret_cast<uint64_t>(t.unsafeReleaseTensorImpl());
}

} // namespace

void put_tensor(gs_result& r, at::Tensor&& t) {
  put(r, GS_TENSOR, 0);
  r.w[r.n - 1] = give(std::move(t), r);
}

void put_tensors(gs_result& r, std::vector<at::Tensor>&& ts) {
  auto* b = static_cast<uint64_t*>(malloc((ts.size() + 1) * sizeof(uint64_t)));
  if (!b) throw std::bad_alloc();
  b[0] = 0;
  try {
    put(r, GS_TENSORS, reinterpret_cast<uint64_t>(b));
  } catch (...) {
    free(b);
    throw;
  }
  for (auto& t : ts) {
    b[b[0] + 1] = give(std::move(t), r);
    b[0]++;
  }
}

void undo(gs_result& r) noexcept {
  for (int i = 0; i < r.n; i++) {
    if (r.tag[i] == GS_TENSOR && !r.scope) release(&r.w[i], 1);
    if (r.tag[i] == GS_TENSORS) {
      auto* b = reinterpret_cast<uint64_t*>(r.w[i]);
      if (!r.scope) release(b + 1, b[0]);
      free(b);
    }
    if (r.tag[i] == GS_STR) free(reinterpret_cast<void*>(r.w[i]));
  }
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

void fail_current(gs_result& r) noexcept {
  try {
    throw;
  } catch (const CallError& e) { fail(r, GS_ERR_CALL, e.what()); } catch (const HandleError& e) {
    fail(r, GS_ERR_HANDLE, e.what());
  } catch (const GoError& e) { fail(r, e.kind, e.what()); } catch (const c10::OutOfMemoryError& e) {
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
    fail(r,
         contains(m, "can't allocate memory") || contains(m, "not enough memory") ? GS_ERR_OUT_OF_MEMORY
                                                                                  : GS_ERR_RUNTIME,
         m);
  } catch (const std::bad_alloc&) {
    fail(r, GS_ERR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::out_of_range& e) { fail(r, GS_ERR_INDEX, e.what()); } catch (const std::exception& e) {
    fail(r, GS_ERR_RUNTIME, e.what());
  } catch (...) { fail(r, GS_ERR_INTERNAL, "an exception of unknown type"); }
}

void free_block(void* p) { free(p); }

uint64_t release(const uint64_t* h, size_t n) {
  uint64_t b = 0;
  int64_t gone = 0;
  for (size_t i = 0; i < n; i++) {
    if (!h[i]) continue;
    Impl* t = reinterpret_cast<Impl*>(h[i]);
    b += sole_bytes(t);
    drop(t);
    gone++;
  }
  live_handles.fetch_sub(gone, std::memory_order_relaxed);
  return b;
}

gs_result retain(uint64_t h) {
  return guarded([&](gs_result& r) { put_tensor(r, tensor_of(h)); });
}

int64_t live() { return live_handles.load(std::memory_order_relaxed); }

gs_result describe(uint64_t h, gs_desc* d) {
  return guarded([&](gs_result&) {
    const at::Tensor t = tensor_of(h);
    if (!t.defined()) throw CallError("describe: undefined tensor");
    const auto sizes = t.sizes();
    if (sizes.size() > GS_MAX_DIMS)
      throw CallError("a tensor of " + std::to_string(sizes.size()) + " dimensions; at most 16 are supported");
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

namespace {

// The open scope with this id on this thread and whether the handle is at that place, else nullptr.
Scope* holder(Thread& t, uint32_t id, uint32_t slot, uint64_t h, size_t* at) {
  for (size_t k = t.depth; k-- > 0;) {
    Scope& s = t.scopes[k];
    if (s.id != id) continue;
    *at = k;
    return slot < s.held.size() && reinterpret_cast<uint64_t>(s.held[slot]) == h ? &s : nullptr;
  }
  return nullptr;
}

void vacate(Scope& s, uint32_t slot) {
  s.held[slot] = nullptr;
  while (!s.held.empty() && !s.held.back()) s.held.pop_back();
}

constexpr size_t lent = 1 << 14; // places that an ended scope lends to the next

} // namespace

void scope_begin(uint32_t id) {
  Thread& t = thread();
  if (t.depth == t.scopes.size()) t.scopes.emplace_back();
  t.scopes[t.depth++].id = id;
}

void scope_end() {
  Thread& t = thread();
  if (!t.depth) return;
  std::vector<Impl*> held = std::move(t.scopes[--t.depth].held);
  int64_t gone = 0;
  for (auto it = held.rbegin(); it != held.rend(); ++it) {
    if (!*it) continue;
    drop(*it);
    gone++;
  }
  live_handles.fetch_sub(gone, std::memory_order_relaxed);
  if (held.capacity() > lent) return;
  held.clear();
  t.scopes[t.depth].held = std::move(held);
}

gs_result scope_keep(uint32_t id, uint32_t slot, uint64_t h) {
  return guarded([&](gs_result& r) {
    Thread& t = thread();
    size_t k;
    Scope* s = holder(t, id, slot, h, &k);
    if (!s) return;
    Impl* impl = reinterpret_cast<Impl*>(h);
    if (k > 0) {
      Scope& outer = t.scopes[k - 1];
      outer.held.push_back(impl);
      r.scope = outer.id;
      r.slot = static_cast<uint32_t>(outer.held.size() - 1);
    } else {
      r.bytes = sole_bytes(impl);
    }
    vacate(*s, slot);
    put(r, GS_INT, 1);
  });
}

int32_t scope_drop(uint32_t id, uint32_t slot, uint64_t h) {
  size_t k;
  Scope* s = holder(thread(), id, slot, h, &k);
  if (!s) return 0;
  vacate(*s, slot);
  drop(reinterpret_cast<Impl*>(h));
  live_handles.fetch_sub(1, std::memory_order_relaxed);
  return 1;
}

} // namespace gs
