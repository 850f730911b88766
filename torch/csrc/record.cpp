// Recording of a step: every operator that is called below autograd is taken down with its arguments.
//
// The dispatch key Fake, which libtorch reserves for code outside it, lies below autograd and above the kernels. While
// a step is recorded it is included on the thread; its fallback writes the call down and goes on to the kernel, within
// which it is off.
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>
#include <torch/library.h>

#include <optional>
#include <unordered_set>

#include "record.h"

namespace gs {
namespace {

constexpr auto key = c10::DispatchKey::Fake;

struct Recorder {
  uint64_t id;
  std::unique_ptr<Recording> recording = std::make_unique<Recording>();
  std::unordered_set<const void*> allocated; // by the step, on its thread
  std::string failure;
  std::optional<c10::impl::IncludeDispatchKeyGuard> including;
};

thread_local Recorder* recorder = nullptr;

// Stands before the allocator of the CPU from the first recording on and notes what a step allocates.
struct Noting final : c10::Allocator {
  c10::Allocator* under;
  explicit Noting(c10::Allocator* under) : under(under) {}
  c10::DataPtr allocate(size_t n) override {
    c10::DataPtr d = under->allocate(n);
    if (recorder && n) recorder->allocated.insert(d.get());
    return d;
  }
  bool is_simple_data_ptr(const c10::DataPtr& d) const override { return under->is_simple_data_ptr(d); }
  c10::DeleterFnPtr raw_deleter() const override { return under->raw_deleter(); }
  void copy_data(void* to, const void* from, size_t n) const override { under->copy_data(to, from, n); }
};

[[noreturn]] void refuse(const c10::OperatorHandle& op, const std::string& why) {
  std::string text = c10::toString(op.operator_name()) + ": " + why;
  if (recorder && recorder->failure.empty()) recorder->failure = text;
  throw std::runtime_error(text);
}

// An index by whole numbers has a shape that does not depend on them.
bool indexes_by_number(const c10::OperatorHandle& op, const torch::jit::Stack& s, size_t n) {
  const auto& name = op.operator_name();
  if (name.name != "aten::index" && name.name != "aten::_unsafe_index") return false;
  const auto& list = s[s.size() - n + 1];
  if (!list.isList()) return false;
  for (const c10::IValue& v : list.toListRef())
    if (v.isTensor() && v.toTensor().defined() &&
        (v.toTensor().scalar_type() == at::kBool || v.toTensor().scalar_type() == at::kByte))
      return false;
  return true;
}

void check_kind(const c10::OperatorHandle& op, const torch::jit::Stack& s) {
  const size_t n = op.schema().arguments().size();
  if (op.hasTag(at::Tag::data_dependent_output))
    refuse(op,
           "reads a value while a step is recorded; replays would not see the values of later steps. Return the tensor "
           "from the step and read it there");
  if (op.hasTag(at::Tag::dynamic_output_shape) && !indexes_by_number(op, s, n))
    refuse(op, "the shape of its result depends on values, and a recorded step has fixed shapes");
  if (op.hasTag(at::Tag::inplace_view))
    refuse(op, "changes the shape of a tensor in place, which a recorded step cannot repeat");
}

bool allocates(const std::string& name) {
  static const std::unordered_set<std::string> names = {"aten::empty",         "aten::empty_like",
                                                        "aten::empty_strided", "aten::empty_permuted",
                                                        "aten::new_empty",     "aten::new_empty_strided"};
  return names.count(name) != 0;
}

void check_plain(const c10::OperatorHandle& op, const at::Tensor& t) {
  if (t.layout() != at::kStrided || !t.has_storage() || t.is_mkldnn())
    refuse(op, "a tensor without plain storage (sparse and the like) cannot be recorded");
  if (!t.device().is_cpu()) refuse(op, "a tensor on " + t.device().str() + " in a step whose inputs are on the CPU");
  if (t.is_conj() || t.is_neg())
    refuse(op, "a lazily conjugated or negated tensor cannot be recorded; call ResolveConj or ResolveNeg");
  if (t.is_quantized()) refuse(op, "a quantized tensor cannot be recorded");
}

// The window of an argument; what is new was there before the step.
int argument(Recorder& r, const c10::OperatorHandle& op, const at::Tensor& t) {
  check_plain(op, t);
  Recording& rec = *r.recording;
  int p = rec.place(t.storage());
  if (p < 0) {
    const bool number = t.unsafeGetTensorImpl()->is_wrapped_number();
    if (!number && t.storage().nbytes() && r.allocated.count(t.storage().data()))
      refuse(op,
             "reads a tensor that was made during the step but not by an operator; replays would read the same values "
             "for ever. Make it before, or pass it as an input");
    p = static_cast<int>(rec.places.size());
    Place place(t.storage());
    place.kind = Place::External;
    place.now = t.storage();
    place.tensor = WeakTensor(t.getIntrusivePtr());
    place.wants = t.requires_grad();
    place.fixed = true;
    rec.places.push_back(std::move(place));
    rec.place_of.emplace(t.storage().unsafeGetStorageImpl(), p);
  }
  // A parameter may be seen first through something that shares its memory.
  Place& q = rec.places[static_cast<size_t>(p)];
  if (q.kind == Place::External && t.requires_grad() && t.is_leaf()) {
    q.tensor = WeakTensor(t.getIntrusivePtr());
    q.wants = true;
  }
  return rec.window(t, p);
}

bool is_write(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }

// Replaces tensors by nothing, so that the step's own references decide what is freed and done in place.
void strip(Recorder& r, Call& c, int i, c10::IValue& v, bool write) {
  if (v.isTensor()) {
    if (v.toTensor().defined())
      c.uses.push_back({i, -1, argument(r, c.op, v.toTensor()), write});
    else
      c.uses.push_back({i, -1, -1, write});
    v = c10::IValue();
  } else if (v.isList() && (v.isTensorList() || v.type()->castRaw<c10::ListType>()->getElementType()->kind() ==
                                                    c10::TypeKind::OptionalType)) {
    const auto elements = v.toListRef();
    bool any = v.isTensorList();
    for (const auto& e : elements) any = any || e.isTensor();
    if (!any) return;
    for (size_t k = 0; k < elements.size(); k++) {
      const bool there = elements[k].isTensor() && elements[k].toTensor().defined();
      c.uses.push_back({i, static_cast<int>(k), there ? argument(r, c.op, elements[k].toTensor()) : -1, write});
    }
    if (v.isTensorList())
      v = c10::IValue(c10::List<at::Tensor>());
    else
      v = c10::IValue(c10::List<std::optional<at::Tensor>>());
  } else if (v.isStorage() || v.isObject() || v.isStream() || v.isCapsule() || v.isPyObject()) {
    refuse(c.op, "takes a " + v.tagKind() + ", which cannot be recorded");
  }
}

int result(Recorder& r, Call& c, const at::Tensor& t, int at, bool& fresh) {
  fresh = false;
  if (!t.defined()) return -1;
  check_plain(c.op, t);
  Recording& rec = *r.recording;
  int p = rec.place(t.storage());
  if (p < 0) {
    fresh = true;
    p = static_cast<int>(rec.places.size());
    Place place(t.storage());
    place.first = at;
    place.bytes = t.storage().nbytes();
    place.undefined = c.allocates;
    rec.places.push_back(std::move(place));
    rec.place_of.emplace(t.storage().unsafeGetStorageImpl(), p);
  }
  return rec.window(t, p);
}

void intercept(const c10::OperatorHandle& op, c10::DispatchKeySet ks, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard off(key);
  const auto below = ks & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, key);
  Recorder* r = recorder;
  if (!r)
    throw std::runtime_error(c10::toString(op.operator_name()) +
                             ": called from a thread of libtorch's while a step is recorded");
  check_kind(op, *stack);
  const auto& schema = op.schema();
  const size_t n = schema.arguments().size();
  Call c(op);
  c.allocates = allocates(op.operator_name().name);
  c.arguments.assign(stack->end() - static_cast<std::ptrdiff_t>(n), stack->end());
  bool writes = false;
  for (size_t i = 0; i < n; i++) {
    const bool write = is_write(schema.arguments()[i]);
    writes = writes || write;
    strip(*r, c, static_cast<int>(i), c.arguments[i], write);
  }
  op.redispatchBoxed(below, stack);

  Recording& rec = *r->recording;
  const int at = static_cast<int>(rec.calls.size());
  const size_t outs = schema.returns().size();
  bool all_old = true;
  size_t tensors = 0;
  for (size_t i = 0; i < outs; i++) {
    const c10::IValue& v = (*stack)[stack->size() - outs + i];
    bool fresh = false;
    if (v.isTensor()) {
      tensors++;
      c.results.push_back(result(*r, c, v.toTensor(), at, fresh));
      all_old = all_old && !fresh;
    } else if (v.isTensorList()) {
      for (const auto& t : v.toTensorVector()) {
        tensors++;
        c.results.push_back(result(*r, c, t, at, fresh));
        all_old = all_old && !fresh;
      }
    } else {
      c.results.push_back(-1);
    }
  }
  if (!tensors && !writes && outs) return; // a question about shapes and types
  c.aliases = !writes && tensors && all_old;
  for (const Use& u : c.uses) {
    if (u.window < 0) continue;
    Place& p = rec.places[static_cast<size_t>(rec.windows[static_cast<size_t>(u.window)].place)];
    if (u.write) {
      p.undefined = false;
      p.written = true;
    } else if (p.undefined && !c.aliases && !c.allocates && p.bytes) {
      refuse(op, "reads memory that no operator has written: something fills it behind the recorder's back");
    }
  }
  rec.calls.push_back(std::move(c));
}

// Adds one to step counts on the CPU, which optimizers otherwise do by hand.
void advance(at::TensorList steps) {
  for (const at::Tensor& t : steps) {
    TORCH_CHECK(t.is_cpu() && t.scalar_type() == at::kFloat && t.numel() == 1,
                "a step count is one float32 on the CPU");
    ++*t.mutable_data_ptr<float>();
  }
}

// At the first recording, not when the library is opened: a static initialiser that throws would end the process.
void install() {
  static const bool once = [] {
    auto* own = new torch::Library(torch::Library::DEF, "gospml", std::nullopt, __FILE__, __LINE__);
    own->def("advance_(Tensor(a!)[] steps) -> ()", torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(advance)));
    c10::SetCPUAllocator(new Noting(c10::GetCPUAllocator()), 255);
    auto* all = new torch::Library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
    all->fallback(torch::CppFunction::makeFromBoxedFunction<&intercept>());
    return true;
  }();
  (void)once;
}

void stop() {
  Recorder* r = recorder;
  recorder = nullptr;
  delete r;
}

} // namespace

int Recording::window(const at::Tensor& t, int place) {
  Window w;
  w.place = place;
  w.type = t.scalar_type();
  w.number = t.unsafeGetTensorImpl()->is_wrapped_number();
  w.offset = t.storage_offset();
  w.sizes = t.sizes().vec();
  w.strides = t.strides().vec();
  for (size_t i = 0; i < windows.size(); i++)
    if (windows[i] == w) return static_cast<int>(i);
  windows.push_back(std::move(w));
  return static_cast<int>(windows.size() - 1);
}

gs_result record_begin(uint64_t id, const uint64_t* inputs, size_t n) {
  return guarded([&](gs_result& g) {
    if (recorder) throw CallError("a step is being recorded on this thread already: recorded steps do not nest");
    install();
    auto r = std::make_unique<Recorder>();
    r->id = id;
    Recording& rec = *r->recording;
    rec.modes = step_modes();
    std::vector<at::Tensor> shown;
    for (size_t i = 0; i < n; i++) {
      const at::Tensor t = tensor_of(inputs[i]);
      if (!t.defined()) throw HandleError("input " + std::to_string(i) + " is a nil tensor");
      if (t.layout() != at::kStrided || !t.has_storage() || !t.device().is_cpu())
        throw CallError("input " + std::to_string(i) + " has no plain storage on the CPU");
      if (t.requires_grad())
        throw CallError("input " + std::to_string(i) +
                        " requires a gradient; inputs of a recorded step are data, parameters are those that its "
                        "function refers to");
      size_t bytes = at::detail::computeStorageNbytes(t.sizes(), t.strides(), t.dtype().itemsize());
      c10::Storage s(
          c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, borrow(t), nullptr, false));
      Window w{static_cast<int>(i), t.scalar_type(), false, 0, t.sizes().vec(), t.strides().vec()};
      shown.push_back(show(s, w));
      Place p(s);
      p.kind = Place::Input;
      p.now = s;
      p.bytes = bytes;
      p.fixed = true;
      rec.place_of.emplace(s.unsafeGetStorageImpl(), static_cast<int>(rec.places.size()));
      rec.places.push_back(std::move(p));
      rec.inputs.push_back(static_cast<int>(rec.windows.size()));
      rec.windows.push_back(std::move(w));
    }
    put_tensors(g, std::move(shown));
    r->including.emplace(key);
    recorder = r.release();
  });
}

gs_result record_end(const uint64_t* outputs, size_t n) {
  return guarded([&](gs_result& g) {
    if (!recorder) throw CallError("no step is being recorded on this thread");
    std::unique_ptr<Recording> rec = std::move(recorder->recording);
    const std::string failure = recorder->failure;
    stop();
    if (!failure.empty()) throw std::runtime_error(failure);
    for (size_t i = 0; i < n; i++) {
      const at::Tensor t = tensor_of(outputs[i]);
      if (t.defined() && rec->place(t.storage()) < 0)
        throw CallError("output " + std::to_string(i) + " was neither made by the step nor read by it");
      rec->kept.push_back(t.defined() ? t.detach() : t);
    }
    put(g, GS_INT, reinterpret_cast<uint64_t>(rec.release()));
  });
}

void record_cancel() { stop(); }

uint64_t record_current(int64_t* position) {
  if (!recorder) return 0;
  if (position) *position = static_cast<int64_t>(recorder->recording->calls.size());
  return recorder->id;
}

void record_fail(const char* why) {
  if (recorder && recorder->failure.empty()) recorder->failure = why;
}

} // namespace gs
