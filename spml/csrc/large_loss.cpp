// Large-loss selection: spml::large_loss and spml::large_loss_fwd, see batchwise.cpp. marks [B, C] int8: 1 on entries
// that were modified, 2 on those that a permanent correction flips.
#include <torch/library.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "autograd.h"
#include "batch_pass.h"
#include "loss_math.h"

namespace spml {
namespace {

using at::Tensor;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

constexpr std::string_view kLargeLoss = "spml::large_loss";
constexpr double kBelow = -1e38; // of batch_math.h: cannot be selected

template <class T>
struct Candidate {
  T key; // NaN as +infinity
  int64_t at;
  // Largest first, ties by position.
  bool operator<(const Candidate& o) const { return key != o.key ? key > o.key : at < o.at; }
};

template <class T>
T plain(T key) {
  return key == key ? key : std::numeric_limits<T>::infinity();
}

template <class T>
class Selection {
 public:
  Selection(const Tensor& z, const Tensor& y, const Tensor& g, double eps, double scale, bool released, int64_t k)
      : z_(z), y_(y), k_(k), pass_{BATCHWISE_large, {z, y}, {g}, {eps, scale, static_cast<double>(released)}} {}

  // Gradient and sum of the unmodified terms; what is selected, best first up to k.
  double run(std::vector<Candidate<T>>& found) {
    const T nothing = static_cast<T>(kBelow) / 2;
    const T guess = sampled(nothing);
    double total = all(guess, found);
    if (guess > nothing && static_cast<int64_t>(found.size()) < k_) {
      found.clear();
      total = all(nothing, found);
    }
    return total;
  }

 private:
  // A key that about 1.5·k entries reach, from a sample of short runs.
  T sampled(T nothing) const {
    constexpr int64_t kRun = 32;
    const int64_t n = z_.numel(), runs = std::min<int64_t>(32, n / (16 * kRun)), m = runs * kRun;
    const int64_t want =
        static_cast<int64_t>(1.5 * static_cast<double>(m) * static_cast<double>(k_) / static_cast<double>(n)) + 4;
    if (runs == 0 || want >= m / 2) return nothing;
    T keys[32 * kRun];
    int32_t unused_at[32 * kRun];
    Sums unused{};
    Found every{-std::numeric_limits<double>::infinity(), keys, unused_at};
    for (int64_t i = 0; i < runs; i++) pass_.run(n / runs * i, n / runs * i + kRun, unused, &every);
    for (int64_t i = 0; i < m; i++) keys[i] = plain(keys[i]);
    std::nth_element(keys, keys + want, keys + m, [](T a, T b) { return a > b; });
    return std::max(keys[want], nothing);
  }

  double all(T least, std::vector<Candidate<T>>& found) const {
    const int64_t n = z_.numel(), chunks = (n + kChunk - 1) / kChunk;
    std::vector<std::vector<Candidate<T>>> each(chunks);
    const double total = sum_chunks(chunks, [&](int64_t c) {
      T keys[kBlock];
      int32_t at[kBlock];
      Sums s{};
      const int64_t end = std::min(n, (c + 1) * kChunk);
      for (int64_t i = c * kChunk; i < end; i += kBlock) {
        Found some{static_cast<double>(least), keys, at};
        pass_.run(i, std::min(end, i + kBlock), s, &some);
        for (int64_t k = 0; k < some.n; k++) each[c].push_back({plain(keys[k]), i + at[k]});
      }
      return s[0];
    });
    if (chunks == 1) {
      found = std::move(each[0]);
    } else {
      for (const auto& part : each) found.insert(found.end(), part.begin(), part.end());
    }
    return total;
  }

  const Tensor &z_, &y_;
  int64_t k_;
  Pass pass_;
};

double element(const Tensor& t, int64_t i) {
  const void* p = t.const_data_ptr();
  switch (t.scalar_type()) {
    case at::kDouble: return static_cast<const double*>(p)[i];
    case at::kFloat: return static_cast<const float*>(p)[i];
    case at::kHalf: return static_cast<const at::Half*>(p)[i];
    case at::kBFloat16: return static_cast<const at::BFloat16*>(p)[i];
    default: return static_cast<const int8_t*>(p)[i];
  }
}

void set_element(const Tensor& t, int64_t i, double x) {
  void* p = t.mutable_data_ptr();
  switch (t.scalar_type()) {
    case at::kDouble: static_cast<double*>(p)[i] = x; break;
    case at::kFloat: static_cast<float*>(p)[i] = static_cast<float>(x); break;
    default: static_cast<at::BFloat16*>(p)[i] = static_cast<at::BFloat16>(static_cast<float>(x));
  }
}

template <class T>
double modify(const Tensor& z, const Tensor& y, const Tensor& g, bool want, const Tensor& marks, int64_t k,
              bool correct, bool released, double eps, double scale) {
  std::vector<Candidate<T>> found;
  Selection<T> selection(z, y, g, eps, scale, released, k);
  double total = selection.run(found);
  const auto last = found.begin() + std::min<int64_t>(k, static_cast<int64_t>(found.size()));
  if (last == found.begin()) return total;
  std::nth_element(found.begin(), last - 1, found.end());
  const T least = (last - 1)->key;
  auto end = last;
  if (released)
    end = std::partition(last, found.end(),
                         [&](const Candidate<T>& c) { return c.key == least; }); // entries that tie with the k-th too
  for (auto c = found.begin(); c != end; ++c) {
    const double label = element(y, c->at);
    if (eps == 0 && label == 0 && c->key < std::numeric_limits<T>::infinity()) { // the key is softplus(z)
      if (correct)
        total -= element(z, c->at);
      else
        total -= c->key;
      if (want) set_element(g, c->at, correct ? -scale * std::exp(-c->key) : 0);
      if (marks.defined()) marks.mutable_data_ptr<int8_t>()[c->at] = released && !(c->key > least) ? 1 : 2;
      continue;
    }
    const CrossEntropy<T> ce(static_cast<T>(element(z, c->at)), static_cast<T>(eps), eps == 0);
    const bool positive = label == 1;
    total -= positive ? ce.pos : ce.neg;
    if (correct) total += positive ? ce.neg : ce.pos;
    if (want) set_element(g, c->at, (correct ? scale : 0) * (positive ? ce.dneg : ce.dpos)); // 0 but for NaN
    if (marks.defined()) marks.mutable_data_ptr<int8_t>()[c->at] = released && !(c->key > least) ? 1 : 2;
  }
  return total;
}

Three large_loss_cpu(const Tensor& logits, const Tensor& labels, int64_t k, bool correct, bool released, bool report,
                     double eps, int64_t reduction, bool want) {
  check_logits(kLargeLoss, logits);
  check_labels(kLargeLoss, "labels", labels, logits);
  TORCH_CHECK(k >= 0, kLargeLoss, ": k is ", k);
  const Tensor z = logits.contiguous(), y = plain_labels(labels, z);
  const double scale = scale_of(kLargeLoss, reduction, z.size(0), z.size(1));
  // The selection's pass always writes a gradient, wanted or not.
  Tensor g = at::detail::empty_cpu(z.sizes(), gradient_type(z));
  Tensor marks = report ? at::zeros(z.sizes(), at::kChar) : at::detail::empty_cpu({0}, at::kChar);
  const Tensor to = report ? marks : Tensor();
  k = std::min(k, z.numel());
  const double total = z.scalar_type() == at::kDouble
                           ? modify<double>(z, y, g, want, to, k, correct, released, eps, scale)
                           : modify<float>(z, y, g, want, to, k, correct, released, eps, scale);
  if (!want) g = at::detail::empty_cpu({0}, gradient_type(z));
  return {number(total * scale, wide_type(z)), std::move(g), std::move(marks)};
}

Two large_loss(const Tensor& z, const Tensor& y, int64_t k, bool correct, bool released, bool report, double eps,
               int64_t reduction) {
  static const auto fwd =
      c10::Dispatcher::singleton().findSchemaOrThrow("spml::large_loss_fwd", "").typed<decltype(large_loss_cpu)>();
  check_differentiable(kLargeLoss, z);
  check_constant(kLargeLoss, "labels", y);
  const bool want = wants_grad(z);
  Three out;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    out = fwd.call(z, y, k, correct, released, report, eps, reduction, want);
  }
  auto& [loss, g, marks] = out;
  return {want ? with_gradients(kLargeLoss, std::move(loss), {{z, std::move(g)}}) : loss, marks};
}

TORCH_LIBRARY_FRAGMENT(spml, m) {
  const std::string in =
      "(Tensor logits, Tensor labels, int k, bool correct, bool released, bool report, float log_eps=0., int "
      "reduction=1";
  m.def(("large_loss_fwd" + in + ", bool want_grad=True) -> (Tensor loss, Tensor gradient, Tensor marks)").c_str());
  m.def(("large_loss" + in + ") -> (Tensor loss, Tensor marks)").c_str());
  m.impl("large_loss", torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, TORCH_FN(large_loss)));
}

TORCH_LIBRARY_IMPL(spml, CPU, m) { m.impl("large_loss_fwd", TORCH_FN(large_loss_cpu)); }

TORCH_LIBRARY_IMPL(spml, Meta, m) {
  m.impl("large_loss_fwd",
         [](const Tensor& z, const Tensor& y, int64_t, bool, bool, bool report, double, int64_t, bool want) -> Three {
           check_logits(kLargeLoss, z);
           TORCH_CHECK(y.sym_sizes() == z.sym_sizes(), kLargeLoss, ": labels have shape ", y.sym_sizes(), ", logits ",
                       z.sym_sizes());
           const auto like = [&](at::ScalarType type, bool full) {
             return full ? at::empty_symint(z.sym_sizes(), z.options().dtype(type))
                         : at::empty({0}, z.options().dtype(type));
           };
           return {at::empty({}, z.options().dtype(wide_type(z))), like(gradient_type(z), want),
                   like(at::kChar, report)};
         });
}

TORCH_LIBRARY_IMPL(spml, Autograd, m) { m.impl("large_loss_fwd", torch::CppFunction::makeFallthrough()); }

} // namespace
} // namespace spml
