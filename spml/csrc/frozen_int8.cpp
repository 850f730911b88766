// Frozen networks in int8 for processors that multiply it (AVX512_VNNI): activations are unsigned, weights signed, sums
// int32.
#include <stdint.h>

#include "frozen_kernels.h"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace {
using namespace spml;
#include "lanes_avx512.h"
#include "lanes_math.h"
#define FN inline __attribute__((always_inline))
using Number = uint8_t;
using Factor = __m512i;
constexpr int kPair = 4;
constexpr int kHalf = 7; // as in frozen_avx512.cpp
FN Factor broadcast(const uint8_t* p) {
  int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return _mm512_set1_epi32(four);
}
FN void load_factor(const uint8_t* p, Factor& x) { x = _mm512_loadu_si512(p); }
// c are the bits of int32 sums.
FN Lanes multiply(Factor a, Factor b, Lanes c) {
  return _mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(c.v), a, b));
}
FN void load(const uint8_t* p, Lanes& x) {
  x.v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
FN void store_some(float* p, Lanes x, int64_t n) {
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v);
}
#undef FN
#include "frozen_tile.h"
#define FN inline __attribute__((always_inline))

FN __mmask16 first(int64_t n) { return static_cast<__mmask16>(n >= W ? 0xffff : (1u << n) - 1); }
FN Lanes take(const uint8_t* p, int64_t n) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(n), p)));
}
FN Lanes take(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first(n), p); }
// x is not below 0; what is above 255 becomes that.
FN void put(uint8_t* p, Lanes x, int64_t n) {
  _mm512_mask_cvtusepi32_storeu_epi8(p, first(n), _mm512_cvtps_epi32(x.v));
}
FN void put(float* p, Lanes x, int64_t n) { _mm512_mask_storeu_ps(p, first(n), x.v); }

// The output from v = sum·factor + shift + addend.
template <FrozenAct A, class Out>
FN Lanes finished(Lanes v, Lanes low, Lanes high, Lanes out, Lanes zero) {
  constexpr bool kIntegers = sizeof(Out) == 1;
  if constexpr (A != FROZEN_NONE && A != FROZEN_CLAMP) {
    v = activate<A>(v, low, high);
    return kIntegers ? clamp_max(clamp_min(fma(v, out, zero), low), high) : v;
  }
  return A == FROZEN_CLAMP || kIntegers ? clamp_max(clamp_min(v, low), high) : v;
}

template <FrozenAct A, class Out, class Add, bool kAdds, int N>
__attribute__((noinline)) void tile(const FrozenConv& c, const PixelsOf<Out, Add>& p, int64_t column) {
  Lanes acc[kTile][N];
  for (int j = 0; j < N; j++) {
    const Lanes start = _mm512_loadu_ps(static_cast<const float*>(c.q.start) + column + j * W); // bits
#pragma GCC unroll 16
    for (int i = 0; i < kTile; i++) acc[i][j] = start;
  }
  const int64_t step = c.flat ? c.in.pitch : c.in.pitch * c.stride;
  accumulate<N>(p.in[0], p.in[1], step, c.runs, c.run, c.in.row, numbers(c.weights) + column * c.runs * paired(c.run),
                acc);
  const Lanes low(_mm512_set1_ps(c.low)), high(_mm512_set1_ps(c.high)), add(_mm512_set1_ps(c.q.add)),
      out(_mm512_set1_ps(c.q.out)), zero(_mm512_set1_ps(c.q.zero));
#pragma GCC unroll 4
  for (int j = 0; j < N; j++) {
    const int64_t n = c.columns - column - j * W;
    if (n <= 0) break;
    const Lanes factor(_mm512_loadu_ps(c.q.factor + column + j * W)),
        shift(_mm512_loadu_ps(c.q.shift + column + j * W));
    // Fully unrolled, so that the sums stay in their registers.
#pragma GCC unroll 16
    for (int i = 0; i < kTile; i++) {
      if (i % kHalf >= p.count[i / kHalf]) continue;
      Lanes v = fma(_mm512_cvtepi32_ps(_mm512_castps_si512(acc[i][j].v)), factor, shift);
      if constexpr (kAdds) v = fma(take(p.add[i] + column + j * W, n), add, v);
      put(p.out[i] + column + j * W, finished<A, Out>(v, low, high, out, zero), n);
    }
  }
}

template <FrozenAct A, class Out, class Add, bool kAdds>
void conv_of(const FrozenConv& c, int64_t first, int64_t last, int64_t from, int64_t to) {
  using Pixels = PixelsOf<Out, Add>;
  each_tile<Pixels>(c, first, last, from, to, [&](const Pixels& p, int64_t column) __attribute__((always_inline)) {
    if (c.columns - column <= W)
      tile<A, Out, Add, kAdds, 1>(c, p, column);
    else
      tile<A, Out, Add, kAdds, kWide>(c, p, column);
  });
}

template <FrozenAct A>
void conv_as(const FrozenConv& c, int64_t first, int64_t last, int64_t from, int64_t to) {
  if (c.q.out_floats) {
    if (!c.add.data) return conv_of<A, float, float, false>(c, first, last, from, to);
    if (c.q.add_floats) return conv_of<A, float, float, true>(c, first, last, from, to);
    return conv_of<A, float, uint8_t, true>(c, first, last, from, to);
  }
  if (!c.add.data) return conv_of<A, uint8_t, uint8_t, false>(c, first, last, from, to);
  if (c.q.add_floats) return conv_of<A, uint8_t, float, true>(c, first, last, from, to);
  return conv_of<A, uint8_t, uint8_t, true>(c, first, last, from, to);
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

template <FrozenAct A, class Out>
void depthwise_of(const FrozenDepthwise& d, int64_t image, int64_t y) {
  Out* to = reinterpret_cast<Out*>(d.out.data) + image * d.out.image + y * d.out.row;
  const Lanes low(_mm512_set1_ps(d.low)), high(_mm512_set1_ps(d.high)), out(_mm512_set1_ps(d.q.out)),
      zero(_mm512_set1_ps(d.q.zero));
  depthwise_any(d, image, y, [&](int64_t x, int64_t c, const auto& acc) __attribute__((always_inline)) {
    constexpr int X = sizeof(acc) / sizeof(Lanes);
    const Lanes factor(take(d.q.factor + c, d.channels - c)), shift(take(d.q.shift + c, d.channels - c));
    Out* p = to + x * d.out.pitch + c;
#pragma GCC unroll 16
    for (int i = 0; i < X; i++)
      put(p + i * d.out.pitch, finished<A, Out>(fma(acc[i], factor, shift), low, high, out, zero), d.channels - c);
  });
}

// Sums of products of integers, in floats: exact, as they stay below 2²⁴ up to kernels of 22 × 22.
void depthwise(const FrozenDepthwise& d, int64_t image, int64_t y) {
  if (d.q.out_floats)
    return d.act == FROZEN_CLAMP ? depthwise_of<FROZEN_CLAMP, float>(d, image, y)
                                 : depthwise_of<FROZEN_NONE, float>(d, image, y);
  return depthwise_of<FROZEN_CLAMP, uint8_t>(d, image, y);
}

void larger(const char* in, char* out, int64_t n) {
  for (int64_t i = 0; i < n; i += 64) {
    const __mmask64 m = n - i >= 64 ? ~0ull : (1ull << (n - i)) - 1;
    _mm512_mask_storeu_epi8(out + i, m,
                            _mm512_max_epu8(_mm512_maskz_loadu_epi8(m, in + i), _mm512_maskz_loadu_epi8(m, out + i)));
  }
}

void mean(const FrozenView& in, int64_t height, int64_t width, int64_t n, char* to) {
  const Number* data = numbers(in.data);
  float* out = reinterpret_cast<float*>(to);
  for (int64_t c = 0; c < n; c += W) {
    __m512i sum = _mm512_setzero_si512();
    for (int64_t y = 0; y < height; y++)
      for (int64_t x = 0; x < width; x++)
        sum = _mm512_add_epi32(
            sum, _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first(n - c), data + y * in.row + x * in.pitch + c)));
    put(out + c, _mm512_div_ps(_mm512_cvtepi32_ps(sum), _mm512_set1_ps(static_cast<float>(height * width))), n - c);
  }
}

// Weights, which are integers already.
void narrow(const float* in, char* out, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = static_cast<char>(static_cast<int8_t>(in[i]));
}

void widen(const char* in, float* out, int64_t n) {
  for (int64_t i = 0; i < n; i += W) put(out + i, take(numbers(in) + i, n - i), n - i);
}

bool quantize(const float* in, char* out, int64_t n, float by, float zero) {
  const Lanes low(0.0), high(255.0), b(_mm512_set1_ps(by)), z(_mm512_set1_ps(zero));
  __mmask16 none = 0;
  for (int64_t i = 0; i < n; i += W) {
    const Lanes x = take(in + i, n - i);
    none |= _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
    put(numbers(out) + i, clamp_max(clamp_min(fma(x, b, z), low), high), n - i);
  }
  return none != 0;
}
#undef FN
} // namespace

const spml::FrozenKernels spml::frozen_int8 = {sizeof(Number), kPair,   W,      kHalf, kPanel, conv,  depthwise,
                                               nullptr,        nullptr, larger, mean,  narrow, widen, quantize};
#else
const spml::FrozenKernels spml::frozen_int8 = {}; // nobody is sent here
#endif
