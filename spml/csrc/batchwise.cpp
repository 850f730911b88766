// Operators of the losses with batch-wide terms. For each x, as in pointwise.cpp,
//   spml::x(…) -> Tensor                                    with the autograd node, the same for all devices
//   spml::x_fwd(…, bool want_grad…) -> (Tensor loss, Tensor gradient…)
#include <torch/library.h>

#include <tuple>

#include "autograd.h"
#include "batch_pass.h"

namespace spml {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

Tensor empty_gradient(const Tensor& z, bool want, const Rows& rows) {
  Tensor g = at::detail::empty_cpu(want ? z.sizes() : at::IntArrayRef{0}, gradient_type(z));
  if (want && rows.count < z.size(0)) g.zero_();
  return g;
}

std::vector<Tensor> outputs(bool want, std::initializer_list<Tensor> g) {
  return want ? std::vector<Tensor>(g) : std::vector<Tensor>();
}

// R_k = ((m̂-k)/C)², m̂ the mean over the rows of the sum of p where y is not -1, and what its derivative has before p·n
// there.
struct CountRegulariser {
  double value = 0, slope = 0;
  bool kept = false; // σ(-|z|) is in the gradient
  CountRegulariser(const Tensor& z, const Tensor& y, const Rows& rows, double k, const Tensor& gradient) {
    const double b = static_cast<double>(rows.count), c = static_cast<double>(z.size(1));
    if (rows.count == 0 || z.size(1) == 0) return;
    kept = gradient.defined() && gradient.numel() == z.numel() && gradient.scalar_type() == wide_type(z);
    const double off =
        (kept ? Pass{BATCHWISE_keep, {z, y}, {gradient}, {}} : Pass{BATCHWISE_count, {z, y}, {}, {}}).run(rows)[0] / b -
        k;
    value = off / c * (off / c);
    slope = 2 * off / (c * c * b);
  }
};

// ------------------------------------------------------------------------------------------------- EPR
Two epr_cpu(const Tensor& logits, const Tensor& labels, double k, double eps, int64_t reduction,
            const OptionalTensor& r, bool want) {
  constexpr std::string_view op = "spml::epr";
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  const Rows rows = rows_of(op, r, logits);
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z);
  const double scale = scale_of(op, reduction, rows.count, z.size(1));
  Tensor g = empty_gradient(z, want, rows);
  const CountRegulariser reg(z, y, rows, k, g);
  const double main =
      scale *
      Pass{reg.kept ? BATCHWISE_epr_kept : BATCHWISE_epr, {z, y}, outputs(want, {g}), {eps, scale, reg.slope}}.run(
          rows)[0];
  return {number(main + reg.value, wide_type(z)), std::move(g)};
}

// ------------------------------------------------------------------------------------------------- VLPL
Two vlpl_cpu(const Tensor& logits, const Tensor& labels, const Tensor& pseudo, double alpha, double beta, double gamma,
             double rho, double eps, int64_t reduction, const OptionalTensor& r, bool want) {
  constexpr std::string_view op = "spml::vlpl";
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  check_labels(op, "pseudo-labels", pseudo, logits);
  const Rows rows = rows_of(op, r, logits);
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z), l = plain_labels(pseudo, z);
  const double scale = scale_of(op, reduction, rows.count, z.size(1));
  Tensor g = empty_gradient(z, want, rows);
  const double main =
      scale * Pass{BATCHWISE_vlpl, {z, y, l}, outputs(want, {g}), {eps, scale, alpha, beta, gamma, rho}}.run(rows)[0];
  return {number(main, wide_type(z)), std::move(g)};
}

// ------------------------------------------------------------------------------------------------- GPR
Two gpr_cpu(const Tensor& logits, const Tensor& labels, const Tensor& pseudo, double w, double b, double mu,
            double sigma, double q2, double q3, double lo, double hi, double rho, double eta, double m, double eps,
            int64_t reduction, const OptionalTensor& r, bool want) {
  constexpr std::string_view op = "spml::gpr";
  check_logits(op, logits);
  check_labels(op, "labels", labels, logits);
  check_labels(op, "pseudo-labels", pseudo, logits);
  const Rows rows = rows_of(op, r, logits);
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z), l = plain_labels(pseudo, z);
  const double scale = scale_of(op, reduction, rows.count, z.size(1));
  Tensor g = empty_gradient(z, want, rows);
  const CountRegulariser reg(z, y, rows, m, g);
  const Pass p{reg.kept ? BATCHWISE_gpr_kept : BATCHWISE_gpr,
               {z, y, l},
               outputs(want, {g}),
               {eps, scale, eta * reg.slope, w, b, mu, sigma, q2, q3, lo, hi, rho}};
  const double main = scale * p.run(rows)[0];
  return {number(main + eta * reg.value, wide_type(z)), std::move(g)};
}

// ------------------------------------------------------------------------------------------------- ROLE
Three role_cpu(const Tensor& logits, const Tensor& estimates, const Tensor& labels, double k, double eps,
               int64_t reduction, const OptionalTensor& r, bool want, bool want_u) {
  constexpr std::string_view op = "spml::role";
  check_logits(op, logits);
  check_logits(op, estimates);
  check_labels(op, "estimates", estimates, logits);
  check_labels(op, "labels", labels, logits);
  const Rows rows = rows_of(op, r, logits);
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z);
  Tensor u = estimates.contiguous();
  if (wide_type(u) != wide_type(z)) u = u.to(wide_type(z));
  const double scale = scale_of(op, reduction, rows.count, z.size(1));
  const bool any = want || want_u;
  Tensor gz = empty_gradient(z, any, rows), gu = empty_gradient(u, any, rows);
  const bool direct = gz.scalar_type() == wide_type(z) && gu.scalar_type() == wide_type(z);
  const CountRegulariser rz(z, y, rows, k, direct ? gz : Tensor()), ru(u, y, rows, k, direct ? gu : Tensor());
  const Pass p{rz.kept && ru.kept ? BATCHWISE_role_kept : BATCHWISE_role,
               {z, u, y},
               outputs(any, {gz, gu}),
               {eps, scale / 2, rz.slope / 2, ru.slope / 2}};
  const double main = scale / 2 * p.run(rows)[0], reg = (rz.value + ru.value) / 2;
  return {number(main + reg, wide_type(z)), std::move(gz), std::move(gu)};
}

// ------------------------------------------------------------------------------------------------- PLC
Three plc_cpu(const Tensor& logits, const Tensor& strong, const Tensor& labels, double delta, double lam, double form,
              double eps, int64_t reduction, const OptionalTensor& r, bool want, bool want_s) {
  constexpr std::string_view op = "spml::plc";
  const bool paper = form != 0;
  check_logits(op, logits);
  check_logits(op, strong);
  check_labels(op, "strong view's logits", strong, logits);
  check_labels(op, "labels", labels, logits);
  const Rows rows = rows_of(op, r, logits);
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z);
  Tensor s = strong.contiguous();
  if (wide_type(s) != wide_type(z)) s = s.to(wide_type(z));
  const double scale = scale_of(op, paper ? kBatchMean : reduction, rows.count, z.size(1));
  const bool any = want || want_s;
  Tensor gz = empty_gradient(z, any, rows),
         gs = at::detail::empty_cpu(any ? s.sizes() : at::IntArrayRef{0}, wide_type(s));
  if (any && rows.count < z.size(0)) gs.zero_();
  const Sums sums =
      Pass{BATCHWISE_plc, {z, s, y}, outputs(any, {gz, gs}), {eps, scale, delta, static_cast<double>(paper)}}.run(rows);
  const double over = paper ? static_cast<double>(std::max<int64_t>(rows.count, 1)) : std::max(sums[2], 1.0);
  if (any) gs.mul_(lam / over);
  if (any && gradient_type(s) != gs.scalar_type()) gs = gs.to(gradient_type(s));
  const double an = scale * sums[0], consistency = sums[1] / over;
  return {number(an + lam * consistency, wide_type(z)), std::move(gz), std::move(gs)};
}

// ------------------------------------------------------------------------------------------------- dispatch
Tensor meta_like(const Tensor& z, bool want) {
  const auto options = z.options().dtype(gradient_type(z));
  return want ? at::empty_symint(z.sym_sizes(), options) : at::empty({0}, options);
}
void meta_shape(std::string_view op, const Tensor& t, const Tensor& z) {
  TORCH_CHECK(t.sym_sizes() == z.sym_sizes(), op, ": a tensor has shape ", t.sym_sizes(), ", logits ", z.sym_sizes());
}
Tensor meta_loss(const Tensor& z) { return at::empty({}, z.options().dtype(wide_type(z))); }
Two meta_of(const Tensor& z, bool want) { return {meta_loss(z), meta_like(z, want)}; }
Three meta_of(const Tensor& z, const Tensor& u, bool any) {
  return {meta_loss(z), meta_like(z, any), meta_like(u, any)};
}

template <class F>
auto typed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<F>();
}

#define GOSPML_BELOW at::AutoDispatchBelowADInplaceOrView below

Tensor epr(const Tensor& z, const Tensor& y, double k, double eps, int64_t reduction, const OptionalTensor& r) {
  static const auto fwd = typed<decltype(epr_cpu)>("spml::epr_fwd");
  check_differentiable("spml::epr", z);
  check_constant("spml::epr", "labels", y);
  const bool want = wants_grad(z);
  Two out;
  {
    GOSPML_BELOW;
    out = fwd.call(z, y, k, eps, reduction, r, want);
  }
  auto& [loss, g] = out;
  return want ? with_gradients("spml::epr", std::move(loss), {{z, std::move(g)}}) : std::move(loss);
}

Tensor vlpl(const Tensor& z, const Tensor& y, const Tensor& l, double alpha, double beta, double gamma, double rho,
            double eps, int64_t reduction, const OptionalTensor& r) {
  static const auto fwd = typed<decltype(vlpl_cpu)>("spml::vlpl_fwd");
  check_differentiable("spml::vlpl", z);
  check_constant("spml::vlpl", "labels", y);
  check_constant("spml::vlpl", "pseudo-labels", l);
  const bool want = wants_grad(z);
  Two out;
  {
    GOSPML_BELOW;
    out = fwd.call(z, y, l, alpha, beta, gamma, rho, eps, reduction, r, want);
  }
  auto& [loss, g] = out;
  return want ? with_gradients("spml::vlpl", std::move(loss), {{z, std::move(g)}}) : std::move(loss);
}

Tensor gpr(const Tensor& z, const Tensor& y, const Tensor& l, double w, double b, double mu, double sigma, double q2,
           double q3, double lo, double hi, double rho, double eta, double m, double eps, int64_t reduction,
           const OptionalTensor& r) {
  static const auto fwd = typed<decltype(gpr_cpu)>("spml::gpr_fwd");
  check_differentiable("spml::gpr", z);
  check_constant("spml::gpr", "labels", y);
  check_constant("spml::gpr", "pseudo-labels", l);
  const bool want = wants_grad(z);
  Two out;
  {
    GOSPML_BELOW;
    out = fwd.call(z, y, l, w, b, mu, sigma, q2, q3, lo, hi, rho, eta, m, eps, reduction, r, want);
  }
  auto& [loss, g] = out;
  return want ? with_gradients("spml::gpr", std::move(loss), {{z, std::move(g)}}) : std::move(loss);
}

// The node of a loss with two inputs that may want gradients.
Tensor with_both(const char* op, Three&& out, const Tensor& z, const Tensor& u, bool want, bool want_u) {
  auto& [loss, gz, gu] = out;
  if (!want && !want_u) return std::move(loss);
  return with_gradients(op, std::move(loss),
                        {{z, want ? std::move(gz) : Tensor()}, {u, want_u ? std::move(gu) : Tensor()}});
}

Tensor role(const Tensor& z, const Tensor& u, const Tensor& y, double k, double eps, int64_t reduction,
            const OptionalTensor& r) {
  static const auto fwd = typed<decltype(role_cpu)>("spml::role_fwd");
  check_differentiable("spml::role", z);
  check_differentiable("spml::role", u);
  check_constant("spml::role", "labels", y);
  const bool want = wants_grad(z), want_u = wants_grad(u);
  Three out;
  {
    GOSPML_BELOW;
    out = fwd.call(z, u, y, k, eps, reduction, r, want, want_u);
  }
  return with_both("spml::role", std::move(out), z, u, want, want_u);
}

Tensor plc(const Tensor& z, const Tensor& s, const Tensor& y, double delta, double lam, double form, double eps,
           int64_t reduction, const OptionalTensor& r) {
  static const auto fwd = typed<decltype(plc_cpu)>("spml::plc_fwd");
  check_differentiable("spml::plc", z);
  check_differentiable("spml::plc", s);
  check_constant("spml::plc", "labels", y);
  const bool want = wants_grad(z), want_s = wants_grad(s);
  Three out;
  {
    GOSPML_BELOW;
    out = fwd.call(z, s, y, delta, lam, form, eps, reduction, r, want, want_s);
  }
  return with_both("spml::plc", std::move(out), z, s, want, want_s);
}

constexpr const char* kTail = "float log_eps=0., int reduction=1, Tensor? rows=None";

void define(torch::Library& m, const char* name, const std::string& inputs, const char* gradients, const char* wants) {
  const std::string in = "(" + inputs + ", " + kTail;
  m.def((std::string(name) + "_fwd" + in + ", " + wants + ") -> (Tensor loss, " + gradients + ")").c_str());
  m.def((std::string(name) + in + ") -> Tensor").c_str());
}

TORCH_LIBRARY_FRAGMENT(spml, m) {
  const char *one = "Tensor gradient", *grad = "bool want_grad=True";
  define(m, "epr", "Tensor logits, Tensor labels, float k", one, grad);
  define(m, "vlpl",
         "Tensor logits, Tensor labels, Tensor pseudo, float alpha, float beta_pos, float gamma_neg, float rho", one,
         grad);
  define(m, "gpr",
         "Tensor logits, Tensor labels, Tensor pseudo, float w, float b, float mu, float sigma, float q2, float q3, "
         "float lam_lo, float lam_hi, float rho, float eta, "
         "float m_pos",
         one, grad);
  define(m, "role", "Tensor logits, Tensor estimates, Tensor labels, float k",
         "Tensor gradient, Tensor gradient_estimates", "bool want_grad=True, bool want_estimates=True");
  define(m, "plc", "Tensor logits, Tensor strong, Tensor labels, float delta, float lam, float form",
         "Tensor gradient, Tensor gradient_strong", "bool want_grad=True, bool want_strong=True");
#define GOSPML_COMPOSITE(x) m.impl(#x, torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(x)));
  GOSPML_COMPOSITE(epr) GOSPML_COMPOSITE(vlpl) GOSPML_COMPOSITE(gpr) GOSPML_COMPOSITE(role) GOSPML_COMPOSITE(plc)
}

TORCH_LIBRARY_IMPL(spml, CPU, m) {
#define GOSPML_CPU_KERNEL(x) m.impl(#x "_fwd", TORCH_FN(x##_cpu));
  GOSPML_CPU_KERNEL(epr) GOSPML_CPU_KERNEL(vlpl) GOSPML_CPU_KERNEL(gpr) GOSPML_CPU_KERNEL(role) GOSPML_CPU_KERNEL(plc)
}

TORCH_LIBRARY_IMPL(spml, Meta, m) {
  m.impl("epr_fwd", [](const Tensor& z, const Tensor& y, double, double, int64_t, const OptionalTensor&, bool want) {
    check_logits("spml::epr", z);
    meta_shape("spml::epr", y, z);
    return meta_of(z, want);
  });
  m.impl("vlpl_fwd", [](const Tensor& z, const Tensor& y, const Tensor& l, double, double, double, double, double,
                        int64_t, const OptionalTensor&, bool want) {
    check_logits("spml::vlpl", z);
    meta_shape("spml::vlpl", y, z);
    meta_shape("spml::vlpl", l, z);
    return meta_of(z, want);
  });
  m.impl("gpr_fwd",
         [](const Tensor& z, const Tensor& y, const Tensor& l, double, double, double, double, double, double, double,
            double, double, double, double, double, int64_t, const OptionalTensor&, bool want) {
           check_logits("spml::gpr", z);
           meta_shape("spml::gpr", y, z);
           meta_shape("spml::gpr", l, z);
           return meta_of(z, want);
         });
  m.impl("role_fwd", [](const Tensor& z, const Tensor& u, const Tensor& y, double, double, int64_t,
                        const OptionalTensor&, bool want, bool want_u) {
    check_logits("spml::role", z);
    meta_shape("spml::role", u, z);
    meta_shape("spml::role", y, z);
    return meta_of(z, u, want || want_u);
  });
  m.impl("plc_fwd", [](const Tensor& z, const Tensor& s, const Tensor& y, double, double, double, double, int64_t,
                       const OptionalTensor&, bool want, bool want_s) {
    check_logits("spml::plc", z);
    meta_shape("spml::plc", s, z);
    meta_shape("spml::plc", y, z);
    return meta_of(z, s, want || want_s);
  });
}

TORCH_LIBRARY_IMPL(spml, Autograd, m) {
#define GOSPML_THROUGH(x) m.impl(#x "_fwd", torch::CppFunction::makeFallthrough());
  GOSPML_THROUGH(epr) GOSPML_THROUGH(vlpl) GOSPML_THROUGH(gpr) GOSPML_THROUGH(role) GOSPML_THROUGH(plc)
}

} // namespace
} // namespace spml
