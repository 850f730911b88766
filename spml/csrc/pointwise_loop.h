// The loop of a pointwise kernel over lanes V of numbers S, labels of type Y (S or int8). Included after lanes_*.h and
// loss_math.h, in the same anonymous namespace.
#pragma once

GOSPML_FN void load(const double* p, double& x) { x = *p; }
GOSPML_FN void load(const int8_t* p, double& x) { x = *p; }
GOSPML_FN void store(double* p, double x) { *p = x; }
GOSPML_FN double total_of(double x) { return x; }

// Terms are added in lanes for this many vectors, then in double.
constexpr int kFlush = 32;

template <template <class> class F, int Labels, class V>
GOSPML_FN Term<V> term(const F<V>& f, V z, V y, V w) {
  if constexpr (Labels == 2)
    return f(z, y, w);
  else
    return f(z, y);
}

template <template <class> class F, int Labels, class V, class S, class Y, bool Grad>
double loop(const spml::Span& s) {
  return with_constants(F<V>(s.params), [&](const F<V>& f) __attribute__((always_inline)) {
    constexpr int W = sizeof(V) / sizeof(S);
    const V scale(s.scale);
    const S* z = static_cast<const S*>(s.z);
    const Y* y = static_cast<const Y*>(s.y);
    const Y* w = static_cast<const Y*>(s.w);
    S* g = static_cast<S*>(s.g);
    double total = 0;
    int64_t i = 0;
    const int64_t whole = s.n - s.n % W;
    while (i < whole) {
      const int64_t end = whole - i < kFlush * W ? whole : i + kFlush * W;
      V sum(0);
      for (; i < end; i += W) {
        V zi, yi, wi(0);
        load(z + i, zi);
        load(y + i, yi);
        if constexpr (Labels == 2) load(w + i, wi);
        const auto t = term<F, Labels, V>(f, zi, yi, wi);
        sum = sum + t.value;
        if constexpr (Grad) store(g + i, t.grad * scale);
      }
      total += total_of(sum);
    }
    if (i < s.n) {
      S tail[2][W] = {}, value[W];
      Y labels[2][W] = {};
      const int n = static_cast<int>(s.n - i);
      for (int k = 0; k < n; k++) {
        tail[0][k] = z[i + k];
        labels[0][k] = y[i + k];
        if constexpr (Labels == 2) labels[1][k] = w[i + k];
      }
      V zi, yi, wi;
      load(tail[0], zi);
      load(labels[0], yi);
      load(labels[1], wi);
      const auto t = term<F, Labels, V>(f, zi, yi, wi);
      store(value, t.value);
      if constexpr (Grad) store(tail[1], t.grad * scale);
      for (int k = 0; k < n; k++) {
        total += value[k];
        if constexpr (Grad) g[i + k] = tail[1][k];
      }
    }
    return total;
  });
}
