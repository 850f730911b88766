// Operators of frozen networks: spml::freeze packs one, spml::frozen runs it. The handle is a tensor, whose memory is the network: it goes when
// the tensor does.
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
  } catch (const std::invalid_argument& e) {
    C10_THROW_ERROR(ValueError, e.what());
  }
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

const FrozenKernels& kernels_of(at::ScalarType dtype) {
  TORCH_CHECK_VALUE(dtype == at::kFloat || dtype == at::kBFloat16, "spml::freeze: want float32 or bfloat16, got ", dtype);
  if (dtype == at::kFloat) return *kernels().frozen;
  TORCH_CHECK(multiplies_bf16(), "this processor has no AVX512_BF16, so it computes bfloat16 no faster than float32");
  return frozen_bf16;
}

Tensor freeze(at::TensorList constants, at::IntArrayRef steps, at::ArrayRef<double> numbers, at::ScalarType dtype) {
  const FrozenKernels& chosen = kernels_of(dtype);
  std::vector<Tensor> kept;
  std::vector<FrozenConstant> values;
  for (const Tensor& t : constants) {
    TORCH_CHECK(t.scalar_type() == at::kFloat && t.device().is_cpu(), "spml::freeze: constants are float32 on the CPU, got ", t.scalar_type(), " on ", t.device());
    kept.push_back(t.contiguous());
    values.push_back({kept.back().sizes().vec(), kept.back().const_data_ptr<float>()});
  }
  auto network = checked([&] { return std::make_shared<FrozenProgram>(chosen, steps.vec(), numbers.vec(), values); });
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

Tensor frozen(const Tensor& handle, const Tensor& images, const std::optional<Tensor>& table, int64_t activation, int64_t threads) {
  std::shared_ptr<FrozenProgram> network;
  {
    std::lock_guard<std::mutex> lock(networks().mutex);
    const auto at = networks().by.find(handle.const_data_ptr());
    TORCH_CHECK(at != networks().by.end(), "spml::frozen: not a handle of spml::freeze");
    network = at->second;
  }
  TORCH_CHECK(images.dim() == 4 && images.scalar_type() == at::kFloat && images.device().is_cpu(), "spml::frozen: want images [B, C, H, W] in float32 on the CPU, got ",
              images.scalar_type(), " ", images.sizes(), " on ", images.device());
  FrozenImages x{images.const_data_ptr<float>(), images.size(0), images.size(1), images.size(2), images.size(3), {}, nullptr, 0, 0};
  for (int i = 0; i < 4; i++) x.stride[i] = images.stride(i);
  Tensor rows;
  if (table && table->defined()) {
    TORCH_CHECK(table->dim() == 2 && table->scalar_type() == at::kFloat && table->device().is_cpu(), "spml::frozen: want a table [N, D] in float32 on the CPU");
    rows = table->contiguous();
    x.table = rows.const_data_ptr<float>();
    x.table_rows = rows.size(0), x.table_width = rows.size(1);
  }
  const FrozenShape s = checked([&] { return network->shape(x.height, x.width, activation); });
  Tensor out = at::empty({x.count, s.height, s.width, s.channels}, images.options().memory_format(at::MemoryFormat::Contiguous));
  if (threads < 1) threads = omp_get_max_threads();
  if (omp_in_parallel()) threads = 1;
  checked([&] { return network->run(x, activation, out.mutable_data_ptr<float>(), static_cast<int>(std::min<int64_t>(threads, 1024))); });
  return out;
}

TORCH_LIBRARY_FRAGMENT(spml, m) {
  m.def("freeze(Tensor[] constants, int[] steps, float[] numbers, ScalarType dtype) -> Tensor");
  m.def("frozen(Tensor network, Tensor images, Tensor? table, int activation, int threads) -> Tensor");
}

TORCH_LIBRARY_IMPL(spml, CPU, m) {
  m.impl("freeze", TORCH_FN(freeze));
  m.impl("frozen", TORCH_FN(frozen));
}

// Nothing here has a gradient.
TORCH_LIBRARY_IMPL(spml, Autograd, m) {
  m.impl("freeze", torch::CppFunction::makeFallthrough());
  m.impl("frozen", torch::CppFunction::makeFallthrough());
}

} // namespace
} // namespace spml
