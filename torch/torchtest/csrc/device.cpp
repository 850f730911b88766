// A device that every machine has: libtorch's PrivateUse1 backend over host memory. Operators run the CPU's kernels, on
// the same bytes, but what a card refuses is refused: tensors of two devices in one operator, random generators of the
// CPU, and the host's hands on the memory. Addresses of the device have a bit set that no address of the process has,
// so code that takes one for host memory ends in a fault, not in numbers.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include <omp.h>

#include <atomic>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

extern "C" int MKL_Set_Num_Threads_Local(int) __attribute__((weak));

namespace {

constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
constexpr c10::DeviceIndex kDevices = 2;
constexpr uintptr_t kFar =
    uintptr_t(1) << 54; // beyond what x86-64 and ARM64 give a process, below the byte that ARM64 ignores

// Facts that tests ask for.
std::atomic<int64_t> in_use{0}; // bytes of all devices
std::atomic<int64_t> most_used{0}; // since it was asked for last
std::atomic<int64_t> capacity{0}; // bytes that may be in use; 0 = any
std::atomic<int64_t> to_host{0}; // copies from a device to the CPU, numbers read from tensors among them
std::atomic<int64_t> refusals{0};
std::atomic<int64_t> waits{0}; // copies from or to the CPU that are to be over when they return, and numbers read
std::atomic<int64_t> uploads{0}; // copies from the CPU to a device, of something
std::atomic<int64_t> uploaded{0}; // bytes of them
std::atomic<uintptr_t> far{kFar}; // 0 where kernels of the device's own run in this process

thread_local c10::DeviceIndex current = 0;

void* far_of(const void* p) {
  return p ? reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) | far.load(std::memory_order_relaxed)) : nullptr;
}
void* near_of(const void* p) { return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(p) & ~kFar); }

void reserve(size_t n) {
  const int64_t now = in_use.fetch_add(static_cast<int64_t>(n)) + static_cast<int64_t>(n), most = capacity.load();
  for (int64_t seen = most_used.load(); seen < now && !most_used.compare_exchange_weak(seen, now);) {}
  if (most == 0 || now <= most) return;
  in_use.fetch_sub(static_cast<int64_t>(n));
  TORCH_CHECK_WITH(OutOfMemoryError, false, "the test device is out of memory: ", n, " bytes wanted, ",
                   now - static_cast<int64_t>(n), " of ", most, " in use");
}

// Memory of the device: its own, or a storage that a CPU kernel made.
struct Block {
  void* own = nullptr;
  std::optional<c10::Storage> taken;
  size_t bytes = 0;
  ~Block() {
    if (own) c10::free_cpu(own);
    in_use.fetch_sub(static_cast<int64_t>(bytes));
  }
};

void free_block(void* b) { delete static_cast<Block*>(b); }

c10::DataPtr block(c10::DeviceIndex index, size_t bytes, std::optional<c10::Storage> taken) {
  reserve(bytes);
  auto* b = new Block;
  b->bytes = bytes;
  void* p;
  if (taken) {
    p = const_cast<void*>(taken->data());
    b->taken = std::move(taken);
  } else {
    p = b->own = bytes ? c10::alloc_cpu(bytes) : nullptr;
  }
  return {far_of(p), b, free_block, c10::Device(kType, index)};
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override { return block(current, n, {}); }
  void copy_data(void* dest, const void* src, std::size_t n) const override { memcpy(near_of(dest), near_of(src), n); }
};
Allocator allocator;

// The kernels of the device use one thread, whatever thread of the process runs them: backward has threads of its own,
// whose number of workers nobody sets.
struct OneThread {
  int before = omp_get_max_threads();
  OneThread() { set(1); }
  ~OneThread() { set(before); }
  static void set(int n) {
    omp_set_num_threads(n);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(n);
  }
};

bool on_device(const at::Tensor& t) { return t.defined() && t.device().type() == kType; }

// One call of a CPU kernel: device tensors are seen as CPU tensors over the same memory.
class Call {
 public:
  c10::DeviceIndex index = -1; // of the device whose tensors take part

  at::Tensor host(const at::Tensor& t) {
    if (!on_device(t)) return t;
    for (const auto& p : tensors_)
      if (p.first.is_same(t)) return p.second;
    TORCH_CHECK(t.layout() == at::kStrided, "the test device has strided tensors only");
    const auto* from = t.unsafeGetTensorImpl();
    auto impl =
        c10::make_intrusive<c10::TensorImpl>(host(t.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), t.dtype());
    impl->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    if (from->is_wrapped_number()) impl->set_wrapped_number(true);
    at::Tensor out(std::move(impl));
    tensors_.emplace_back(t, out);
    return out;
  }

  c10::Storage host(const c10::Storage& s) {
    if (s.device_type() != kType) return s;
    for (const auto& p : storages_)
      if (p.first.is_alias_of(s)) return p.second;
    auto keep = std::make_unique<c10::Storage>(s);
    void* p = near_of(s.data());
    c10::DataPtr data(p, keep.release(), [](void* k) { delete static_cast<c10::Storage*>(k); }, c10::Device(c10::kCPU));
    c10::Storage out(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), s.nbytes(),
                                                           std::move(data), c10::GetAllocator(c10::kCPU), true));
    storages_.emplace_back(s, out);
    return out;
  }

  // The device's tensor for one that a CPU kernel gave.
  at::Tensor device(const at::Tensor& t) {
    if (!t.defined()) return t;
    for (const auto& p : tensors_)
      if (p.second.is_same(t)) return p.first;
    TORCH_CHECK(t.layout() == at::kStrided, "the test device has strided tensors only");
    auto impl = c10::make_intrusive<c10::TensorImpl>(device(t.storage()),
                                                     c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), t.dtype());
    for (const auto& p : tensors_)
      if (!p.first.is_inference() &&
          p.second.storage().is_alias_of(t.storage())) { // also in inference mode a view of an ordinary tensor is one
        impl = c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, device(t.storage()), p.first.key_set(),
                                                    t.dtype());
        break;
      }
    impl->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    at::Tensor out(std::move(impl));
    tensors_.emplace_back(out, t);
    return out;
  }

  // What the kernel changed of its arguments beside their elements: sizes, strides, the memory itself.
  void settle() {
    for (auto& [far, near] : storages_) {
      if (near.data() == near_of(far.data()) && near.nbytes() == far.nbytes()) continue;
      auto data = block(far.device().index(), near.nbytes(), near);
      auto* impl = far.unsafeGetStorageImpl();
      auto old = impl->set_data_ptr(std::move(data)); // freed at the end of the call
      old_.push_back(std::move(old));
      impl->set_nbytes(near.nbytes());
    }
    for (size_t i = 0; i < tensors_.size(); i++) {
      const at::Tensor far = tensors_[i].first, near = tensors_[i].second;
      auto* impl = far.unsafeGetTensorImpl();
      const c10::Storage storage = device(near.storage());
      if (!storage.is_alias_of(far.storage())) impl->set_storage_keep_dtype(storage);
      if (far.sizes() != near.sizes() || far.strides() != near.strides() ||
          far.storage_offset() != near.storage_offset())
        impl->set_sizes_and_strides(near.sizes(), near.strides(), near.storage_offset());
    }
  }

 private:
  c10::Storage device(const c10::Storage& s) {
    for (const auto& p : storages_)
      if (p.second.is_alias_of(s)) return p.first;
    auto data = block(index, s.nbytes(), s);
    c10::Storage out(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), s.nbytes(),
                                                           std::move(data), &allocator, true));
    storages_.emplace_back(out, s);
    return out;
  }

  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_; // device, host
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_; // device, host
  std::vector<c10::DataPtr> old_;
};

// Arguments by whose side a card takes a CPU tensor: positions for index(), which it copies.
bool positions(std::string_view op, std::string_view argument) {
  return argument == "indices" &&
         (op.starts_with("aten::index") || op.starts_with("aten::_index_put") || op.starts_with("aten::_unsafe_index"));
}

// Arguments whose CPU tensor is no number for the kernel, also where it has no dimensions.
bool never_number(std::string_view argument) {
  for (const char* name : {"index", "indices", "mask", "source", "src", "weight", "bias", "mat1", "mat2", "batch1",
                           "batch2", "running_mean", "running_var", "grad_output"})
    if (argument == name) return true;
  return false;
}

[[noreturn]] void refuse(const c10::OperatorHandle& op, const c10::Argument& a, const at::Tensor& t,
                         c10::DeviceIndex index) {
  refusals++;
  TORCH_CHECK(false, "Expected all tensors to be on the same device, but ", op.operator_name(), " got argument '",
              a.name(), "' of shape ", t.sizes(), " on ", t.device(), " beside one on ", c10::Device(kType, index));
}

// Refuses what a card refuses and finds the device that computes.
void look(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments, Call& call) {
  const auto& schema = op.schema();
  const auto each = [&](auto&& f) {
    for (size_t i = 0; i < arguments.size(); i++) {
      const auto& a = schema.arguments()[i];
      const auto& v = arguments[i];
      if (v.isTensor()) {
        f(a, v.toTensor(), false);
      } else if (v.isTensorList()) {
        for (const at::Tensor& t : v.toTensorVector()) f(a, t, true);
      } else if (v.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector())
          if (t) f(a, *t, true);
      }
    }
  };
  each([&](const c10::Argument&, const at::Tensor& t, bool) {
    if (on_device(t) && call.index < 0) call.index = t.device().index();
  });
  for (const auto& v : arguments) {
    if (v.isDevice() && v.toDevice().type() == kType && call.index < 0) call.index = v.toDevice().index();
    if (v.isGenerator() && v.toGenerator().defined() && v.toGenerator().device().type() != kType) {
      refusals++;
      TORCH_CHECK(false, "Expected a '", c10::Device(kType), "' device type for generator but found '",
                  v.toGenerator().device(), "' (", op.operator_name(), ")");
    }
  }
  if (call.index < 0) call.index = current;
  each([&](const c10::Argument& a, const at::Tensor& t, bool listed) {
    if (!t.defined() || t.device() == c10::Device(kType, call.index)) return;
    if (t.device().type() == kType) refuse(op, a, t, call.index);
    if (positions(op.operator_name().name, a.name())) return;
    const bool written = a.alias_info() && a.alias_info()->isWrite();
    if (t.dim() > 0 || listed || written || never_number(a.name())) refuse(op, a, t, call.index);
  });
}

c10::IValue host(Call& call, const c10::IValue& v) {
  if (v.isTensor()) return call.host(v.toTensor());
  if (v.isTensorList()) {
    auto ts = v.toTensorVector();
    for (auto& t : ts) t = call.host(t);
    return ts;
  }
  if (v.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> ts;
    for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector())
      ts.push_back(t ? std::optional<at::Tensor>(call.host(*t)) : t);
    return ts;
  }
  if (v.isStorage()) return call.host(v.toStorage());
  if (v.isDevice() && v.toDevice().type() == kType) return c10::Device(c10::kCPU);
  return v;
}

c10::IValue device(Call& call, const c10::IValue& v) {
  if (v.isTensor()) return call.device(v.toTensor());
  if (v.isTensorList()) {
    auto ts = v.toTensorVector();
    for (auto& t : ts) t = call.device(t);
    return ts;
  }
  return v;
}

// Runs the CPU's kernel of `as` for a call of op.
void run(const c10::OperatorHandle& op, const c10::OperatorHandle& as, torch::jit::Stack* stack) {
  const size_t n = op.schema().arguments().size();
  const size_t begin = stack->size() - n;
  Call call;
  look(op, c10::ArrayRef<c10::IValue>(*stack).slice(begin), call);
  for (size_t i = begin; i < stack->size(); i++) (*stack)[i] = host(call, (*stack)[i]);
  {
    at::AutoDispatchBelowADInplaceOrView below;
    c10::impl::ExcludeDispatchKeyGuard uncast(c10::autocast_dispatch_keyset);
    OneThread one;
    as.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  }
  call.settle();
  const size_t results = op.schema().returns().size();
  for (size_t i = stack->size() - results; i < stack->size(); i++) (*stack)[i] = device(call, (*stack)[i]);
  static const std::unordered_set<std::string_view> reading{"aten::_local_scalar_dense",
                                                            "aten::nonzero",
                                                            "aten::masked_select",
                                                            "aten::_unique2",
                                                            "aten::bincount",
                                                            "aten::equal"}; // the last: sizes that depend on values
  const std::string_view name = op.operator_name().name;
  if (name == "aten::_local_scalar_dense") to_host++;
  if (reading.contains(name)) waits++;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) { run(op, op, stack); }

c10::OperatorHandle operator_of(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

// Convolutions are one operator with choices on the CPU and two without on a device of others.
void convolution(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  static const auto as = operator_of("aten::convolution");
  run(op, as, stack);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& input, const at::Tensor& weight, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed, c10::SymIntArrayRef output_padding,
    c10::SymInt groups, std::array<bool, 3> mask) {
  static const auto as =
      operator_of("aten::convolution_backward")
          .typed<std::tuple<at::Tensor, at::Tensor, at::Tensor>(
              const at::Tensor&, const at::Tensor&, const at::Tensor&, at::OptionalSymIntArrayRef, c10::SymIntArrayRef,
              c10::SymIntArrayRef, c10::SymIntArrayRef, bool, c10::SymIntArrayRef, c10::SymInt, std::array<bool, 3>)>();
  Call call;
  call.index = grad.device().index();
  for (const auto* t : {&grad, &input, &weight})
    TORCH_CHECK(t->device() == grad.device(),
                "Expected all tensors to be on the same device, but convolution_backward got ", t->device(), " and ",
                grad.device());
  const std::vector<c10::SymInt> bias{transposed ? weight.sym_size(1) * groups : weight.sym_size(0)};
  at::AutoDispatchBelowADInplaceOrView below;
  c10::impl::ExcludeDispatchKeyGuard uncast(c10::autocast_dispatch_keyset);
  OneThread one;
  auto [a, b, c] = as.redispatch(c10::DispatchKeySet(c10::DispatchKey::CPU), call.host(grad), call.host(input),
                                 call.host(weight), at::OptionalSymIntArrayRef(bias), stride, padding, dilation,
                                 transposed, output_padding, std::move(groups), mask);
  return {call.device(a), call.device(b), call.device(c)};
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                 std::optional<at::Device> device, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided, "the test device has strided tensors only");
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_generic(size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool>) {
  TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided, "the test device has strided tensors only");
  const c10::OptionalDeviceGuard on(device);
  return at::detail::empty_strided_generic(size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

void transfer(const at::Tensor& from, const at::Tensor& to, bool wait) {
  if (on_device(from) && !on_device(to)) to_host++;
  if (wait && on_device(from) != on_device(to) && from.numel()) waits++;
  if (!on_device(from) && on_device(to) && from.numel()) {
    uploads++;
    uploaded += static_cast<int64_t>(from.nbytes());
  }
  Call call;
  call.index = on_device(to) ? to.device().index() : from.device().index();
  at::AutoDispatchBelowADInplaceOrView below;
  OneThread one;
  call.host(to).copy_(call.host(from));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  transfer(from, to, !non_blocking);
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  transfer(from, to, true);
  return to;
}

// Attention is written out: what the CPU and CUDA fuse is an operator for each of them.
int64_t choose_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                         double, bool, std::optional<double>, bool) {
  return 0;
}

// Calls an operator below autocast with its floating point tensors in another type; a sum or softmax is asked for
// float32.
void cast(const c10::OperatorHandle& op, torch::jit::Stack* stack, at::ScalarType to) {
  c10::impl::ExcludeDispatchKeyGuard uncast(c10::autocast_dispatch_keyset);
  const auto& arguments = op.schema().arguments();
  const size_t begin = stack->size() - arguments.size();
  for (size_t i = begin; i < stack->size(); i++) {
    auto& v = (*stack)[i];
    if (v.isTensor()) {
      v = at::autocast::cached_cast(to, v.toTensor(), kType);
    } else if (v.isTensorList()) {
      v = at::autocast::cached_cast(to, v.toTensorVector(), kType);
    } else if (v.isNone() && arguments[i - begin].name() == "dtype") {
      v = static_cast<int64_t>(to);
    }
  }
  op.callBoxed(stack);
}

void narrow(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  cast(op, stack, at::autocast::get_autocast_dtype(kType));
}
void range(const c10::OperatorHandle& op, torch::jit::Stack* stack) { cast(op, stack, at::kFloat); }

// A parameter may move between here and the CPU and stay the same tensor, as one of CUDA's may.
bool same_kind(const at::Tensor& a, const at::Tensor& b) {
  return a.layout() == at::kStrided && b.layout() == at::kStrided;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::DeviceIndex checked(c10::Device d) {
    TORCH_CHECK(d.type() == kType && d.index() < kDevices, "there is no test device ", d, "; there are ",
                static_cast<int>(kDevices));
    return d.index() < 0 ? current : d.index();
  }
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device d) const override {
    const c10::Device before(kType, current);
    current = checked(d);
    return before;
  }
  c10::Device getDevice() const override { return {kType, current}; }
  void setDevice(c10::Device d) const override { current = checked(d); }
  void uncheckedSetDevice(c10::Device d) const noexcept override {
    if (d.index() >= 0) current = d.index();
  }
  c10::Stream getStream(c10::Device d) const override {
    return c10::Stream(c10::Stream::DEFAULT, c10::Device(kType, checked(d)));
  }
  c10::Stream getDefaultStream(c10::Device d) const override { return getStream(d); }
  c10::Stream getNewStream(c10::Device d, int) const override { return getStream(d); }
  c10::Stream getStreamFromGlobalPool(c10::Device d, bool) const override { return getStream(d); }
  c10::Stream exchangeStream(c10::Stream s) const override { return getStream(s.device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }
  // All is done in order, so an event has always happened.
  void destroyEvent(void*, const c10::DeviceIndex) const noexcept override {}
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  void setCurrentDevice(c10::DeviceIndex i) const override { current = i; }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex i) const override { return std::exchange(current, i); }
  bool isPinnedPtr(const void*) const override { return false; }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    return c10::GetAllocator(c10::kCPU);
  } // all host memory is as good
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex i) const override { return std::exchange(current, i); }
};
Hooks hooks;

// What processes talk through between test devices: the group's backend for the CPU, on the same bytes.
std::atomic<int64_t> collectives{0};

class Between final : public c10d::Backend {
  c10::intrusive_ptr<c10d::Backend> near_;
  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  static Tensors host(const Tensors& ts) {
    collectives++;
    Call call;
    Tensors out;
    for (const auto& t : ts) out.push_back(call.host(t));
    return out;
  }
  static std::vector<Tensors> host(const std::vector<Tensors>& all) {
    std::vector<Tensors> out;
    for (const auto& ts : all) out.push_back(host(ts));
    return out;
  }

 public:
  explicit Between(const c10::intrusive_ptr<c10d::Backend>& near)
      : Backend(near->getRank(), near->getSize()), near_(near) {}
  const std::string getBackendName() const override { return "testdevice"; }
  Work allreduce(Tensors& ts, const c10d::AllreduceOptions& o) override {
    auto h = host(ts);
    return near_->allreduce(h, o);
  }
  Work broadcast(Tensors& ts, const c10d::BroadcastOptions& o) override {
    auto h = host(ts);
    return near_->broadcast(h, o);
  }
  Work allgather(std::vector<Tensors>& to, Tensors& ts, const c10d::AllgatherOptions& o) override {
    auto out = host(to);
    auto h = host(ts);
    return near_->allgather(out, h, o);
  }
};

void attach(int64_t group) {
  auto g = c10::intrusive_ptr<c10d::ProcessGroup>::reclaim_copy(reinterpret_cast<c10d::ProcessGroup*>(group));
  g->setBackend(kType, c10d::ProcessGroup::BackendType::CUSTOM,
                c10::make_intrusive<Between>(g->getBackend(c10::DeviceType::CPU)));
}

// ask(0): bytes in use; 1: copies to the host; 2: refusals; 3: sets the bytes that may be in use; 4: the most that were
// since the last time; 5: takes the memory of new tensors into reach; 6: what waited; 7: copies from the host; 8: their
// bytes; 9: collectives.
int64_t ask(int64_t what, int64_t value) {
  switch (what) {
    case 0: return in_use.load();
    case 1: return to_host.load();
    case 2: return refusals.load();
    case 3: return capacity.exchange(value);
    case 4: return most_used.exchange(in_use.load());
    case 5: return far.exchange(0) != 0;
    case 6: return waits.load();
    case 7: return uploads.load();
    case 8: return uploaded.load();
    case 9: return collectives.load();
  }
  TORCH_CHECK(false, "no such question");
}

const auto registered = [] {
  c10::SetAllocator(kType, &allocator);
  c10::register_privateuse1_backend("testdevice");
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

} // namespace

TORCH_LIBRARY(testdevice, m) {
  m.def("ask(int what, int value) -> int", ask);
  m.def("attach(int group) -> ()", attach);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable", convolution_backward);
  m.impl("_fused_sdp_choice", choose_attention);
  m.impl("_has_compatible_shallow_copy_type", same_kind);
  // Operators that have a kernel for each device and, for devices of others, a form of small operators, whose last bits
  // differ.
  for (const char* name :
       {"native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// Autocast as on a card. What is not named here keeps the type that it gets.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  for (const char* name : {"conv1d", "conv2d", "conv3d", "convolution", "addmm", "addmv", "matmul", "mm", "mv",
                           "linear", "baddbmm", "bmm", "einsum", "prelu", "scaled_dot_product_attention"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&narrow>());
  for (const char* name : {"exp",
                           "log",
                           "log1p",
                           "log2",
                           "expm1",
                           "reciprocal",
                           "rsqrt",
                           "pow.Tensor_Scalar",
                           "pow.Tensor_Tensor",
                           "softplus",
                           "layer_norm",
                           "native_layer_norm",
                           "group_norm",
                           "cosine_similarity",
                           "binary_cross_entropy_with_logits",
                           "mse_loss",
                           "l1_loss",
                           "smooth_l1_loss",
                           "kl_div",
                           "logsumexp",
                           "cdist",
                           "upsample_nearest2d",
                           "upsample_bilinear2d",
                           "upsample_bicubic2d",
                           "softmax.int",
                           "log_softmax.int",
                           "sum",
                           "sum.dim_IntList",
                           "cumsum",
                           "prod",
                           "linalg_vector_norm"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&range>());
}
