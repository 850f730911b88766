// CUDA implementations of the batch-wide operators of spml/csrc/batchwise.cpp, contrast.cpp and large_loss.cpp. Numbers
// that depend on a sum over the batch stay on the device, so nothing waits for it.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <initializer_list>
#include <limits>
#include <tuple>
#include <utility>

#include "../batchwise.h"
#include "batch.h"
#include "device.h"
#include "../problem.h"

namespace spml {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

cuda::Tensors view(const Tensor& t) {
  if (!t.defined() || !t.numel()) return {nullptr, cuda::kFloat32};
  switch (t.scalar_type()) {
    case at::kDouble: return {t.data_ptr(), cuda::kFloat64};
    case at::kFloat: return {t.data_ptr(), cuda::kFloat32};
    case at::kHalf: return {t.data_ptr(), cuda::kFloat16};
    case at::kBFloat16: return {t.data_ptr(), cuda::kBFloat16};
    default: return {t.data_ptr(), cuda::kInt8};
  }
}

cudaStream_t stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

// The rows that count, how many they are, and the numbers that the passes of a loss leave for each other on the device.
struct Problem {
  Tensor mask; // uint8 [B]; undefined = all
  Tensor count; // int64, 0-d; undefined = all
  Tensor numbers; // float64 [8]
  int64_t rows, classes;
  int reduction;
  bool known; // scale is
  double scale;
  at::ScalarType type;
  Problem(std::string_view op, const OptionalTensor& given, const Tensor& z, int64_t how)
      : rows(z.size(0)), classes(z.size(1)), reduction(static_cast<int>(how)), type(wide_type(z)) {
    scale = scale_of(op, how, rows, classes); // refuses what is no reduction
    numbers = at::empty({8}, z.options().dtype(at::kDouble));
    const Tensor& r = tensor_or_undefined(given);
    known = !r.defined();
    if (known) return;
    TORCH_CHECK(r.dim() == 1 && r.size(0) == rows, op, ": rows have shape ", r.sizes(), ", want [", rows, "]");
    TORCH_CHECK(r.device() == z.device(), op, ": rows are on ", r.device(), ", logits on ", z.device());
    mask = r.ne(0).to(at::kByte).contiguous();
    count = mask.sum(at::kLong);
  }

  const double* number(int at) const { return numbers.const_data_ptr<double>() + at; }

  cuda::Tally tally(cuda::Tally::Kind kind, const Tensor& partial, int at) const {
    cuda::Tally t{};
    t.kind = kind;
    t.partial = partial.defined() ? partial.const_data_ptr<double>() : nullptr;
    t.chunks = partial.defined() ? partial.size(0) : 0;
    t.count = count.defined() ? count.const_data_ptr<int64_t>() : nullptr;
    t.rows = rows, t.classes = classes, t.reduction = reduction;
    t.numbers = numbers.mutable_data_ptr<double>();
    t.at = at;
    t.wide = type == at::kDouble;
    t.stream = stream();
    return t;
  }

  // A sum of terms as a loss, beside what other numbers add.
  Tensor loss(const Tensor& partial, double factor, std::initializer_list<std::pair<int, double>> more, double lam = 0,
              bool over_rows = false) const {
    Tensor out = at::empty({}, numbers.options().dtype(type));
    cuda::Tally t = tally(cuda::Tally::kLoss, partial, 7);
    t.factor = factor;
    for (auto [slot, weight] : more) {
      t.slot[t.slots] = slot;
      t.weight[t.slots++] = weight;
    }
    t.lam = lam;
    t.over_rows = over_rows;
    t.loss = out.mutable_data_ptr();
    C10_CUDA_CHECK(cuda::run_tally(t));
    return out;
  }

  // params[slot] = factor · scale.
  cuda::Late late_scale(int slot, double factor = 1) {
    if (!known && !prepared) {
      C10_CUDA_CHECK(cuda::run_tally(tally(cuda::Tally::kScale, Tensor(), 0)));
      prepared = true;
    }
    return {slot, factor, known ? nullptr : number(0)};
  }
  bool prepared = false; // numbers[0] is the scale
};

struct Pass {
  int id;
  std::initializer_list<Tensor> in, out;
  std::initializer_list<double> params;
  std::initializer_list<cuda::Late> late; // without a value: params[slot] = factor · scale, which the host knows

  // The sums of chunks, float64 [chunks, 3] on the device.
  Tensor run(const Tensor& mask, double scale = 0) const {
    const Tensor& z = *in.begin();
    Tensor partial = at::empty({cuda::blocks(z.numel()), 3}, z.options().dtype(at::kDouble));
    cuda::BatchLaunch l{};
    l.wide = wide_type(z) == at::kDouble;
    int i = 0;
    for (const Tensor& t : in) l.in[i++] = view(t);
    i = 0;
    for (const Tensor& t : out) l.out[i++] = view(t);
    l.counts = mask.defined() ? mask.const_data_ptr<uint8_t>() : nullptr;
    l.n = z.numel();
    l.classes = z.size(1);
    i = 0;
    for (double p : params) l.params[i++] = p;
    for (const cuda::Late& p : late) {
      if (p.value)
        l.late[l.lates++] = p;
      else
        l.params[p.slot] = p.factor * scale;
    }
    l.partial = partial.mutable_data_ptr<double>();
    l.stream = stream();
    C10_CUDA_CHECK(cuda::run_batch(id, l));
    return partial;
  }
};

// R_k = ((m̂-k)/C)², m̂ the mean over the rows of the sum of p where y is not -1: numbers[at + 1], and what its
// derivative has before p·n: numbers[at + 2]. numbers[at] is the scale.
void count_regulariser(Problem& p, const Tensor& z, const Tensor& y, double k, int at) {
  const Tensor partial = Pass{BATCHWISE_count, {z, y}, {}, {}, {}}.run(p.mask);
  cuda::Tally t = p.tally(cuda::Tally::kRegulariser, partial, at);
  t.k = k;
  C10_CUDA_CHECK(cuda::run_tally(t));
  if (at == 0) p.prepared = true;
}

Tensor gradient(const Tensor& z, bool want) {
  return at::empty(want ? z.sizes() : at::IntArrayRef{0}, z.options().dtype(gradient_type(z)));
}

Two epr(const Tensor& logits, const Tensor& labels, double k, double eps, int64_t reduction, const OptionalTensor& r,
        bool want) {
  constexpr std::string_view op = "spml::epr";
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z);
  Problem p(op, r, z, reduction);
  count_regulariser(p, z, y, k, 0);
  Tensor g = gradient(z, want);
  const Tensor sums =
      Pass{BATCHWISE_epr, {z, y}, {g}, {eps}, {p.late_scale(1), {2, 1, p.number(2)}}}.run(p.mask, p.scale);
  return {p.loss(sums, 1, {{1, 1.0}}), std::move(g)};
}

Two vlpl(const Tensor& logits, const Tensor& labels, const Tensor& pseudo, double alpha, double beta, double gamma,
         double rho, double eps, int64_t reduction, const OptionalTensor& r, bool want) {
  constexpr std::string_view op = "spml::vlpl";
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  check_labels(op, "pseudo-labels", pseudo, logits);
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z), l = plain_labels(pseudo, z);
  Problem p(op, r, z, reduction);
  Tensor g = gradient(z, want);
  const Tensor sums =
      Pass{BATCHWISE_vlpl, {z, y, l}, {g}, {eps, 0, alpha, beta, gamma, rho}, {p.late_scale(1)}}.run(p.mask, p.scale);
  return {p.loss(sums, 1, {}), std::move(g)};
}

Two gpr(const Tensor& logits, const Tensor& labels, const Tensor& pseudo, double w, double b, double mu, double sigma,
        double q2, double q3, double lo, double hi, double rho, double eta, double m, double eps, int64_t reduction,
        const OptionalTensor& r, bool want) {
  constexpr std::string_view op = "spml::gpr";
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  check_labels(op, "pseudo-labels", pseudo, logits);
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z), l = plain_labels(pseudo, z);
  Problem p(op, r, z, reduction);
  count_regulariser(p, z, y, m, 0);
  Tensor g = gradient(z, want);
  const Tensor sums = Pass{BATCHWISE_gpr,
                           {z, y, l},
                           {g},
                           {eps, 0, 0, w, b, mu, sigma, q2, q3, lo, hi, rho},
                           {p.late_scale(1), {2, eta, p.number(2)}}}
                          .run(p.mask, p.scale);
  return {p.loss(sums, 1, {{1, eta}}), std::move(g)};
}

// A second matrix of logits, in the type that the kernel can read beside the first.
Tensor beside(const Tensor& t, const Tensor& z) {
  return wide_type(t) == wide_type(z) ? t.contiguous() : t.to(wide_type(z)).contiguous();
}

Three role(const Tensor& logits, const Tensor& estimates, const Tensor& labels, double k, double eps, int64_t reduction,
           const OptionalTensor& r, bool want, bool want_u) {
  constexpr std::string_view op = "spml::role";
  check_logits(op, logits);
  check_logits(op, estimates);
  check_labels(op, "estimates", estimates, logits);
  check_labels(op, "labels", labels, logits);
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor z = logits.contiguous(), u = beside(estimates, z), y = plain_labels(labels, z);
  Problem p(op, r, z, reduction);
  count_regulariser(p, z, y, k, 0);
  count_regulariser(p, u, y, k, 3);
  const bool any = want || want_u;
  Tensor gz = gradient(z, any), gu = gradient(u, any);
  const Tensor sums = Pass{BATCHWISE_role,
                           {z, u, y},
                           {gz, gu},
                           {eps},
                           {p.late_scale(1, 0.5), {2, 0.5, p.number(2)}, {3, 0.5, p.number(5)}}}
                          .run(p.mask, p.scale);
  return {p.loss(sums, 0.5, {{1, 0.5}, {4, 0.5}}), std::move(gz), std::move(gu)};
}

Three plc(const Tensor& logits, const Tensor& strong, const Tensor& labels, double delta, double lam, double form,
          double eps, int64_t reduction, const OptionalTensor& r, bool want, bool want_s) {
  constexpr std::string_view op = "spml::plc";
  const bool paper = form != 0;
  check_logits(op, logits);
  check_logits(op, strong);
  check_labels(op, "strong view's logits", strong, logits);
  check_labels(op, "labels", labels, logits);
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor z = logits.contiguous(), s = beside(strong, z), y = plain_labels(labels, z);
  Problem p(op, r, z, paper ? static_cast<int64_t>(kBatchMean) : reduction);
  const bool any = want || want_s;
  Tensor gz = gradient(z, any), gs = at::empty(any ? s.sizes() : at::IntArrayRef{0}, s.options().dtype(wide_type(s)));
  const Tensor sums =
      Pass{BATCHWISE_plc, {z, s, y}, {gz, gs}, {eps, 0, delta, static_cast<double>(paper)}, {p.late_scale(1)}}.run(
          p.mask, p.scale);
  Tensor loss = p.loss(sums, 1, {}, lam, paper);
  if (any) gs.mul_(lam == 0 ? at::zeros({}, gs.options()) : p.numbers[7].to(gs.scalar_type()));
  if (any && gradient_type(s) != gs.scalar_type()) gs = gs.to(gradient_type(s));
  return {std::move(loss), std::move(gz), std::move(gs)};
}

Three large_loss(const Tensor& logits, const Tensor& labels, int64_t k, bool correct, bool released, bool report,
                 double eps, int64_t reduction, bool want) {
  constexpr std::string_view op = "spml::large_loss";
  constexpr double nothing = -1e38 / 2; // keys below cannot be selected: batch_math.h
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  TORCH_CHECK(k >= 0, op, ": k is ", k);
  const c10::cuda::CUDAGuard guard(logits.device());
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z);
  const double scale = scale_of(op, reduction, z.size(0), z.size(1));
  const auto wide = z.options().dtype(wide_type(z));
  Tensor marks = at::zeros(report ? z.sizes() : at::IntArrayRef{0}, z.options().dtype(at::kChar));
  Tensor selected = at::zeros(z.sizes(), z.options().dtype(at::kChar));
  k = std::min(k, z.numel());
  if (k > 0) {
    Tensor keys = at::empty(z.sizes(), wide);
    Pass{BATCHWISE_large, {z, y}, {Tensor(), keys}, {eps, scale, static_cast<double>(released)}, {}}.run(Tensor());
    keys = at::where(keys.isnan(), std::numeric_limits<double>::infinity(), keys).to(wide_type(z));
    const Tensor best = std::get<0>(keys.flatten().topk(k, 0, true, false));
    const Tensor least =
        at::where(best.ge(nothing), best, std::numeric_limits<double>::infinity()).to(wide_type(z)).min();
    const Tensor above = keys.gt(least), equal = keys.eq(least).logical_and(keys.ge(nothing));
    Tensor chosen;
    if (released) { // entries that tie with the k-th too
      chosen = above.logical_or(equal);
    } else { // ties by position
      const Tensor rest = above.sum().neg().add(k);
      chosen = above.logical_or(equal.logical_and(equal.flatten().cumsum(0).le(rest).view(z.sizes())));
    }
    selected = chosen.to(at::kChar);
    if (report) marks = released ? selected.add(above.logical_and(chosen).to(at::kChar)) : selected.mul(2);
  }
  Tensor g = gradient(z, want);
  const Tensor sums =
      Pass{cuda::kLargeModify, {z, y, selected}, {g}, {eps, scale, static_cast<double>(correct)}, {}}.run(Tensor());
  return {Problem(op, {}, z, reduction).loss(sums, 1, {}), std::move(g), std::move(marks)};
}

Two contrast(const Tensor& features, const Tensor& labels, double tau, bool want) {
  constexpr std::string_view op = "spml::contrast";
  TORCH_CHECK(features.dim() == 3 && features.size(1) == 2, op, ": embeddings have shape ", features.sizes(),
              ", want [M, 2, D]");
  TORCH_CHECK(at::isFloatingType(features.scalar_type()), op, ": embeddings hold ", features.scalar_type());
  TORCH_CHECK(labels.dim() == 1 && labels.size(0) == features.size(0), op, ": labels have shape ", labels.sizes(),
              ", want [", features.size(0), "]");
  const c10::cuda::CUDAGuard guard(features.device());
  // A small temperature makes S so large that float32 has no digits left for its differences.
  const at::ScalarType type = tau < 0.1 ? at::kDouble : wide_type(features);
  Tensor none = at::empty({0}, features.options().dtype(gradient_type(features)));
  if (features.numel() == 0)
    return {at::zeros({}, features.options().dtype(wide_type(features))),
            want ? at::zeros(features.sizes(), none.options()) : none};
  const int64_t m = features.size(0);
  const Tensor x = features.to(type).transpose(0, 1).reshape({-1, features.size(2)}); // [2M, D], first all first views
  const Tensor id = labels.to(features.device(), at::kLong).repeat({2}).contiguous();
  const Tensor s = at::matmul(x, x.t()).div_(tau), rows = at::empty({2 * m}, x.options().dtype(at::kDouble));
  C10_CUDA_CHECK(cuda::run_contrast(type == at::kDouble, s.mutable_data_ptr(), id.const_data_ptr<int64_t>(), 2 * m,
                                    rows.mutable_data_ptr<double>(), c10::cuda::getCurrentCUDAStream().stream()));
  Tensor loss = rows.sum().to(wide_type(features));
  if (!want) return {std::move(loss), none};
  // s now holds ∂L/∂S, and S = X·Xᵀ/τ.
  const Tensor g = at::matmul(s, x).add_(at::matmul(s.t(), x)).div_(tau);
  return {std::move(loss), g.view({2, m, -1}).transpose(0, 1).contiguous().to(gradient_type(features))};
}

TORCH_LIBRARY_IMPL(spml, GOSPML_DEVICE, m) {
#define GOSPML_CUDA_KERNEL(x) m.impl(#x "_fwd", TORCH_FN(x));
  GOSPML_CUDA_KERNEL(epr)
  GOSPML_CUDA_KERNEL(vlpl)
  GOSPML_CUDA_KERNEL(gpr)
  GOSPML_CUDA_KERNEL(role)
  GOSPML_CUDA_KERNEL(plc)
  GOSPML_CUDA_KERNEL(large_loss)
  GOSPML_CUDA_KERNEL(contrast)
}

} // namespace
} // namespace spml
