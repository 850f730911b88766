// The loop of a pass over lanes V of numbers S. Included last, in the anonymous namespace of batch_*.cpp.
#pragma once

template <template <class> class F, int Inputs, int Outputs, int Sums, class V, class S, bool Out>
void pass(spml::BatchSpan& s) {
  constexpr int W = sizeof(V) / sizeof(S), kFlush = 32;
  const F<V> f(s.params);
  const S* in[3] = {static_cast<const S*>(s.in[0]), static_cast<const S*>(s.in[1]), static_cast<const S*>(s.in[2])};
  S* out[2] = {static_cast<S*>(s.out[0]), static_cast<S*>(s.out[1])};
  double total[3] = {};
  int64_t i = 0;
  const int64_t whole = s.n - s.n % W;
  while (i < whole) {
    const int64_t end = whole - i < kFlush * W ? whole : i + kFlush * W;
    V sum[3] = {V(0), V(0), V(0)};
    for (; i < end; i += W) {
      V x[3], g[2];
      for (int k = 0; k < Inputs; k++) load(in[k] + i, x[k]);
      f(x, g, sum);
      if constexpr (Out)
        for (int k = 0; k < Outputs; k++) store(out[k] + i, g[k]);
    }
    for (int k = 0; k < Sums; k++) total[k] += total_of(sum[k]);
  }
  if (i < s.n) { // lanes beyond the end compute something that is not used
    S tail[3][W] = {};
    const int n = static_cast<int>(s.n - i);
    V x[3], g[2], sum[3] = {V(0), V(0), V(0)};
    for (int k = 0; k < Inputs; k++) {
      for (int j = 0; j < n; j++) tail[k][j] = in[k][i + j];
      load(tail[k], x[k]);
    }
    f(x, g, sum);
    for (int k = 0; k < Sums; k++) {
      store(tail[0], sum[k]);
      for (int j = 0; j < n; j++) total[k] += tail[0][j];
    }
    if constexpr (Out)
      for (int k = 0; k < Outputs; k++) {
        store(tail[0], g[k]);
        for (int j = 0; j < n; j++) out[k][i + j] = tail[0][j];
      }
  }
  for (int k = 0; k < 3; k++) s.sums[k] = total[k];
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

#define GOSPML_PASS(name, F, inputs, outputs, sums) \
  {pass<F, inputs, outputs, sums, Lanes, float, false>, pass<F, inputs, outputs, sums, Lanes, float, true>},
#define GOSPML_BATCH_KERNELS(NAME) {NAME, {GOSPML_BATCHWISE(GOSPML_PASS)}, exp_row<Lanes, float>}
