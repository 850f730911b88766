// CUDA implementations of the operators x_fwd. Their schemas and autograd nodes are those of libgospml-ops-cpu.so,
// which has to be open first.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

#include "../pointwise.h"
#include "device.h"
#include "pointwise.h"
#include "../problem.h"

namespace spml {
namespace {

using at::Tensor;

cuda::Element element_of(at::ScalarType t) {
  switch (t) {
    case at::kDouble: return cuda::kFloat64;
    case at::kHalf: return cuda::kFloat16;
    case at::kBFloat16: return cuda::kBFloat16;
    default: return cuda::kFloat32;
  }
}

std::tuple<Tensor, Tensor> forward(std::string_view op, Pointwise id, const Tensor& logits, const Tensor& labels,
                                   const Tensor& more, const double* params, int count, int64_t reduction,
                                   const OptionalTensor& rows, bool want_grad) {
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  if (more.defined()) check_labels(op, "the second labels", more, logits);
  scale_of(op, reduction, 1, 1); // refuses what is no reduction
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor z = logits.contiguous();
  Tensor y = plain_labels(labels, z), w = more.defined() ? plain_labels(more, z) : Tensor();
  const auto bytes = [](const Tensor& t) { return t.element_size() == 1; };
  if (w.defined() && bytes(w) != bytes(y)) { // the kernel reads both as one type
    y = y.to(wide_type(z));
    w = w.to(wide_type(z));
  }
  Tensor counts, counted;
  if (const Tensor& r = tensor_or_undefined(rows); r.defined()) {
    TORCH_CHECK(r.dim() == 1 && r.size(0) == z.size(0), op, ": rows have shape ", r.sizes(), ", want [", z.size(0),
                "]");
    TORCH_CHECK(r.device() == z.device(), op, ": rows are on ", r.device(), ", logits on ", z.device());
    counts = r.ne(0).to(at::kByte).contiguous();
    counted = counts.sum(at::kLong); // stays on the device: no waiting
  }
  const auto wide = z.options().dtype(wide_type(z));
  Tensor loss = at::empty({}, wide);
  Tensor g = at::empty(want_grad ? z.sizes() : at::IntArrayRef{0}, z.options().dtype(gradient_type(z)));
  const Tensor partial = at::empty({cuda::blocks(z.numel())}, z.options().dtype(at::kDouble));
  cuda::Launch l{};
  l.element = element_of(z.scalar_type());
  l.byte_labels = bytes(y);
  l.z = z.const_data_ptr();
  l.y = y.const_data_ptr();
  l.w = w.defined() ? w.const_data_ptr() : nullptr;
  l.g = want_grad && z.numel() ? g.mutable_data_ptr() : nullptr;
  l.counts = counts.defined() ? counts.const_data_ptr<uint8_t>() : nullptr;
  l.count = counted.defined() ? counted.const_data_ptr<int64_t>() : nullptr;
  l.loss = loss.mutable_data_ptr();
  l.partial = partial.mutable_data_ptr<double>();
  l.n = z.numel();
  l.classes = z.size(1);
  l.reduction = static_cast<int>(reduction);
  for (int i = 0; i < count; i++) l.params[i] = params[i];
  l.stream = c10::cuda::getCurrentCUDAStream().stream();
  C10_CUDA_CHECK(cuda::run(id, l));
  return {std::move(loss), std::move(g)};
}

template <size_t>
using Label = const Tensor&;
template <size_t>
using Double = double;

template <Pointwise Id, class Labels, class Parameters>
struct Op;

template <Pointwise Id, size_t... L, size_t... I>
struct Op<Id, std::index_sequence<L...>, std::index_sequence<I...>> {
  static std::tuple<Tensor, Tensor> cuda(const Tensor& z, Label<L>... labels, Double<I>... a, double eps,
                                         int64_t reduction, const OptionalTensor& rows, bool want_grad) {
    static constexpr const char* names[] = {
#define X(name, F, labels, schema) "spml::" #name,
      GOSPML_POINTWISE(X)
#undef X
    };
    const double params[] = {a..., eps};
    static_assert(sizeof...(I) + 1 <= spml::cuda::kMaxParams);
    const Tensor* const y[] = {&labels...};
    static const Tensor none;
    return forward(names[Id], Id, z, *y[0], sizeof...(L) > 1 ? *y[sizeof...(L) - 1] : none, params, sizeof...(I) + 1,
                   reduction, rows, want_grad);
  }
};

constexpr int count_parameters(const char* schema) {
  int n = *schema != 0;
  for (; *schema; schema++) n += *schema == ',';
  return n;
}

TORCH_LIBRARY_IMPL(spml, GOSPML_DEVICE, m) {
#define X(name, F, labels, schema)                                                      \
  m.impl(#name "_fwd", TORCH_FN((Op<POINTWISE_##name, std::make_index_sequence<labels>, \
                                    std::make_index_sequence<count_parameters(schema)>>::cuda)));
  GOSPML_POINTWISE(X)
#undef X
}

} // namespace
} // namespace spml
