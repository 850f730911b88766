// The loop of a pass over lanes V of numbers S, labels of type Y (S or int8). Included last, in the anonymous namespace
// of batch_*.cpp.
#pragma once

// Appends the keys that are not below least.
template <class V, class S>
GOSPML_FN void collect(spml::BatchSpan& s, V key, V least, int64_t i, int n) {
  unsigned bits = reach(key, least);
  if (!bits) return;
  S all[sizeof(V) / sizeof(S)];
  store(all, key);
  for (; bits; bits &= bits - 1) {
    const int k = __builtin_ctz(bits);
    if (k >= n) break;
    static_cast<S*>(s.keys)[s.found] = all[k];
    s.at[s.found++] = static_cast<int32_t>(i) + k;
  }
}

template <template <class> class F, int Inputs, int Outputs, int Sums, class V, class S, class Y, bool Out>
void pass(spml::BatchSpan& s) {
  with_constants(F<V>(s.params), [&](const F<V>& f) __attribute__((always_inline)) {
    constexpr int W = sizeof(V) / sizeof(S), kFlush = 32, kLogits = F<V>::logits;
    constexpr bool kKept = F<V>::kept && Out, kSelects = F<V>::selects && Out;
    constexpr int kStored = kSelects ? Outputs - 1 : Outputs;
    const V least(kSelects ? s.least : 0);
    double total[3] = {};
    int64_t i = 0;
    const int64_t whole = s.n - s.n % W;
    while (i < whole) {
      const int64_t end = whole - i < kFlush * W ? whole : i + kFlush * W;
      V sum[3] = {V(0), V(0), V(0)};
      for (; i < end; i += W) {
        V x[3], g[2];
        for (int k = 0; k < kLogits; k++) load(static_cast<const S*>(s.in[k]) + i, x[k]);
        for (int k = kLogits; k < Inputs; k++) load(static_cast<const Y*>(s.in[k]) + i, x[k]);
        if constexpr (kKept)
          for (int k = 0; k < Outputs; k++) load(static_cast<const S*>(s.out[k]) + i, g[k]);
        f(x, g, sum);
        if constexpr (Out)
          for (int k = 0; k < kStored; k++) store(static_cast<S*>(s.out[k]) + i, g[k]);
        if constexpr (kSelects) collect<V, S>(s, g[kStored], least, i, W);
      }
      for (int k = 0; k < Sums; k++) total[k] += total_of(sum[k]);
    }
    if (i < s.n) { // lanes beyond the end compute something that is not used
      S tail[W] = {};
      Y labels[W] = {};
      const int n = static_cast<int>(s.n - i);
      V x[3], g[2], sum[3] = {V(0), V(0), V(0)};
      const auto take = [&](const S* p, V& to) {
        for (int j = 0; j < n; j++) tail[j] = p[i + j];
        load(tail, to);
      };
      for (int k = 0; k < kLogits; k++) take(static_cast<const S*>(s.in[k]), x[k]);
      for (int k = kLogits; k < Inputs; k++) {
        for (int j = 0; j < n; j++) labels[j] = static_cast<const Y*>(s.in[k])[i + j];
        load(labels, x[k]);
      }
      if constexpr (kKept)
        for (int k = 0; k < Outputs; k++) take(static_cast<const S*>(s.out[k]), g[k]);
      f(x, g, sum);
      for (int k = 0; k < Sums; k++) {
        store(tail, sum[k]);
        for (int j = 0; j < n; j++) total[k] += tail[j];
      }
      if constexpr (Out)
        for (int k = 0; k < kStored; k++) {
          store(tail, g[k]);
          for (int j = 0; j < n; j++) static_cast<S*>(s.out[k])[i + j] = tail[j];
        }
      if constexpr (kSelects) collect<V, S>(s, g[kStored], least, i, n);
    }
    for (int k = 0; k < 3; k++) s.sums[k] = total[k];
  });
}

template <class V, class S>
double exp_row(S* x, int64_t n, double top) {
  constexpr int W = sizeof(V) / sizeof(S);
  const V shift(top);
  double total = 0;
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    V v;
    load(x + i, v);
    v = exp_any(v - shift);
    store(x + i, v);
    total += total_of(v);
  }
  if (i < n) {
    S tail[W] = {};
    for (int64_t k = 0; k < n - i; k++) tail[k] = x[i + k];
    V v;
    load(tail, v);
    v = exp_any(v - shift);
    store(tail, v);
    for (int64_t k = 0; k < n - i; k++) {
      x[i + k] = tail[k];
      total += tail[k];
    }
  }
  return total;
}

#define GOSPML_PASS_OF(V, S, F, inputs, outputs, sums)                                              \
  {{pass<F, inputs, outputs, sums, V, S, S, false>, pass<F, inputs, outputs, sums, V, S, S, true>}, \
   {pass<F, inputs, outputs, sums, V, S, int8_t, false>, pass<F, inputs, outputs, sums, V, S, int8_t, true>}},
// A pass that reads what its outputs hold has no form without them.
#define GOSPML_KEPT_PASS_OF(V, S, F, inputs, outputs, sums)  \
  {{nullptr, pass<F, inputs, outputs, sums, V, S, S, true>}, \
   {nullptr, pass<F, inputs, outputs, sums, V, S, int8_t, true>}},
#define GOSPML_PASS(name, F, inputs, outputs, sums) GOSPML_PASS_OF(Lanes, float, F, inputs, outputs, sums)
#define GOSPML_KEPT_PASS(name, F, inputs, outputs, sums) GOSPML_KEPT_PASS_OF(Lanes, float, F, inputs, outputs, sums)
#define GOSPML_BATCH_KERNELS(NAME) \
  {NAME, {GOSPML_BATCHWISE(GOSPML_PASS) GOSPML_KEPT(GOSPML_KEPT_PASS)}, exp_row<Lanes, float>}
