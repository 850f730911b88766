// From similarities to pseudo-labels: spml::vlpl_labels and spml::damp_labels, with their CPU kernels.
//
// A chunk of photos goes through one pass that stays in the cache: cosines over the temperature, libtorch's own softmax
// kernel, then aggregation, thresholds and selection. The softmax is libtorch's and the patches are added in their
// order, so that every score has the bits of the composed form in spml/label and no label can differ at a threshold or
// a tie.
#include <ATen/ops/_softmax_cpu_dispatch.h>
#include <torch/library.h>

#include <omp.h>

#include <cstring>
#include <exception>
#include <type_traits>
#include <vector>

#include "pseudo.h"

#if defined(__x86_64__)
#define GOSPML_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GOSPML_CLONES
#endif
#define GOSPML_INLINE [[gnu::always_inline]] inline

namespace spml {
namespace {

using at::Tensor;

template <class T>
using Order = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

// The lowest k of some keys: those below `at` and, in order of the classes, the first `ties` that equal it.
template <class K>
struct Cut {
  K at;
  int64_t ties;
};

template <class K>
GOSPML_INLINE int64_t count_up_to(const K* key, int64_t n, K most) {
  K sum = 0;
  for (int64_t i = 0; i < n; i++) sum += key[i] <= most;
  return sum;
}

// Bisects the values: each step is one count over all keys.
template <class K>
GOSPML_INLINE Cut<K> lowest(const K* key, int64_t n, int64_t k) {
  using U = std::make_unsigned_t<K>;
  K low = key[0], high = key[0];
  for (int64_t i = 1; i < n; i++) low = key[i] < low ? key[i] : low;
  for (int64_t i = 1; i < n; i++) high = key[i] > high ? key[i] : high;
  const K least = low;
  while (low < high) {
    const K middle = static_cast<K>(static_cast<U>(low) + (static_cast<U>(high) - static_cast<U>(low)) / 2);
    if (count_up_to(key, n, middle) >= k)
      high = middle;
    else
      low = middle + 1;
  }
  return {low, k - (low > least ? count_up_to(key, n, static_cast<K>(low - 1)) : 0)};
}

// Calls f(i) for the lowest k of n keys.
template <class K, class F>
GOSPML_INLINE void each_lowest(const K* key, int64_t n, int64_t k, const F& f) {
  if (k <= 0) return;
  Cut<K> cut = lowest(key, n, k);
  for (int64_t i = 0; i < n; i++)
    if (key[i] < cut.at || (key[i] == cut.at && cut.ties-- > 0)) f(i);
}

template <class T>
GOSPML_INLINE void scale(const T* __restrict in, T* __restrict out, int64_t n, T tau) {
  for (int64_t i = 0; i < n; i++) out[i] = in[i] / tau;
}

// Buffers of a thread.
template <class T>
struct Work {
  std::vector<Order<T>> key;
  std::vector<T> best, worst, mean;
  std::vector<int32_t> tile, free;
  explicit Work(int64_t c) : key(c), best(c), worst(c), mean(c), tile(c), free(c) {}
};

struct VlplNumbers {
  double theta;
  int64_t negatives;
};

// y: observed labels, or null where negatives take positives back.
template <class T, class L>
GOSPML_INLINE void vlpl_photo(const T* p, const L* y, int8_t* pseudo, Work<T>& w, int64_t c, const VlplNumbers& v) {
  const T theta = static_cast<T>(v.theta);
  for (int64_t i = 0; i < c; i++) pseudo[i] = p[i] > theta;
  if (v.negatives == 0) return;
  if (!y) {
    for (int64_t i = 0; i < c; i++) w.key[i] = order_of(p[i]);
    each_lowest(w.key.data(), c, v.negatives, [&](int64_t i) { pseudo[i] = -1; });
    return;
  }
  int64_t n = 0;
  for (int64_t i = 0; i < c; i++)
    if (!pseudo[i] && y[i] != 1) {
      w.free[n] = static_cast<int32_t>(i);
      w.key[n++] = order_of(p[i]);
    }
  each_lowest(w.key.data(), n, std::min(n, v.negatives), [&](int64_t i) { pseudo[w.free[i]] = -1; });
}

struct DampNumbers {
  double nu, zeta;
  int64_t top_k, negatives, form;
};

// A photo's rows of the results.
template <class T>
struct DampRow {
  int8_t *pseudo, *before;
  T *local, *agg, *final, *average, *global, *best;
  int64_t* tile;
};

// Best, worst and mean over r patches that lie `step` apart.
template <class T>
GOSPML_INLINE void over_patches(const T* patches, int64_t step, int64_t r, int64_t c, Work<T>& w) {
  T* __restrict best = w.best.data(), * __restrict worst = w.worst.data(), * __restrict sum = w.mean.data();
  int32_t* __restrict tile = w.tile.data();
  for (auto* to : {best, worst, sum}) std::memcpy(to, patches, c * sizeof(T));
  std::memset(tile, 0, c * sizeof(int32_t));
  for (int64_t v = 1; v < r; v++) {
    const T* __restrict p = patches + v * step;
    for (int64_t i = 0; i < c; i++) { // NaN stays, of equal ones the first
      const bool up = !(p[i] <= best[i]) & (best[i] == best[i]), down = !(p[i] >= worst[i]) & (worst[i] == worst[i]);
      best[i] = up ? p[i] : best[i];
      tile[i] = up ? static_cast<int32_t>(v) : tile[i];
      worst[i] = down ? p[i] : worst[i];
      sum[i] += p[i];
    }
  }
  const T n = static_cast<T>(r);
  for (int64_t i = 0; i < c; i++) sum[i] /= n;
}

// global and the patches are softmaxes, y the observed labels.
template <class T, class L>
GOSPML_INLINE void damp_photo(const T* global, const T* patches, int64_t step, int64_t r, const L* y,
                              const DampRow<T>& o, Work<T>& w, int64_t c, const DampNumbers& d) {
  over_patches(patches, step, r, c, w);
  int64_t seen = 0;
  for (int64_t i = 1; i < c; i++) seen = y[i] > y[seen] ? i : seen;
  const T nu = static_cast<T>(d.nu), zeta = static_cast<T>(d.zeta), half = static_cast<T>(0.5);
  const T local = global[seen] > nu ? nu : global[seen];
  *o.local = local;
  int64_t passing = 0, strange = 0;
  const bool strict = d.form == kDampCode;
  const T* __restrict best = w.best.data(), * __restrict worst = w.worst.data(), * __restrict mean = w.mean.data();
  const int32_t* __restrict tile = w.tile.data();
  for (int64_t i = 0; i < c; i++) {
    const bool high = strict ? best[i] > local : best[i] >= local;
    const T agg = high ? best[i] : worst[i], final = (global[i] + agg) * half;
    o.agg[i] = agg;
    o.final[i] = final;
    o.average[i] = (global[i] + mean[i]) * half;
    o.before[i] = final >= zeta;
    passing += final >= zeta;
    strange += final != final;
  }
  std::memcpy(o.global, global, c * sizeof(T));
  std::memcpy(o.best, best, c * sizeof(T));
  for (int64_t i = 0; i < c; i++) o.tile[i] = tile[i];
  if (passing + strange > d.top_k && passing > 0) { // more than k reach ζ: the best of them
    for (int64_t i = 0; i < c; i++) w.key[i] = ~order_of(o.final[i]);
    std::memset(o.before, 0, c);
    each_lowest(w.key.data(), c, std::min(c, d.top_k), [&](int64_t i) { o.before[i] = o.final[i] >= zeta; });
  }
  if (d.form == kDampPaper) return; // what follows is of all photos at once
  std::memcpy(o.pseudo, o.before, c);
  if (d.negatives == 0) return;
  for (int64_t i = 0; i < c; i++) w.key[i] = order_of(o.average[i]);
  const bool take = d.form != kDampDefault;
  const int8_t low = d.form == kDampCode ? 0 : -1;
  each_lowest(w.key.data(), c, d.negatives, [&](int64_t i) {
    if (take || (o.before[i] == 0 && y[i] != 1)) o.pseudo[i] = low;
  });
}

#define GOSPML_PHOTOS(T, L)                                                                                          \
  GOSPML_CLONES void vlpl_one(const T* p, const L* y, int8_t* pseudo, Work<T>& w, int64_t c, const VlplNumbers& v) { \
    vlpl_photo(p, y, pseudo, w, c, v);                                                                               \
  }                                                                                                                  \
  GOSPML_CLONES void damp_one(const T* global, const T* patches, int64_t step, int64_t r, const L* y,                \
                              const DampRow<T>& o, Work<T>& w, int64_t c, const DampNumbers& d) {                    \
    damp_photo(global, patches, step, r, y, o, w, c, d);                                                             \
  }
GOSPML_PHOTOS(float, int8_t)
GOSPML_PHOTOS(float, float)
GOSPML_PHOTOS(double, int8_t)
GOSPML_PHOTOS(double, double)
#undef GOSPML_PHOTOS

GOSPML_CLONES void scaled(const float* in, float* out, int64_t n, double tau) {
  scale(in, out, n, static_cast<float>(tau));
}
GOSPML_CLONES void scaled(const double* in, double* out, int64_t n, double tau) { scale(in, out, n, tau); }

// Softmaxes of a chunk: rows of cosines over the temperature, and libtorch's kernel.
template <class T>
class Softmax {
 public:
  Softmax(int64_t c, double tau, at::ScalarType type) : c_(c), tau_(tau), type_(type) {}
  void resize(int64_t rows) {
    if (in_.defined() && in_.size(0) == rows) return;
    in_ = at::detail::empty_cpu({rows, c_}, type_);
    out_ = at::detail::empty_cpu({rows, c_}, type_);
  }
  void rows(int64_t at, const T* cosines, int64_t n) {
    scaled(cosines, in_.mutable_data_ptr<T>() + at * c_, n * c_, tau_);
  }
  const T* run() {
    at::cpu::_softmax_out(out_, in_, 1, false);
    return out_.const_data_ptr<T>();
  }

 private:
  int64_t c_;
  double tau_;
  at::ScalarType type_;
  Tensor in_, out_;
};

// Photos of a chunk: their rows and softmaxes stay in a core's cache.
int64_t photos_of(int64_t numbers, size_t size) {
  return std::max<int64_t>(1, (int64_t{128} << 10) / (numbers * static_cast<int64_t>(size)));
}

// Keeps libtorch's kernels on this thread: waking another one costs more than the softmax of a photo.
struct OneThread {
  const int threads = omp_get_max_threads();
  OneThread() { omp_set_num_threads(1); }
  OneThread(const OneThread&) = delete;
  ~OneThread() { omp_set_num_threads(threads); }
};

// Calls f(state, from, to) for chunks of `each` photos on all threads of the caller; make() gives a thread its state.
// OpenMP by hand for the reason in parallel.h.
template <class Make, class F>
void chunks(int64_t photos, int64_t each, const Make& make, const F& f) {
  const int64_t n = (photos + each - 1) / each;
  const int threads = omp_in_parallel() ? 1 : static_cast<int>(std::min<int64_t>(omp_get_max_threads(), n));
  if (threads <= 1) {
    if (n == 0) return;
    const OneThread one;
    auto state = make();
    for (int64_t i = 0; i < n; i++) f(state, i * each, std::min(photos, (i + 1) * each));
    return;
  }
  std::exception_ptr failed;
#pragma omp parallel num_threads(threads)
  {
    try {
      auto state = make();
#pragma omp for schedule(dynamic)
      for (int64_t i = 0; i < n; i++) {
        try {
          f(state, i * each, std::min(photos, (i + 1) * each));
        } catch (...) {
#pragma omp critical(gospml_pseudo)
          failed = std::current_exception();
        }
      }
    } catch (...) {
#pragma omp critical(gospml_pseudo)
      failed = std::current_exception();
    }
  }
  if (failed) std::rethrow_exception(failed);
}

template <class T>
struct State {
  Softmax<T> softmax;
  Work<T> work;
};

template <class T, class L>
void vlpl(const Tensor& x, const Tensor& y, double tau, const VlplNumbers& v, const VlplLabels& out) {
  const int64_t b = x.size(0), c = x.size(1);
  const T* in = x.const_data_ptr<T>();
  const L* seen = y.defined() ? y.const_data_ptr<L>() : nullptr;
  int8_t* pseudo = std::get<0>(out).template mutable_data_ptr<int8_t>();
  T* similarity = std::get<1>(out).template mutable_data_ptr<T>();
  chunks(
      b, photos_of(c, sizeof(T)), [&] { return State<T>{{c, tau, x.scalar_type()}, Work<T>(c)}; },
      [&](State<T>& s, int64_t from, int64_t to) {
        s.softmax.resize(to - from);
        s.softmax.rows(0, in + from * c, to - from);
        const T* p = s.softmax.run();
        std::memcpy(similarity + from * c, p, (to - from) * c * sizeof(T));
        for (int64_t i = from; i < to; i++)
          vlpl_one(p + (i - from) * c, seen ? seen + i * c : nullptr, pseudo + i * c, s.work, c, v);
      });
}

template <class T, class L>
void damp(const Tensor& global, const Tensor& patches, const Tensor& y, double tau, const DampNumbers& d,
          const DampLabels& out) {
  const int64_t b = global.size(0), c = global.size(1), r = patches.size(0);
  const T *whole = global.const_data_ptr<T>(), *parts = patches.const_data_ptr<T>();
  const L* seen = y.const_data_ptr<L>();
  const auto& [labels, scores, local, tile] = out;
  const int64_t n = b * c;
  int8_t* marks = labels.template mutable_data_ptr<int8_t>();
  T* numbers = scores.template mutable_data_ptr<T>();
  const DampRow<T> first{marks,           marks + n,       local.template mutable_data_ptr<T>(),
                         numbers,         numbers + n,     numbers + 2 * n,
                         numbers + 3 * n, numbers + 4 * n, tile.template mutable_data_ptr<int64_t>()};
  chunks(
      b, photos_of((r + 1) * c, sizeof(T)), [&] { return State<T>{{c, tau, global.scalar_type()}, Work<T>(c)}; },
      [&](State<T>& s, int64_t from, int64_t to) {
        const int64_t n = to - from;
        s.softmax.resize((r + 1) * n);
        s.softmax.rows(0, whole + from * c, n);
        for (int64_t v = 0; v < r; v++) s.softmax.rows((v + 1) * n, parts + (v * b + from) * c, n);
        const T* p = s.softmax.run();
        for (int64_t i = 0; i < n; i++) {
          const int64_t at = (from + i) * c;
          const DampRow<T> o{first.pseudo + at, first.before + at, first.local + from + i,
                             first.agg + at,    first.final + at,  first.average + at,
                             first.global + at, first.best + at,   first.tile + at};
          damp_one(p + i * c, p + (n + i) * c, n * c, r, seen + at, o, s.work, c, d);
        }
      });
}

VlplLabels vlpl_labels_cpu(const Tensor& cosines, const std::optional<Tensor>& observed, double tau, double theta,
                           int64_t negatives) {
  check_vlpl(cosines, observed, tau, negatives);
  const Tensor x = cosines.contiguous();
  Tensor y;
  if (observed && observed->defined()) y = plain_observed(*observed, cosines);
  VlplLabels out = empty_vlpl(x);
  const VlplNumbers v{theta, negatives};
  const bool bytes = !y.defined() || y.scalar_type() == at::kChar;
  if (x.scalar_type() == at::kFloat)
    bytes ? vlpl<float, int8_t>(x, y, tau, v, out) : vlpl<float, float>(x, y, tau, v, out);
  else
    bytes ? vlpl<double, int8_t>(x, y, tau, v, out) : vlpl<double, double>(x, y, tau, v, out);
  return out;
}

DampLabels damp_labels_cpu(const Tensor& global, const Tensor& patches, const Tensor& observed, double tau, double nu,
                           int64_t top_k, double zeta, double negative, int64_t form) {
  check_damp(global, patches, observed, tau, top_k, negative, form);
  const Tensor x = global.contiguous(), p = patches.contiguous(), y = plain_observed(observed, global);
  DampLabels out = empty_damp(x);
  const DampNumbers d{nu, zeta, top_k, static_cast<int64_t>(negative * static_cast<double>(x.size(1))), form};
  const bool bytes = y.scalar_type() == at::kChar;
  if (x.scalar_type() == at::kFloat)
    bytes ? damp<float, int8_t>(x, p, y, tau, d, out) : damp<float, float>(x, p, y, tau, d, out);
  else
    bytes ? damp<double, int8_t>(x, p, y, tau, d, out) : damp<double, double>(x, p, y, tau, d, out);
  if (form == kDampPaper) below_quantile(out, negative);
  return out;
}

TORCH_LIBRARY_FRAGMENT(spml, m) {
  m.def(
      "vlpl_labels(Tensor cosines, Tensor? observed, float tau, float theta, int negatives) -> (Tensor pseudo, Tensor "
      "similarity)");
  m.def(
      "damp_labels(Tensor whole, Tensor patches, Tensor observed, float tau, float nu, int top_k, float zeta, float "
      "negative, int form) -> "
      "(Tensor labels, Tensor scores, Tensor local, Tensor tile)");
}

TORCH_LIBRARY_IMPL(spml, CPU, m) {
  m.impl("vlpl_labels", TORCH_FN(vlpl_labels_cpu));
  m.impl("damp_labels", TORCH_FN(damp_labels_cpu));
}

TORCH_LIBRARY_IMPL(spml, Meta, m) {
  m.impl("vlpl_labels",
         [](const Tensor& cosines, const std::optional<Tensor>& observed, double tau, double,
            int64_t negatives) -> VlplLabels {
           check_vlpl(cosines, observed, tau, negatives);
           return empty_vlpl(cosines);
         });
  m.impl("damp_labels",
         [](const Tensor& global, const Tensor& patches, const Tensor& observed, double tau, double, int64_t top_k,
            double, double negative, int64_t form) -> DampLabels {
           check_damp(global, patches, observed, tau, top_k, negative, form);
           return empty_damp(global);
         });
}

// Labels are constants: no gradient goes through them.
TORCH_LIBRARY_IMPL(spml, Autograd, m) {
  m.impl("vlpl_labels", torch::CppFunction::makeFallthrough());
  m.impl("damp_labels", torch::CppFunction::makeFallthrough());
}

} // namespace
} // namespace spml
