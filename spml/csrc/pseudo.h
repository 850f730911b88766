// What the operators of pseudo-labels check and give, on every device.
#pragma once

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>

#include <tuple>

#include "pseudo_math.h"

namespace spml {

using VlplLabels = std::tuple<at::Tensor, at::Tensor>; // pseudo, similarity
// labels [2, B, C]: pseudo, before; scores [5, B, C]: agg, final, average, global, best; local [B]; tile [B, C]. These
// are the fields of label.DAMPResult.
using DampLabels = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

inline void check_cosines(const char* op, const at::Tensor& cosines) {
  TORCH_CHECK(cosines.dim() == 2 && cosines.size(1) > 0, op, ": cosines have shape ", cosines.sizes(), ", want [B, C]");
  TORCH_CHECK(cosines.scalar_type() == at::kFloat || cosines.scalar_type() == at::kDouble, op, ": cosines hold ",
              cosines.scalar_type(), ", want float32 or float64");
}

inline void check_observed(const char* op, const at::Tensor& observed, const at::Tensor& cosines) {
  TORCH_CHECK(observed.sizes() == cosines.sizes(), op, ": observed labels have shape ", observed.sizes(), ", want ",
              cosines.sizes());
  TORCH_CHECK(observed.device() == cosines.device(), op, ": observed labels are on ", observed.device(),
              ", cosines on ", cosines.device());
}

// The observed labels as bytes, or, where they hold fractions, as numbers of the cosines' type.
inline at::Tensor plain_observed(const at::Tensor& observed, const at::Tensor& cosines) {
  if (observed.scalar_type() == at::kChar && observed.is_contiguous()) return observed;
  return observed.to(at::isFloatingType(observed.scalar_type()) ? cosines.scalar_type() : at::kChar).contiguous();
}

inline void check_vlpl(const at::Tensor& cosines, const std::optional<at::Tensor>& observed, double tau,
                       int64_t negatives) {
  constexpr const char* op = "spml::vlpl_labels";
  check_cosines(op, cosines);
  if (observed && observed->defined()) check_observed(op, *observed, cosines);
  TORCH_CHECK(tau > 0, op, ": the temperature is ", tau);
  TORCH_CHECK(negatives >= 0 && negatives <= cosines.size(1), op, ": ", negatives, " negatives of ", cosines.size(1),
              " classes");
}

inline void check_damp(const at::Tensor& global, const at::Tensor& patches, const at::Tensor& observed, double tau,
                       int64_t top_k, double negative, int64_t form) {
  constexpr const char* op = "spml::damp_labels";
  check_cosines(op, global);
  check_observed(op, observed, global);
  TORCH_CHECK(patches.dim() == 3 && patches.size(0) > 0 && patches.size(1) == global.size(0) &&
                  patches.size(2) == global.size(1),
              op, ": patches have shape ", patches.sizes(), ", want [R, ", global.size(0), ", ", global.size(1), "]");
  TORCH_CHECK(patches.scalar_type() == global.scalar_type() && patches.device() == global.device(), op,
              ": patches are ", patches.scalar_type(), " on ", patches.device(), ", the whole pictures ",
              global.scalar_type(), " on ", global.device());
  TORCH_CHECK(tau > 0 && top_k >= 0 && negative >= 0 && negative <= 1, op, ": temperature ", tau, ", k ", top_k,
              ", share of negatives ", negative);
  TORCH_CHECK(form >= kDampDefault && form <= kDampCode, op, ": there is no form ", form);
}

inline VlplLabels empty_vlpl(const at::Tensor& cosines) {
  return {at::empty(cosines.sizes(), cosines.options().dtype(at::kChar)),
          at::empty(cosines.sizes(), cosines.options())};
}

inline DampLabels empty_damp(const at::Tensor& global) {
  const int64_t b = global.size(0), c = global.size(1);
  if (global.device().is_cpu()) { // without the dispatcher: for a single photo it is most of the time
    const auto type = global.scalar_type();
    return {at::detail::empty_cpu({2, b, c}, at::kChar), at::detail::empty_cpu({5, b, c}, type),
            at::detail::empty_cpu({b}, type), at::detail::empty_cpu({b, c}, at::kLong)};
  }
  const auto numbers = global.options();
  return {at::empty({2, b, c}, numbers.dtype(at::kChar)), at::empty({5, b, c}, numbers), at::empty({b}, numbers),
          at::empty({b, c}, numbers.dtype(at::kLong))};
}

// The paper's negatives: every class up to the quantile of the averages, whatever it was before. libtorch's quantile
// has a bound, hence the strips.
inline void below_quantile(const DampLabels& out, double share) {
  constexpr int64_t bound = 16'000'000;
  const at::Tensor pseudo = std::get<0>(out).select(0, 0), average = std::get<1>(out).select(0, 2);
  pseudo.copy_(std::get<0>(out).select(0, 1));
  const int64_t step = std::max<int64_t>(1, bound / average.size(1));
  for (int64_t from = 0; from < average.size(0); from += step) {
    const int64_t n = std::min(step, average.size(0) - from);
    const at::Tensor a = average.narrow(0, from, n);
    pseudo.narrow(0, from, n).masked_fill_(a.le(at::quantile(a, share, 1, true)), -1);
  }
}

} // namespace spml
