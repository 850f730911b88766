// Operators of frozen networks: spml::freeze packs one, spml::frozen runs it. The handle is a tensor, whose memory is
// the network: it goes when the tensor does.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <torch/library.h>

#include <omp.h>

#include <cstring>
#include <stdexcept>
#include <unordered_map>

#include "frozen.h"
#include "pointwise.h"

namespace spml {
namespace {

using at::Tensor;

struct Networks {
  std::mutex mutex;
  std::unordered_map<const void*, std::shared_ptr<FrozenProgram>> by; // the handle's memory
};

Networks& networks() {
  static Networks* const all = new Networks; // handles may outlive the end of main
  return *all;
}

template <class F>
auto checked(const F& f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::invalid_argument& e) { C10_THROW_ERROR(ValueError, e.what()); }
}

// Whether this processor multiplies bfloat16, and the libraries were built for that.
bool multiplies_bf16() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16") && frozen_bf16.size != 0 && std::strcmp(kernels().name, "avx512") == 0;
#else
  return false;
#endif
}

// The same of int8.
bool multiplies_int8() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512vnni") && frozen_int8.size != 0 && std::strcmp(kernels().name, "avx512") == 0;
#else
  return false;
#endif
}

const FrozenKernels& kernels_of(at::ScalarType dtype) {
  TORCH_CHECK_VALUE(dtype == at::kFloat || dtype == at::kBFloat16, "spml::freeze: want float32 or bfloat16, got ",
                    dtype);
  if (dtype == at::kFloat) return *kernels().frozen;
  TORCH_CHECK(multiplies_bf16(), "this processor has no AVX512_BF16, so it computes bfloat16 no faster than float32");
  return frozen_bf16;
}

Tensor freeze_as(at::TensorList constants, at::IntArrayRef steps, at::ArrayRef<double> numbers,
                 const FrozenKernels& chosen, FrozenScales scales) {
  std::vector<Tensor> kept;
  std::vector<FrozenConstant> values;
  for (const Tensor& t : constants) {
    TORCH_CHECK(t.scalar_type() == at::kFloat && t.device().is_cpu(),
                "spml::freeze: constants are float32 on the CPU, got ", t.scalar_type(), " on ", t.device());
    kept.push_back(t.contiguous());
    values.push_back({kept.back().sizes().vec(), kept.back().const_data_ptr<float>()});
  }
  auto network = checked(
      [&] { return std::make_shared<FrozenProgram>(chosen, steps.vec(), numbers.vec(), values, std::move(scales)); });
  void* key = new int64_t(0);
  {
    std::lock_guard<std::mutex> lock(networks().mutex);
    networks().by.emplace(key, std::move(network));
  }
  return at::from_blob(
      key, {1},
      [](void* p) {
        std::shared_ptr<FrozenProgram> last;
        {
          std::lock_guard<std::mutex> lock(networks().mutex);
          const auto at = networks().by.find(p);
          last = std::move(at->second);
          networks().by.erase(at);
        }
        delete static_cast<int64_t*>(p);
      },
      at::TensorOptions().dtype(at::kLong));
}

Tensor freeze(at::TensorList constants, at::IntArrayRef steps, at::ArrayRef<double> numbers, at::ScalarType dtype) {
  return freeze_as(constants, steps, numbers, kernels_of(dtype), {});
}

Tensor freeze_int8(at::TensorList constants, at::IntArrayRef steps, at::ArrayRef<double> numbers,
                   at::ArrayRef<double> scales, at::IntArrayRef zeros, at::IntArrayRef weights) {
  TORCH_CHECK(multiplies_int8(), "this processor has no AVX512_VNNI, so it does not compute int8");
  return freeze_as(constants, steps, numbers, *kernels().frozen,
                   {&frozen_int8, scales.vec(), zeros.vec(), weights.vec()});
}

// A network and what comes to it.
struct Call {
  std::shared_ptr<FrozenProgram> network;
  FrozenImages images;
  Tensor rows; // of the table, kept
};

Call called(const Tensor& handle, const Tensor& images, const std::optional<Tensor>& table) {
  std::shared_ptr<FrozenProgram> network;
  {
    std::lock_guard<std::mutex> lock(networks().mutex);
    const auto at = networks().by.find(handle.const_data_ptr());
    TORCH_CHECK(at != networks().by.end(), "spml::frozen: not a handle of spml::freeze");
    network = at->second;
  }
  TORCH_CHECK(images.dim() == 4 && images.scalar_type() == at::kFloat && images.device().is_cpu(),
              "spml::frozen: want images [B, C, H, W] in float32 on the CPU, got ", images.scalar_type(), " ",
              images.sizes(), " on ", images.device());
  FrozenImages x{images.const_data_ptr<float>(),
                 images.size(0),
                 images.size(1),
                 images.size(2),
                 images.size(3),
                 {},
                 nullptr,
                 0,
                 0};
  for (int i = 0; i < 4; i++) x.stride[i] = images.stride(i);
  Tensor rows;
  if (table && table->defined()) {
    TORCH_CHECK(table->dim() == 2 && table->scalar_type() == at::kFloat && table->device().is_cpu(),
                "spml::frozen: want a table [N, D] in float32 on the CPU");
    rows = table->contiguous();
    x.table = rows.const_data_ptr<float>();
    x.table_rows = rows.size(0), x.table_width = rows.size(1);
  }
  return {std::move(network), x, std::move(rows)};
}

int threads_of(int64_t asked) {
  if (omp_in_parallel()) return 1;
  return static_cast<int>(std::min<int64_t>(asked < 1 ? omp_get_max_threads() : asked, 1024));
}

Tensor frozen(const Tensor& handle, const Tensor& images, const std::optional<Tensor>& table, int64_t activation,
              int64_t threads) {
  const Call c = called(handle, images, table);
  TORCH_CHECK_VALUE(activation > 0, "spml::frozen: no such activation is asked for");
  const FrozenShape s = checked([&] { return c.network->shape(c.images.height, c.images.width, activation); });
  Tensor out = at::empty({c.images.count, s.height, s.width, s.channels},
                         images.options().memory_format(at::MemoryFormat::Contiguous));
  checked([&] { return c.network->run(c.images, activation, out.mutable_data_ptr<float>(), threads_of(threads)); });
  return out;
}

// All activations of one image but the input, one behind the other, and the shape of each, [activations, 3].
std::tuple<Tensor, Tensor> frozen_all(const Tensor& handle, const Tensor& images, const std::optional<Tensor>& table,
                                      int64_t threads) {
  const Call c = called(handle, images, table);
  const std::vector<FrozenShape> shapes = checked([&] { return c.network->shapes(c.images.height, c.images.width); });
  Tensor sizes = at::empty({static_cast<int64_t>(shapes.size()), 3}, at::kLong);
  int64_t total = 0, *to = sizes.mutable_data_ptr<int64_t>();
  for (const FrozenShape& s : shapes) {
    *to++ = s.height, *to++ = s.width, *to++ = s.channels;
    total += s.height * s.width * s.channels;
  }
  Tensor out = at::empty({total}, images.options().memory_format(at::MemoryFormat::Contiguous));
  checked([&] { return c.network->run(c.images, kFrozenAll, out.mutable_data_ptr<float>(), threads_of(threads)); });
  return {out, sizes};
}

TORCH_LIBRARY_FRAGMENT(spml, m) {
  m.def("freeze(Tensor[] constants, int[] steps, float[] numbers, ScalarType dtype) -> Tensor");
  m.def(
      "freeze_int8(Tensor[] constants, int[] steps, float[] numbers, float[] scales, int[] zeros, int[] weights) -> "
      "Tensor");
  m.def("frozen_all(Tensor network, Tensor images, Tensor? table, int threads) -> (Tensor, Tensor)");
  m.def("frozen(Tensor network, Tensor images, Tensor? table, int activation, int threads) -> Tensor");
}

TORCH_LIBRARY_IMPL(spml, CPU, m) {
  m.impl("freeze", TORCH_FN(freeze));
  m.impl("freeze_int8", TORCH_FN(freeze_int8));
  m.impl("frozen_all", TORCH_FN(frozen_all));
  m.impl("frozen", TORCH_FN(frozen));
}

// Nothing here has a gradient.
TORCH_LIBRARY_IMPL(spml, Autograd, m) {
  m.impl("freeze", torch::CppFunction::makeFallthrough());
  m.impl("freeze_int8", torch::CppFunction::makeFallthrough());
  m.impl("frozen_all", torch::CppFunction::makeFallthrough());
  m.impl("frozen", torch::CppFunction::makeFallthrough());
}

} // namespace
} // namespace spml
