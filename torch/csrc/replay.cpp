// What becomes of a recorded step: where each result lies, which calls are left, and the loop that runs them.
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "record.h"

namespace gs {

uint64_t step_modes() {
  const auto d = at::kCPU;
  uint64_t m = c10::GradMode::is_enabled() | c10::InferenceMode::is_enabled() << 1;
  if (at::autocast::is_autocast_enabled(d)) m |= 4 | static_cast<uint64_t>(at::autocast::get_autocast_dtype(d)) << 8;
  return m;
}

at::DataPtr borrow(const at::Tensor& t) {
  auto* s = t.storage().unsafeGetStorageImpl();
  c10::raw::intrusive_ptr::incref(s);
  return {const_cast<void*>(t.const_data_ptr()), s,
          [](void* s) { c10::raw::intrusive_ptr::decref(static_cast<c10::StorageImpl*>(s)); }, t.device()};
}

at::Tensor show(const c10::Storage& s, const Window& w) {
  c10::Storage own = s;
  at::Tensor t = at::detail::make_tensor<Impl>(std::move(own), c10::DispatchKeySet(c10::DispatchKey::CPU),
                                               c10::scalarTypeToTypeMeta(w.type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(w.sizes, w.strides, w.offset);
  if (w.number) t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

namespace {

// The form of an operator that writes into given results, if it has a kernel of its own.
std::optional<c10::OperatorHandle> find_out_form(const c10::OperatorHandle& op) {
  const auto& schema = op.schema();
  const auto& args = schema.arguments();
  const auto& outs = schema.returns();
  for (const auto& o : outs)
    if (o.type()->kind() != c10::TypeKind::TensorType || o.alias_info()) return std::nullopt;
  for (const auto& a : args)
    if (a.alias_info()) return std::nullopt;
  auto& d = c10::Dispatcher::singleton();
  for (const auto& name : d.getAllOpNames()) {
    if (name.name != schema.name()) continue;
    const auto h = d.findSchema(name);
    if (!h || h->hasTag(at::Tag::generated) || !h->hasKernelForDispatchKey(c10::DispatchKey::CPU)) continue;
    const auto& other = h->schema().arguments();
    if (other.size() != args.size() + outs.size() || h->schema().returns().size() != outs.size()) continue;
    bool same = true;
    for (size_t i = 0; same && i < other.size(); i++) {
      const auto* a = other[i].alias_info();
      if (i < args.size())
        same = !a && other[i].name() == args[i].name() && *other[i].type() == *args[i].type();
      else
        same = a && a->isWrite() && other[i].type()->kind() == c10::TypeKind::TensorType;
    }
    if (same) return h;
  }
  return std::nullopt;
}

std::optional<c10::OperatorHandle> out_form(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static std::unordered_map<c10::OperatorName, std::optional<c10::OperatorHandle>>
      known; // looking through all operators takes a millisecond
  std::lock_guard<std::mutex> lock(mutex);
  const auto it = known.find(op.operator_name());
  if (it != known.end()) return it->second;
  return known.emplace(op.operator_name(), find_out_form(op)).first->second;
}

// Results that depend on no element of any tensor.
bool constant(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> names = {
      "aten::ones_like", "aten::zeros_like",    "aten::full_like", "aten::zeros",    "aten::ones",
      "aten::full",      "aten::scalar_tensor", "aten::new_zeros", "aten::new_ones", "aten::new_full",
      "aten::arange",    "aten::eye",           "aten::linspace"};
  return names.count(op.operator_name().name) != 0;
}

// Whether a window is all of its place, without gaps: what an operator gives where nobody asks for anything else.
bool whole(const Window& w, const Place& p) {
  int64_t n = 1;
  std::vector<std::pair<int64_t, int64_t>> dims;
  for (size_t i = 0; i < w.sizes.size(); i++) {
    if (w.sizes[i] != 1) dims.emplace_back(w.strides[i], w.sizes[i]);
    n *= w.sizes[i];
  }
  std::sort(dims.begin(), dims.end());
  int64_t next = 1;
  for (const auto& [stride, size] : dims) {
    if (stride != next) return false;
    next *= size;
  }
  return w.offset == 0 && n > 0 && static_cast<size_t>(n) * c10::elementSize(w.type) == p.bytes;
}

// Gives planned places addresses in one block: places whose times overlap do not overlap in memory.
void arrange(Recording& r, const std::vector<int>& planned) {
  struct Block {
    size_t from, to;
    int first, last;
  };
  constexpr size_t align = 64;
  std::vector<int> order = planned;
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return r.places[static_cast<size_t>(a)].bytes > r.places[static_cast<size_t>(b)].bytes;
  });
  std::vector<Block> set;
  std::vector<std::pair<int, size_t>> at;
  size_t total = 0;
  for (int i : order) {
    const Place& p = r.places[static_cast<size_t>(i)];
    const size_t size = (p.bytes + align - 1) / align * align;
    std::vector<Block> busy;
    for (const Block& b : set)
      if (b.first <= p.last && p.first <= b.last) busy.push_back(b);
    std::sort(busy.begin(), busy.end(), [](const Block& a, const Block& b) { return a.from < b.from; });
    size_t offset = 0;
    for (const Block& b : busy) {
      if (offset + size <= b.from) break;
      offset = std::max(offset, b.to);
    }
    set.push_back({offset, offset + size, p.first, p.last});
    at.emplace_back(i, offset);
    total = std::max(total, offset + size);
  }
  r.planned = total;
  if (planned.empty()) return;
  const at::Tensor arena = at::detail::empty_cpu({static_cast<int64_t>(std::max(total, align))}, at::kByte);
  for (const auto& [i, offset] : at) {
    Place& p = r.places[static_cast<size_t>(i)];
    at::DataPtr d = borrow(arena);
    void* context = d.release_context();
    p.now = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), p.bytes,
        at::DataPtr(static_cast<char*>(arena.mutable_data_ptr()) + offset, context, d.get_deleter(), at::kCPU), nullptr,
        false));
  }
}

// Below autograd, without autocast: their work was recorded.
struct Below {
  c10::impl::ExcludeDispatchKeyGuard keys{c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                          c10::autocast_dispatch_keyset};
  c10::AutoGradMode grad{false};
};

void bind(Recording& r, Call& c) {
  std::vector<std::vector<int>> lists(c.arguments.size());
  for (const Use& u : c.uses) {
    if (u.element >= 0)
      lists[static_cast<size_t>(u.argument)].push_back(u.window);
    else
      c.arguments[static_cast<size_t>(u.argument)] =
          u.window < 0 ? c10::IValue(at::Tensor()) : c10::IValue(r.bound[static_cast<size_t>(u.window)]);
  }
  for (size_t i = 0; i < lists.size(); i++) {
    if (lists[i].empty()) continue;
    if (c.arguments[i].isTensorList()) {
      c10::List<at::Tensor> v;
      for (int w : lists[i]) v.push_back(w < 0 ? at::Tensor() : r.bound[static_cast<size_t>(w)]);
      c.arguments[i] = c10::IValue(std::move(v));
    } else {
      c10::List<std::optional<at::Tensor>> v;
      for (int w : lists[i])
        v.push_back(w < 0 ? std::optional<at::Tensor>() : std::optional<at::Tensor>(r.bound[static_cast<size_t>(w)]));
      c.arguments[i] = c10::IValue(std::move(v));
    }
  }
  if (c.how == Call::Into)
    for (int w : c.results) c.arguments.push_back(c10::IValue(r.bound[static_cast<size_t>(w)]));
}

// Hands the memory of one fresh result to its place.
void adopt(Recording& r, const Call& c, int at, int window, at::Tensor&& t, int& previous) {
  const Window& w = r.windows[static_cast<size_t>(window)];
  Place& p = r.places[static_cast<size_t>(w.place)];
  if (p.first != at) return; // a window on an argument
  const auto& s = t.storage();
  TORCH_CHECK(t.sizes() == at::IntArrayRef(w.sizes) && t.strides() == at::IntArrayRef(w.strides) &&
                  t.storage_offset() == w.offset && t.scalar_type() == w.type && s.nbytes() == p.bytes,
              c10::toString(c.op.operator_name()), ": gave a result of another shape than when the step was recorded");
  if (previous == w.place) return; // the second result in one storage
  previous = w.place;
  auto* impl = s.unsafeGetStorageImpl();
  p.now.unsafeGetStorageImpl()->set_data_ptr_noswap(impl->set_data_ptr(at::DataPtr(nullptr, at::kCPU)));
}

void run(Recording& r, Call& c, int at, torch::jit::Stack& s) {
  s.assign(c.arguments.begin(), c.arguments.end());
  c.op.callBoxed(s);
  if (c.how == Call::Make || c.how == Call::Once) {
    size_t k = 0;
    int previous = -1;
    for (c10::IValue& v : s) {
      if (v.isTensor()) {
        const int w = c.results[k++];
        if (w >= 0) adopt(r, c, at, w, std::move(v).toTensor(), previous);
      } else if (v.isTensorList()) {
        for (at::Tensor& t : v.toTensorVector()) {
          const int w = c.results[k++];
          if (w >= 0) adopt(r, c, at, w, std::move(t), previous);
        }
      } else {
        k++;
      }
    }
  }
  s.clear();
  for (int i : c.release)
    r.places[static_cast<size_t>(i)].now.unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
}

} // namespace

void plan(Recording& r) {
  const int n = static_cast<int>(r.calls.size());
  auto place = [&](int window) -> Place& {
    return r.places[static_cast<size_t>(r.windows[static_cast<size_t>(window)].place)];
  };
  for (int i = 0; i < n; i++) {
    for (const Use& u : r.calls[static_cast<size_t>(i)].uses)
      if (u.window >= 0) place(u.window).last = i;
    for (int w : r.calls[static_cast<size_t>(i)].results)
      if (w >= 0) place(w).last = i;
  }
  for (Place& p : r.places) {
    if (p.kind != Place::Made) continue;
    if (auto s = p.was.lock()) { // a gradient, an output, what the caller kept: replays write it where it is
      p.now = c10::Storage(std::move(s));
      p.fixed = true;
    }
  }
  std::vector<int> planned, made;
  for (int i = 0; i < n; i++) {
    Call& c = r.calls[static_cast<size_t>(i)];
    bool fresh = false, all = !c.results.empty(), read_only = true;
    for (int w : c.results) {
      const bool mine = w >= 0 && place(w).first == i;
      fresh = fresh || mine;
      all = all && mine && whole(r.windows[static_cast<size_t>(w)], place(w));
      read_only = read_only && mine && !place(w).written && !place(w).fixed;
    }
    if (c.aliases) {
      c.how = Call::Skip;
    } else if (!fresh) {
      c.how = Call::Write;
    } else if (c.allocates && all) {
      c.how = Call::Skip;
    } else if (constant(c.op) && all && read_only) {
      c.how = Call::Once;
    } else if (all) {
      if (const auto o = out_form(c.op)) {
        c.op = *o;
        c.how = Call::Into;
      }
    }
    for (int w : c.results) {
      if (w < 0 || place(w).first != i || place(w).now) continue;
      const int p = r.windows[static_cast<size_t>(w)].place;
      if (c.how == Call::Into || c.how == Call::Skip) {
        planned.push_back(p);
        place(w).fixed = true;
        place(w).now = c10::Storage(); // by arrange
      } else {
        place(w).now = c10::Storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), place(w).bytes, at::DataPtr(nullptr, at::kCPU), nullptr, false));
        if (c.how == Call::Make) r.calls[static_cast<size_t>(place(w).last)].release.push_back(p);
      }
    }
  }
  std::sort(planned.begin(), planned.end());
  planned.erase(std::unique(planned.begin(), planned.end()), planned.end());
  arrange(r, planned);
  for (const Window& w : r.windows) r.bound.push_back(show(r.places[static_cast<size_t>(w.place)].now, w));
  for (Call& c : r.calls) bind(r, c);

  for (const Place& p : r.places) {
    if (p.kind != Place::External) continue;
    const auto impl = p.tensor.lock();
    if (!impl) continue;
    const at::Tensor t(impl);
    if (!t.requires_grad() || !t.is_leaf() || !t.grad().defined()) continue;
    const int g = t.grad().has_storage() ? r.place(t.grad().storage()) : -1;
    if (g < 0) continue;
    if (r.places[static_cast<size_t>(g)].kind == Place::Made)
      r.leaves.push_back({p.tensor, t.grad()});
    else
      r.accumulated.push_back({p.tensor, WeakTensor(t.grad().getIntrusivePtr())});
  }
  r.outputs = std::move(r.kept);
  r.place_of.clear();

  Below below;
  torch::jit::Stack s;
  for (int i = 0; i < n; i++) {
    Call& c = r.calls[static_cast<size_t>(i)];
    if (c.how == Call::Once) run(r, c, i, s);
  }
}

namespace {

// Whether what the step referred to is as it was.
bool holds(const Recording& r) {
  if (r.modes != step_modes()) return false;
  for (const Place& p : r.places) {
    if (p.kind != Place::External) continue;
    if (const auto t = p.tensor.lock();
        t && (!t->has_storage() || t->unsafe_storage().unsafeGetStorageImpl() != p.now.unsafeGetStorageImpl() ||
              t->requires_grad() != p.wants))
      return false;
  }
  for (const Accumulated& a : r.accumulated) {
    const auto t = a.tensor.lock();
    if (!t) continue;
    const auto g = a.grad.lock();
    if (!g || at::Tensor(t).grad().unsafeGetTensorImpl() != g.get()) return false;
  }
  return true;
}

enum { RAN = 0, OTHER_INPUTS = 1, STALE = 2 };

int replay_steps(Recording& r, const uint64_t* inputs, size_t n) {
  if (n != r.inputs.size()) return OTHER_INPUTS;
  for (size_t i = 0; i < n; i++) {
    const Impl* t = reinterpret_cast<const Impl*>(inputs[i]);
    const Window& w = r.windows[static_cast<size_t>(r.inputs[i])];
    if (!t || t->layout() != at::kStrided || !t->has_storage() || !t->device().is_cpu() || t->is_conj() ||
        t->is_neg() || c10::typeMetaToScalarType(t->dtype()) != w.type || t->sizes() != at::IntArrayRef(w.sizes) ||
        t->strides() != at::IntArrayRef(w.strides) || tensor_of(inputs[i]).requires_grad())
      return OTHER_INPUTS;
  }
  if (!holds(r)) return STALE;
  for (size_t i = 0; i < n; i++) {
    const at::Tensor t = tensor_of(inputs[i]);
    auto* s = r.places[i].now.unsafeGetStorageImpl();
    if (s->data() != t.const_data_ptr() || s->data_ptr().get_context() != t.storage().unsafeGetStorageImpl())
      s->set_data_ptr_noswap(borrow(t));
  }
  Below below;
  torch::jit::Stack s;
  s.reserve(32);
  for (size_t i = 0; i < r.calls.size(); i++) {
    Call& c = r.calls[i];
    if (c.how != Call::Skip && c.how != Call::Once) run(r, c, static_cast<int>(i), s);
  }
  for (const Place& p : r.places) {
    if (p.kind != Place::External || !p.written) continue;
    if (const auto t = p.tensor.lock(); t && !t->is_inference()) t->bump_version();
  }
  for (const Leaf& l : r.leaves) {
    const auto t = l.tensor.lock();
    if (!t) continue;
    at::Tensor& g = at::Tensor(t).mutable_grad();
    if (!g.is_same(l.grad)) g = l.grad;
  }
  return RAN;
}

Recording& of(uint64_t h) { return *reinterpret_cast<Recording*>(h); }

} // namespace

gs_result record_plan(uint64_t h) {
  return guarded([&](gs_result&) { plan(of(h)); });
}

gs_result record_outputs(uint64_t h) {
  return guarded([&](gs_result& g) {
    std::vector<at::Tensor> v = of(h).outputs;
    put_tensors(g, std::move(v));
  });
}

gs_result record_set(uint64_t h, uint64_t call, uint32_t argument, double value) {
  return guarded([&](gs_result&) {
    auto& calls = of(h).calls;
    if (call >= calls.size() || argument >= calls[call].arguments.size() || !calls[call].arguments[argument].isDouble())
      throw CallError("a recorded step has no such number");
    calls[call].arguments[argument] = c10::IValue(value);
  });
}

gs_result replay(uint64_t h, const uint64_t* inputs, size_t n, uint32_t flags) {
  return guarded([&](gs_result& g) {
    Thread& t = thread();
    set_team(t, flags);
    t.calling++;
    struct Done {
      int& n;
      ~Done() { n--; }
    } done{t.calling};
    put(g, GS_INT, static_cast<uint64_t>(replay_steps(of(h), inputs, n)));
  });
}

gs_result record_text(uint64_t h) {
  return guarded([&](gs_result& g) {
    const Recording& r = of(h);
    std::string s = std::to_string(r.planned) + "\n";
    for (const Call& c : r.calls) {
      if (c.how == Call::Skip || c.how == Call::Once) continue;
      s += c10::toString(c.op.operator_name());
      for (size_t i = 0; i < c.results.size(); i++) {
        if (c.results[i] < 0) continue;
        s += i ? ", " : " -> ";
        s += c10::str(at::IntArrayRef(r.windows[static_cast<size_t>(c.results[i])].sizes));
      }
      s += "\n";
    }
    put(g, GS_STR, reinterpret_cast<uint64_t>(text_block(s)));
  });
}

void record_free(uint64_t h) { delete reinterpret_cast<Recording*>(h); }

} // namespace gs
