#include "problem.h"

namespace spml {

void check_logits(std::string_view op, const at::Tensor& z) {
  TORCH_CHECK(z.dim() == 2, op, ": logits have shape ", z.sizes(), ", want [batch, classes]");
  switch (z.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16: return;
    default: TORCH_CHECK(false, op, ": logits hold ", z.scalar_type(), ", want float32, float64, float16 or bfloat16");
  }
}

void check_labels(std::string_view op, const char* name, const at::Tensor& labels, const at::Tensor& z) {
  TORCH_CHECK(labels.sizes() == z.sizes(), op, ": ", name, " have shape ", labels.sizes(), ", logits ", z.sizes());
  TORCH_CHECK(labels.device() == z.device(), op, ": ", name, " are on ", labels.device(), ", logits on ", z.device());
  TORCH_CHECK(!labels.is_complex(), op, ": ", name, " are complex");
}

at::Tensor plain_labels(const at::Tensor& labels, const at::Tensor& z) {
  switch (labels.scalar_type()) {
    case at::kChar:
    case at::kBool:
    case at::kByte: return labels.contiguous(); // 0 and 1 are the same in all three
    default: return labels.to(wide_type(z)).contiguous();
  }
}

Rows rows_of(std::string_view op, const OptionalTensor& rows, const at::Tensor& z) {
  const at::Tensor& r = tensor_or_undefined(rows);
  if (!r.defined()) return {at::Tensor(), z.size(0)};
  TORCH_CHECK(r.dim() == 1 && r.size(0) == z.size(0), op, ": rows have shape ", r.sizes(), ", want [", z.size(0), "]");
  TORCH_CHECK(r.device() == z.device(), op, ": rows are on ", r.device(), ", logits on ", z.device());
  Rows out{r.ne(0).to(at::kByte).contiguous(), 0};
  const auto* p = out.counts.const_data_ptr<uint8_t>();
  for (int64_t i = 0; i < z.size(0); i++) out.count += p[i];
  return out;
}

double scale_of(std::string_view op, int64_t reduction, int64_t rows, int64_t classes) {
  switch (reduction) {
    case kMean: return rows * classes ? 1.0 / (static_cast<double>(rows) * static_cast<double>(classes)) : 0;
    case kSum: return 1;
    case kBatchMean: return rows ? 1.0 / static_cast<double>(rows) : 0;
    default: TORCH_CHECK(false, op, ": reduction is ", reduction, ", want 1 (mean), 2 (sum) or 3 (mean over rows)");
  }
}

at::Tensor number(double x, at::ScalarType type) {
  at::Tensor t = at::detail::empty_cpu({}, type);
  if (type == at::kDouble)
    *t.mutable_data_ptr<double>() = x;
  else
    *t.mutable_data_ptr<float>() = static_cast<float>(x);
  return t;
}

} // namespace spml
