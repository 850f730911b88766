// LAC's contrast over label-wise embeddings [M, 2, D]: spml::contrast and spml::contrast_fwd, see batchwise.cpp.
//   L = -1/2M · Σ_i 1/|P(i)| · Σ_{j∈P(i)} [S_ij - log Σ_{a≠i} exp S_ia],   S = X·Xᵀ/τ, P(i) the others of i's class
// Pairs with an id below 0 do not count.
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "autograd.h"
#include "batch_pass.h"

namespace spml {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;

constexpr std::string_view kContrast = "spml::contrast";

void check(const Tensor& x, const Tensor& labels) {
  TORCH_CHECK(x.dim() == 3 && x.size(1) == 2, kContrast, ": embeddings have shape ", x.sizes(), ", want [M, 2, D]");
  TORCH_CHECK(at::isFloatingType(x.scalar_type()), kContrast, ": embeddings hold ", x.scalar_type());
  TORCH_CHECK(labels.dim() == 1 && labels.size(0) == x.size(0), kContrast, ": labels have shape ", labels.sizes(),
              ", want [", x.size(0), "]");
}

double exponentials(float* row, int64_t n, double top) { return batch_kernels().exp_row(row, n, top); }

double exponentials(double* row, int64_t n, double top) {
  double total = 0;
  for (int64_t i = 0; i < n; i++) total += row[i] = std::exp(row[i] - top);
  return total;
}

// The anchor i: its part of Σ, and in place of its row of S the derivative of the loss by it. all is the number of
// those that count.
template <class T>
double anchor(T* row, const std::vector<int64_t>& id, int64_t i, int64_t all) {
  const int64_t n = static_cast<int64_t>(id.size());
  if (id[i] < 0) {
    std::fill(row, row + n, T(0));
    return 0;
  }
  T top = -std::numeric_limits<T>::infinity();
  double positives = 0;
  int64_t count = 0;
  for (int64_t j = 0; j < n; j++) {
    if (j == i || id[j] < 0) continue;
    top = row[j] < top ? top : row[j]; // NaN comes through
    if (id[j] != id[i]) continue;
    positives += row[j];
    count++;
  }
  if (all < n)
    for (int64_t j = 0; j < n; j++)
      if (id[j] < 0) row[j] = -std::numeric_limits<T>::infinity();
  row[i] = top; // itself is no term of the denominator: exp(0) is taken off again
  const double sum = exponentials(row, n, top) - 1;
  const double each = 1 / static_cast<double>(all), share = each / static_cast<double>(count), soft = each / sum;
  for (int64_t j = 0; j < n; j++)
    row[j] = id[j] < 0 ? T(0) : static_cast<T>(row[j] * soft - (id[j] == id[i] ? share : 0));
  row[i] = 0;
  return -(positives / static_cast<double>(count) - (static_cast<double>(top) + std::log(sum))) * each;
}

template <class T>
double anchors(const Tensor& s, const std::vector<int64_t>& id) {
  T* p = s.mutable_data_ptr<T>();
  const int64_t n = static_cast<int64_t>(id.size()), rows = std::max<int64_t>(1, kChunk / n);
  const int64_t all = std::count_if(id.begin(), id.end(), [](int64_t x) { return x >= 0; });
  return sum_chunks((n + rows - 1) / rows, [&](int64_t c) {
    double total = 0;
    for (int64_t i = c * rows; i < std::min(n, (c + 1) * rows); i++) total += anchor(p + i * n, id, i, all);
    return total;
  });
}

Two contrast_cpu(const Tensor& features, const Tensor& labels, double tau, bool want) {
  check(features, labels);
  // A small temperature makes S so large that float32 has no digits left for its differences.
  const at::ScalarType type = tau < 0.1 ? at::kDouble : wide_type(features);
  Tensor none = at::detail::empty_cpu({0}, gradient_type(features));
  if (features.numel() == 0)
    return {number(0, wide_type(features)), want ? at::zeros(features.sizes(), gradient_type(features)) : none};
  const Tensor x = features.to(type).transpose(0, 1).reshape({-1, features.size(2)}),
               l = labels.to(at::kLong).contiguous(); // [2M, D], first all first views
  const int64_t m = l.size(0);
  std::vector<int64_t> id(2 * m);
  for (int64_t i = 0; i < m; i++) id[i] = id[i + m] = l.const_data_ptr<int64_t>()[i];
  const Tensor s = at::matmul(x, x.t()).div_(tau);
  const double value = type == at::kDouble ? anchors<double>(s, id) : anchors<float>(s, id);
  if (!want) return {number(value, wide_type(features)), none};
  // s now holds ∂L/∂S, and S = X·Xᵀ/τ.
  const Tensor g = at::matmul(s, x).add_(at::matmul(s.t(), x)).div_(tau);
  return {number(value, wide_type(features)),
          g.view({2, m, -1}).transpose(0, 1).contiguous().to(gradient_type(features))};
}

Tensor contrast(const Tensor& features, const Tensor& labels, double tau) {
  static const auto fwd =
      c10::Dispatcher::singleton().findSchemaOrThrow("spml::contrast_fwd", "").typed<decltype(contrast_cpu)>();
  check_differentiable(kContrast, features);
  const bool want = wants_grad(features);
  Two out;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    out = fwd.call(features, labels, tau, want);
  }
  auto& [loss, g] = out;
  return want ? with_gradients(kContrast, std::move(loss), {{features, std::move(g)}}) : std::move(loss);
}

TORCH_LIBRARY_FRAGMENT(spml, m) {
  m.def(
      "contrast_fwd(Tensor features, Tensor labels, float temperature, bool want_grad=True) -> (Tensor loss, Tensor "
      "gradient)");
  m.def("contrast(Tensor features, Tensor labels, float temperature) -> Tensor");
  m.impl("contrast", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(contrast)));
}

TORCH_LIBRARY_IMPL(spml, CPU, m) { m.impl("contrast_fwd", TORCH_FN(contrast_cpu)); }

TORCH_LIBRARY_IMPL(spml, Meta, m) {
  m.impl("contrast_fwd", [](const Tensor& x, const Tensor& labels, double, bool want) -> Two {
    TORCH_CHECK(x.dim() == 3 && labels.dim() == 1, kContrast, ": want embeddings [M, 2, D] and labels [M]");
    const auto options = x.options().dtype(gradient_type(x));
    return {at::empty({}, x.options().dtype(wide_type(x))),
            want ? at::empty_symint(x.sym_sizes(), options) : at::empty({0}, options)};
  });
}

TORCH_LIBRARY_IMPL(spml, Autograd, m) { m.impl("contrast_fwd", torch::CppFunction::makeFallthrough()); }

} // namespace
} // namespace spml
