// The kernels of frozen networks over Lanes, whose numbers are floats or bfloat16; frozen_tile.h says what the
// including file defines, and beside that store and store_some.
#pragma once

#include "frozen_tile.h"

#define FN inline __attribute__((always_inline))

using Pixels = PixelsOf<Number, Number>;

template <FrozenAct A, int N>
FN void finish(const FrozenConv& c, const Pixels& p, int64_t column, const Lanes (&acc)[kTile][N]) {
  const Lanes low(static_cast<double>(c.low)), high(static_cast<double>(c.high));
  const int64_t left = c.columns - column;
  // Fully unrolled, so that the sums stay in their registers.
#pragma GCC unroll 16
  for (int i = 0; i < kTile; i++) {
    if (i % kHalf >= p.count[i / kHalf]) continue;
#pragma GCC unroll 4
    for (int j = 0; j < N; j++) {
      Lanes v = acc[i][j];
      const int64_t n = left - j * W;
      if (n <= 0) continue;
      if (p.add[i]) v = v + load_some(p.add[i] + column + j * W, n);
      store_up_to(p.out[i] + column + j * W, activate<A>(v, low, high), n);
    }
  }
}

template <FrozenAct A, int N>
__attribute__((noinline)) void tile(const FrozenConv& c, const Pixels& p, int64_t column) {
  Lanes acc[kTile][N];
  for (int j = 0; j < N; j++) {
    Lanes b;
    load(c.bias + column + j * W, b);
#pragma GCC unroll 16
    for (int i = 0; i < kTile; i++) acc[i][j] = b;
  }
  const int64_t step = c.flat ? c.in.pitch : c.in.pitch * c.stride;
  accumulate<N>(p.in[0], p.in[1], step, c.runs, c.run, c.in.row, numbers(c.weights) + column * c.runs * paired(c.run),
                acc);
  finish<A, N>(c, p, column, acc);
}

template <FrozenAct A>
void conv_as(const FrozenConv& c, int64_t first, int64_t last, int64_t from, int64_t to) {
  each_tile<Pixels>(c, first, last, from, to, [&](const Pixels& p, int64_t column) __attribute__((always_inline)) {
    if (c.columns - column <= W)
      tile<A, 1>(c, p, column);
    else
      tile<A, kWide>(c, p, column);
  });
}

void conv(const FrozenConv& c, int64_t first, int64_t last, int64_t from, int64_t to) {
  switch (c.act) {
    case FROZEN_CLAMP: return conv_as<FROZEN_CLAMP>(c, first, last, from, to);
    case FROZEN_GELU: return conv_as<FROZEN_GELU>(c, first, last, from, to);
    case FROZEN_GELU_TANH: return conv_as<FROZEN_GELU_TANH>(c, first, last, from, to);
    case FROZEN_QUICK_GELU: return conv_as<FROZEN_QUICK_GELU>(c, first, last, from, to);
    default: return conv_as<FROZEN_NONE>(c, first, last, from, to);
  }
}

template <int X>
FN void depthwise_store(const FrozenDepthwise& d, Number* out, int64_t left, const Lanes (&acc)[X]) {
  const Lanes low(static_cast<double>(d.low)), high(static_cast<double>(d.high));
#pragma GCC unroll 16
  for (int i = 0; i < X; i++) {
    const Lanes v = d.act == FROZEN_CLAMP ? activate<FROZEN_CLAMP>(acc[i], low, high) : acc[i];
    store_up_to(out + i * d.out.pitch, v, left);
  }
}

void depthwise(const FrozenDepthwise& d, int64_t image, int64_t y) {
  Number* out = numbers(d.out.data) + image * d.out.image + y * d.out.row;
  depthwise_any(d, image, y, [&](int64_t x, int64_t c, const auto& acc) __attribute__((always_inline)) {
    depthwise_store(d, out + x * d.out.pitch + c, d.channels - c, acc);
  });
}

// (x - mean)/√(variance + eps)·gain + bias.
void norm(const char* from, char* to, int64_t n, const float* gain, const float* bias, float eps) {
  const Number* in = numbers(from);
  Number* out = numbers(to);
  Lanes sum(0.0);
  for (int64_t i = 0; i < n; i += W) sum = sum + load_some(in + i, n - i);
  const double mean = total_of(sum) / static_cast<double>(n);
  const Lanes m(mean);
  Lanes squares(0.0);
  int64_t i = 0;
  for (; i + W <= n; i += W) {
    Lanes v;
    load(in + i, v);
    v = v - m;
    squares = fma(v, v, squares);
  }
  double total = total_of(squares);
  if (i < n) {
    float tail[W];
    store(tail, load_some(in + i, n - i) - m);
    for (int64_t k = 0; k < n - i; k++) total += static_cast<double>(tail[k]) * tail[k];
  }
  const Lanes by(1.0 / __builtin_sqrt(total / static_cast<double>(n) + static_cast<double>(eps)));
  for (i = 0; i < n; i += W)
    store_up_to(out + i,
                fma((load_some(in + i, n - i) - m) * by, load_some(gain + i, n - i), load_some(bias + i, n - i)),
                n - i);
}

// Weights of e^(x·scale) that add up to 1, of n floats, as numbers in their place; those up to `width` become 0.
FN void softmax(float* x, int64_t n, int64_t width, float scale) {
  float top = x[0];
  for (int64_t i = 1; i < n; i++) top = x[i] > top ? x[i] : top;
  const Lanes s(static_cast<double>(scale)), shift(-static_cast<double>(scale) * static_cast<double>(top));
  for (int64_t i = n; i < width; i++) x[i] = 0;
  double total = 0;
  int64_t i = 0;
  Lanes sum(0.0);
  for (; i + W <= n; i += W) {
    Lanes v;
    load(x + i, v);
    v = exp_any(fma(v, s, shift));
    store(x + i, v);
    sum = sum + v;
  }
  if (i < n) {
    float tail[W];
    store(tail, exp_any(fma(load_some(x + i, n - i), s, shift)));
    for (int64_t k = 0; k < n - i; k++) {
      x[i + k] = tail[k];
      total += tail[k];
    }
  }
  total += total_of(sum);
  const Lanes by(1.0 / total);
  Number* out = reinterpret_cast<Number*>(x);
  for (i = 0; i + W <= width; i += W) { // a panel is whole vectors
    Lanes v;
    load(x + i, v);
    store(out + i, v * by);
  }
}

// rows [kTile][left] = left factor · panels, without bias.
template <int N, class T>
FN void product(const Number* lo, const Number* hi, int64_t step, int64_t k, const Number* w, T* const* out,
                const int (&count)[2], int64_t left) {
  Lanes acc[kTile][N];
#pragma GCC unroll 16
  for (int i = 0; i < kTile; i++)
    for (int j = 0; j < N; j++) acc[i][j] = Lanes(0.0);
  accumulate<N>(lo, hi, step, 1, k, 0, w, acc);
#pragma GCC unroll 16
  for (int i = 0; i < kTile; i++) {
    if (i % kHalf >= count[i / kHalf]) continue;
#pragma GCC unroll 4
    for (int j = 0; j < N; j++)
      if (left > j * W) store_up_to(out[i] + j * W, acc[i][j], left - j * W);
  }
}

template <class T>
__attribute__((noinline)) void product_any(const Number* lo, const Number* hi, int64_t step, int64_t k, const Number* w,
                                           T* const* out, const int (&count)[2], int64_t left) {
  if (left <= W)
    product<1>(lo, hi, step, k, w, out, count, left);
  else
    product<kWide>(lo, hi, step, k, w, out, count, left);
}

FN int64_t panels_of(int64_t columns) {
  const int64_t rest = columns % kPanel;
  return columns - rest + (rest == 0 ? 0 : rest <= W ? W : kPanel);
}

// A panel of n columns from the matrix that `at(row, column)` gives, rows by pairs with zeros behind.
template <class F>
FN void pack(Number* to, int64_t rows, int64_t n, const F& at) {
  for (int64_t r = 0; r < paired(rows); r++)
    for (int64_t j = 0; j < n; j++) to[(r / kPair * n + j) * kPair + r % kPair] = r < rows ? at(r, j) : Number{};
}

void attention(const FrozenAttention& a) {
  const int64_t width = panels_of(a.keys), dwidth = panels_of(a.dim);
  const Number *q = numbers(a.q), *k = numbers(a.k), *v = numbers(a.v);
  Number* out = numbers(a.out);
  float* scores = a.scratch;
  Number *keys = reinterpret_cast<Number*>(scores + kTile * width), *values = keys + width * paired(a.dim);
  for (int64_t c = 0; c < width; c += kPanel)
    pack(keys + c * paired(a.dim), a.dim, width - c < kPanel ? width - c : kPanel,
         [&](int64_t r, int64_t j) { return c + j < a.keys ? k[(c + j) * a.kv_pitch + r] : Number{}; });
  for (int64_t c = 0; c < dwidth; c += kPanel)
    pack(values + c * paired(a.keys), a.keys, dwidth - c < kPanel ? dwidth - c : kPanel,
         [&](int64_t r, int64_t j) { return c + j < a.dim ? v[r * a.kv_pitch + c + j] : Number{}; });
  constexpr int64_t kNarrower = sizeof(float) / sizeof(Number);
  for (int64_t first = 0; first < a.queries; first += kTile) {
    const int64_t left = a.queries - first;
    const int count[2] = {left < kHalf ? static_cast<int>(left) : kHalf, left <= kHalf  ? 0
                                                                         : left < kTile ? static_cast<int>(left - kHalf)
                                                                                        : kHalf};
    const Number *lo = q + first * a.q_pitch, *hi = count[1] ? lo + kHalf * a.q_pitch : lo;
    float* rows[kTile];
    for (int64_t c = 0; c < width; c += kPanel) {
      for (int i = 0; i < kTile; i++) rows[i] = scores + i * width + c;
      product_any(lo, hi, a.q_pitch, a.dim, keys + c * paired(a.dim), rows, count, width - c);
    }
    for (int i = 0; i < kTile; i++)
      if (i % kHalf < count[i / kHalf]) softmax(scores + i * width, a.keys, width, a.scale);
    const Number* weights = reinterpret_cast<const Number*>(scores);
    const int64_t step = width * kNarrower;
    Number* to[kTile];
    for (int64_t c = 0; c < a.dim; c += kPanel) {
      for (int i = 0; i < kTile; i++) to[i] = out + (first + i) * a.out_pitch + c;
      product_any(weights, weights + kHalf * step, step, a.keys, values + c * paired(a.keys), to, count, a.dim - c);
    }
  }
}

void larger(const char* from, char* to, int64_t n) {
  const Number* in = numbers(from);
  Number* out = numbers(to);
  for (int64_t i = 0; i < n; i += W) {
    const Lanes x = load_some(in + i, n - i), m = load_some(out + i, n - i);
    store_up_to(out + i, select(x > m, x, select(x == x, m, x)), n - i);
  }
}

void mean(const FrozenView& in, int64_t height, int64_t width, int64_t n, char* to) {
  const Number* data = numbers(in.data);
  Number* out = numbers(to);
  const Lanes by(1.0 / static_cast<double>(height * width));
  for (int64_t c = 0; c < n; c += W) {
    Lanes sum(0.0);
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++) sum = sum + load_some(data + y * in.row + x * in.pitch + c, n - c);
    store_up_to(out + c, sum * by, n - c);
  }
}

void narrow(const float* in, char* to, int64_t n) {
  Number* out = numbers(to);
  for (int64_t i = 0; i < n; i += W) store_up_to(out + i, load_some(in + i, n - i), n - i);
}

void widen(const char* from, float* out, int64_t n) {
  const Number* in = numbers(from);
  for (int64_t i = 0; i < n; i += W) store_up_to(out + i, load_some(in + i, n - i), n - i);
}

#define GOSPML_FROZEN_KERNELS \
  {sizeof(Number), kPair, W, kHalf, kPanel, conv, depthwise, norm, attention, larger, mean, narrow, widen, nullptr}
#undef FN
