// What every fused loss does with its inputs before and after the numbers: checks, types, reductions, rows that do not
// count.
#pragma once

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>

#include <optional>
#include <string_view>

namespace spml {

// As the operators' argument `reduction`; 1 and 2 are at::Reduction's.
enum Reduction : int64_t { kMean = 1, kSum = 2, kBatchMean = 3 };

using OptionalTensor = std::optional<at::Tensor>;

inline const at::Tensor& tensor_or_undefined(const OptionalTensor& t) {
  static const at::Tensor undefined;
  return t ? *t : undefined;
}

// Element type in which a loss of these logits is computed: float64 for float64, float32 for all others.
inline at::ScalarType wide_type(const at::Tensor& z) {
  return z.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

// Element type of the gradient: that of the logits, but float32 for float16, in which 1/(B·C) would underflow.
inline at::ScalarType gradient_type(const at::Tensor& z) {
  return z.scalar_type() == at::kHalf ? at::kFloat : z.scalar_type();
}

void check_logits(std::string_view op, const at::Tensor& z);
void check_labels(std::string_view op, const char* name, const at::Tensor& labels, const at::Tensor& z);

// The contiguous labels as int8 where they hold bytes or bools, else as numbers of the loss's type.
at::Tensor plain_labels(const at::Tensor& labels, const at::Tensor& z);

// Which rows count: all where rows is not given, else those with a number other than 0. B is how many.
struct Rows {
  at::Tensor counts; // uint8 [B], undefined = all
  int64_t count;
  bool operator()(int64_t row) const { return !counts.defined() || counts.const_data_ptr<uint8_t>()[row]; }
};
Rows rows_of(std::string_view op, const OptionalTensor& rows, const at::Tensor& z);

// What the sum of the terms is multiplied by.
double scale_of(std::string_view op, int64_t reduction, int64_t rows, int64_t classes);

// A 0-d tensor on the CPU.
at::Tensor number(double x, at::ScalarType type);

} // namespace spml
