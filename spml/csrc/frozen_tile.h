// What the kernels of frozen networks have in common over numbers of any kind. Included by frozen_loop.h and
// frozen_int8.cpp, in the anonymous namespace of frozen_*.cpp, which defines kHalf (pixels of half a tile), Number (of
// activations and weights), kPair (how many are multiplied and added at once), Factor (a vector of weights, or of a
// pixel), and on them broadcast, load_factor, multiply and load.
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

// acc[i] += Σ a_i·w for the pixels of two halves, whose numbers are `step` apart; w moves on by runs·run rows of N
// vectors.
template <int N>
FN void accumulate(const Number* lo, const Number* hi, int64_t step, int64_t runs, int64_t run, int64_t run_step,
                   const Number* w, Lanes (&acc)[kTile][N]) {
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
template <class Out, class Add>
struct PixelsOf {
  const Number* in[2];
  Out* out[kTile];
  const Add* add[kTile];
  int count[2]; // that exist
};

template <class Out, class Add>
FN void pixels_of_half(const FrozenConv& c, int64_t half, int side, PixelsOf<Out, Add>& p) {
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
    p.out[side * kHalf + i] =
        reinterpret_cast<Out*>(c.out.data) + image * c.out.image + y * c.out.row + x * c.out.pitch;
    p.add[side * kHalf + i] =
        c.add.data ? reinterpret_cast<const Add*>(c.add.data) + image * c.add.image + y * c.add.row + x * c.add.pitch
                   : nullptr;
    if (++x == c.width) {
      x = 0;
      if (++y == c.height) {
        y = 0;
        image++;
      }
    }
  }
}

// Calls panel(pixels, its first column) for the tiles of pairs of halves and panels.
template <class Pixels, class F>
FN void each_tile(const FrozenConv& c, int64_t first, int64_t last, int64_t from, int64_t to, const F& panel) {
  Pixels p;
  // What is larger stays where it is: the weights, while they fit a second-level cache, else the pixels.
  if ((to - from) * kPanel * c.runs * c.run * static_cast<int64_t>(sizeof(Number)) <= 384 * 1024) {
    for (int64_t pair = first; pair < last; pair++) {
      pixels_of_half(c, 2 * pair, 0, p);
      pixels_of_half(c, 2 * pair + 1, 1, p);
      for (int64_t i = from; i < to; i++) panel(p, i * kPanel);
    }
    return;
  }
  for (int64_t i = from; i < to; i++)
    for (int64_t pair = first; pair < last; pair++) {
      pixels_of_half(c, 2 * pair, 0, p);
      pixels_of_half(c, 2 * pair + 1, 1, p);
      panel(p, i * kPanel);
    }
}

// X pixels of a row, one vector of channels: each input is read once for all outputs that it touches.
template <int K, int S, int X>
FN void depthwise_block(const FrozenDepthwise& d, const Number* in, const float* w, const Lanes& bias,
                        Lanes (&acc)[X]) {
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

constexpr int kStrip = W >= 16 ? 8 : 6; // outputs at once

// give(x, channel, sums) takes the sums of a vector of channels of the pixels from x on.
template <int K, int S, class F>
FN void depthwise_row(const FrozenDepthwise& d, const Number* in, const F& give) {
  for (int64_t c = 0; c < d.channels; c += W) {
    Lanes bias;
    load(d.bias + c, bias);
    int64_t x = 0;
    for (; x + kStrip <= d.width; x += kStrip) {
      Lanes acc[kStrip];
      depthwise_block<K, S, kStrip>(d, in + x * S * d.in.pitch + c, d.weights + c, bias, acc);
      give(x, c, acc);
    }
    for (; x < d.width; x++) {
      Lanes acc[1];
      depthwise_block<K, S, 1>(d, in + x * S * d.in.pitch + c, d.weights + c, bias, acc);
      give(x, c, acc);
    }
  }
}

// Any kernel and stride.
template <class F>
FN void depthwise_plain(const FrozenDepthwise& d, const Number* in, const F& give) {
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
      give(x, c, acc);
    }
}

template <class F>
void depthwise_any(const FrozenDepthwise& d, int64_t image, int64_t y, const F& give) {
  const Number* in = numbers(d.in.data) + image * d.in.image + y * d.stride * d.in.row;
  switch (d.kernel * 10 + d.stride) {
    case 31: return depthwise_row<3, 1>(d, in, give);
    case 32: return depthwise_row<3, 2>(d, in, give);
    case 71: return depthwise_row<7, 1>(d, in, give);
    default: return depthwise_plain(d, in, give);
  }
}

#undef FN
