// The kernels of frozen networks over Lanes. Included last, in the anonymous namespace of frozen_*.cpp, which defines kHalf (pixels of half a
// tile), Number (of activations and weights), kPair (how many are multiplied and added at once), Factor (a vector of weights, or of a pixel), and
// on them broadcast, load_factor, multiply, load, store and store_some.
#pragma once

#define FN inline __attribute__((always_inline))

constexpr int W = sizeof(Lanes) / sizeof(float);
constexpr int kWide = 2; // vectors of a whole panel
constexpr int64_t kPanel = kWide * W;
constexpr int kTile = 2 * kHalf;

FN Lanes quick_gelu(Lanes x) { return x * reciprocal(Lanes(1.0) + exp_any(x * Lanes(-1.702))); }
FN Lanes gelu_tanh(Lanes x) {
  const Lanes u = x * fma(x * x, Lanes(0.044715 * 1.5957691216057308), 1.5957691216057308);
  return x * reciprocal(Lanes(1.0) + exp_any(-u));
}
// x/2·(1 + erf(x/√2)). erf by Abramowitz and Stegun 7.1.26 [1.5e-7].
FN Lanes gelu(Lanes x) {
  const Lanes z = absolute(x) * Lanes(0.7071067811865476), t = reciprocal(fma(z, Lanes(0.3275911), 1.0));
  Lanes p = fma(t, Lanes(1.061405429), -1.453152027);
  p = fma(p, t, 1.421413741);
  p = fma(p, t, -0.284496736);
  p = fma(p, t, 0.254829592);
  const Lanes rest = p * t * exp_any(-(z * z)); // 1 - erf(|x|/√2)
  const Lanes half = x * Lanes(0.5);
  return fma(-absolute(half), rest, half + absolute(half));
}

template <FrozenAct A>
FN Lanes activate(Lanes x, Lanes low, Lanes high) {
  if constexpr (A == FROZEN_CLAMP) return clamp_max(clamp_min(x, low), high);
  if constexpr (A == FROZEN_GELU) return gelu(x);
  if constexpr (A == FROZEN_GELU_TANH) return gelu_tanh(x);
  if constexpr (A == FROZEN_QUICK_GELU) return quick_gelu(x);
  return x;
}

template <class T>
FN Lanes load_some(const T* p, int64_t n) {
  Lanes v;
  if (n >= W) {
    load(p, v);
    return v;
  }
  T tail[W] = {};
  for (int64_t i = 0; i < n; i++) tail[i] = p[i];
  load(tail, v);
  return v;
}

template <class T>
FN void store_up_to(T* p, Lanes v, int64_t n) {
  if (n >= W)
    store(p, v);
  else
    store_some(p, v, n);
}

FN const Number* numbers(const char* p) { return reinterpret_cast<const Number*>(p); }
FN Number* numbers(char* p) { return reinterpret_cast<Number*>(p); }
FN int64_t paired(int64_t n) { return (n + kPair - 1) / kPair * kPair; }

// Keeps the compiler from making another pointer of each sum.
FN int64_t opaque(int64_t x) {
  asm("" : "+r"(x));
  return x;
}

// acc[i] += Σ a_i·w for the pixels of two halves, whose numbers are `step` apart; w moves on by runs·run rows of N vectors.
template <int N>
FN void accumulate(const Number* lo, const Number* hi, int64_t step, int64_t runs, int64_t run, int64_t run_step, const Number* w, Lanes (&acc)[kTile][N]) {
  int64_t at[kHalf];
  for (int i = 0; i < kHalf; i++) at[i] = i ? opaque(i * step) : 0;
  for (int64_t r = 0; r < runs; r++, lo += run_step, hi += run_step) {
    const Number *a = lo, *b = hi;
#pragma GCC unroll 1
    for (int64_t k = 0; k < run; k += kPair, a += kPair, b += kPair, w += N * W * kPair) {
      Factor v[N];
      for (int j = 0; j < N; j++) load_factor(w + j * W * kPair, v[j]);
#pragma GCC unroll 16
      for (int i = 0; i < kHalf; i++) {
        const Factor x = broadcast(a + at[i]);
        for (int j = 0; j < N; j++) acc[i][j] = multiply(x, v[j], acc[i][j]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kHalf; i++) {
        const Factor x = broadcast(b + at[i]);
        for (int j = 0; j < N; j++) acc[kHalf + i][j] = multiply(x, v[j], acc[kHalf + i][j]);
      }
    }
  }
}

// The pixels of a tile.
struct Pixels {
  const Number* in[2];
  Number* out[kTile];
  const Number* add[kTile];
  int count[2]; // that exist
};

FN void pixels_of_half(const FrozenConv& c, int64_t half, int side, Pixels& p) {
  const int64_t per_row = (c.width + kHalf - 1) / kHalf;
  int64_t image, y, x, left;
  if (c.flat) {
    const int64_t first = half * kHalf, size = c.height * c.width;
    left = c.images * size - first;
    image = first / size;
    y = first % size / c.width;
    x = first % c.width;
    p.in[side] = numbers(c.in.data) + first * c.in.pitch;
  } else {
    const int64_t row = half / per_row;
    image = row / c.height;
    y = row % c.height;
    x = half % per_row * kHalf;
    left = image < c.images ? c.width - x : 0;
    p.in[side] = numbers(c.in.data) + image * c.in.image + y * c.stride * c.in.row + x * c.stride * c.in.pitch;
  }
  const int n = left < 0 ? 0 : left < kHalf ? static_cast<int>(left) : kHalf;
  p.count[side] = n;
  if (n == 0) p.in[side] = p.in[0]; // an odd number of halves: the other one again
  for (int i = 0; i < n; i++) {
    p.out[side * kHalf + i] = numbers(c.out.data) + image * c.out.image + y * c.out.row + x * c.out.pitch;
    p.add[side * kHalf + i] = c.add.data ? numbers(c.add.data) + image * c.add.image + y * c.add.row + x * c.add.pitch : nullptr;
    if (++x == c.width) {
      x = 0;
      if (++y == c.height) {
        y = 0;
        image++;
      }
    }
  }
}

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
  accumulate<N>(p.in[0], p.in[1], step, c.runs, c.run, c.in.row, numbers(c.weights) + column * c.runs * paired(c.run), acc);
  finish<A, N>(c, p, column, acc);
}

template <FrozenAct A>
FN void panel(const FrozenConv& c, const Pixels& p, int64_t i) {
  const int64_t column = i * kPanel;
  if (c.columns - column <= W)
    tile<A, 1>(c, p, column);
  else
    tile<A, kWide>(c, p, column);
}

template <FrozenAct A>
void conv_as(const FrozenConv& c, int64_t first, int64_t last, int64_t from, int64_t to) {
  Pixels p;
  // What is larger stays where it is: the weights, while they fit a second-level cache, else the pixels.
  if ((to - from) * kPanel * c.runs * c.run * static_cast<int64_t>(sizeof(Number)) <= 384 * 1024) {
    for (int64_t pair = first; pair < last; pair++) {
      pixels_of_half(c, 2 * pair, 0, p);
      pixels_of_half(c, 2 * pair + 1, 1, p);
      for (int64_t i = from; i < to; i++) panel<A>(c, p, i);
    }
    return;
  }
  for (int64_t i = from; i < to; i++)
    for (int64_t pair = first; pair < last; pair++) {
      pixels_of_half(c, 2 * pair, 0, p);
      pixels_of_half(c, 2 * pair + 1, 1, p);
      panel<A>(c, p, i);
    }
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

// X pixels of a row, one vector of channels: each input is read once for all outputs that it touches.
template <int K, int S, int X>
FN void depthwise_block(const FrozenDepthwise& d, const Number* in, const float* w, const Lanes& bias, Lanes (&acc)[X]) {
#pragma GCC unroll 16
  for (int i = 0; i < X; i++) acc[i] = bias;
#pragma GCC unroll 1
  for (int r = 0; r < K; r++, in += d.in.row, w += K * d.padded) {
    Lanes v[K];
#pragma GCC unroll 8
    for (int k = 0; k < K; k++) load(w + k * d.padded, v[k]);
#pragma GCC unroll 32
    for (int j = 0; j < (X - 1) * S + K; j++) {
      Lanes x;
      load(in + j * d.in.pitch, x);
#pragma GCC unroll 8
      for (int k = 0; k < K; k++)
        if ((j - k) % S == 0 && j >= k && (j - k) / S < X) acc[(j - k) / S] = fma(x, v[k], acc[(j - k) / S]);
    }
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

constexpr int kStrip = W >= 16 ? 8 : 6; // outputs at once

template <int K, int S>
void depthwise_row(const FrozenDepthwise& d, const Number* in, Number* out) {
  for (int64_t c = 0; c < d.channels; c += W) {
    Lanes bias;
    load(d.bias + c, bias);
    int64_t x = 0;
    for (; x + kStrip <= d.width; x += kStrip) {
      Lanes acc[kStrip];
      depthwise_block<K, S, kStrip>(d, in + x * S * d.in.pitch + c, d.weights + c, bias, acc);
      depthwise_store<kStrip>(d, out + x * d.out.pitch + c, d.channels - c, acc);
    }
    for (; x < d.width; x++) {
      Lanes acc[1];
      depthwise_block<K, S, 1>(d, in + x * S * d.in.pitch + c, d.weights + c, bias, acc);
      depthwise_store<1>(d, out + x * d.out.pitch + c, d.channels - c, acc);
    }
  }
}

// Any kernel and stride.
void depthwise_plain(const FrozenDepthwise& d, const Number* in, Number* out) {
  for (int64_t c = 0; c < d.channels; c += W)
    for (int64_t x = 0; x < d.width; x++) {
      Lanes acc[1];
      load(d.bias + c, acc[0]);
      for (int64_t r = 0; r < d.kernel; r++)
        for (int64_t k = 0; k < d.kernel; k++) {
          Lanes v, w;
          load(in + r * d.in.row + (x * d.stride + k) * d.in.pitch + c, v);
          load(d.weights + (r * d.kernel + k) * d.padded + c, w);
          acc[0] = fma(v, w, acc[0]);
        }
      depthwise_store<1>(d, out + x * d.out.pitch + c, d.channels - c, acc);
    }
}

void depthwise(const FrozenDepthwise& d, int64_t image, int64_t y) {
  const Number* in = numbers(d.in.data) + image * d.in.image + y * d.stride * d.in.row;
  Number* out = numbers(d.out.data) + image * d.out.image + y * d.out.row;
  switch (d.kernel * 10 + d.stride) {
    case 31: return depthwise_row<3, 1>(d, in, out);
    case 32: return depthwise_row<3, 2>(d, in, out);
    case 71: return depthwise_row<7, 1>(d, in, out);
    default: return depthwise_plain(d, in, out);
  }
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
  for (i = 0; i < n; i += W) store_up_to(out + i, fma((load_some(in + i, n - i) - m) * by, load_some(gain + i, n - i), load_some(bias + i, n - i)), n - i);
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
FN void product(const Number* lo, const Number* hi, int64_t step, int64_t k, const Number* w, T* const* out, const int (&count)[2], int64_t left) {
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
__attribute__((noinline)) void product_any(const Number* lo, const Number* hi, int64_t step, int64_t k, const Number* w, T* const* out, const int (&count)[2], int64_t left) {
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
    pack(keys + c * paired(a.dim), a.dim, width - c < kPanel ? width - c : kPanel, [&](int64_t r, int64_t j) { return c + j < a.keys ? k[(c + j) * a.kv_pitch + r] : Number{}; });
  for (int64_t c = 0; c < dwidth; c += kPanel)
    pack(values + c * paired(a.keys), a.keys, dwidth - c < kPanel ? dwidth - c : kPanel, [&](int64_t r, int64_t j) { return c + j < a.dim ? v[r * a.kv_pitch + c + j] : Number{}; });
  constexpr int64_t kNarrower = sizeof(float) / sizeof(Number);
  for (int64_t first = 0; first < a.queries; first += kTile) {
    const int64_t left = a.queries - first;
    const int count[2] = {left < kHalf ? static_cast<int>(left) : kHalf, left <= kHalf ? 0 : left < kTile ? static_cast<int>(left - kHalf) : kHalf};
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

#define GOSPML_FROZEN_KERNELS {sizeof(Number), kPair, W, kHalf, kPanel, conv, depthwise, norm, attention, larger, mean, narrow, widen}
#undef FN
