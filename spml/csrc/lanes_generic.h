// 4 floats in the compiler's own vectors: SSE2 on x86-64, and whatever else a processor has.
#pragma once

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Words __attribute__((vector_size(16)));

struct Lanes {
  Floats v;
  Lanes() = default;
  Lanes(Floats x) : v(x) {}
  explicit Lanes(double x) : v(Floats{} + static_cast<float>(x)) {}
};
static_assert(sizeof(Lanes) == 16);
struct Mask {
  Words v;
};

#define FN inline __attribute__((always_inline))
FN Lanes operator+(Lanes a, Lanes b) { return a.v + b.v; }
FN Lanes operator-(Lanes a, Lanes b) { return a.v - b.v; }
FN Lanes operator*(Lanes a, Lanes b) { return a.v * b.v; }
FN Lanes operator-(Lanes a) { return -a.v; }
FN Mask operator==(Lanes a, Lanes b) { return {a.v == b.v}; }
FN Mask operator<(Lanes a, Lanes b) { return {a.v < b.v}; }
FN Mask operator>(Lanes a, Lanes b) { return {a.v > b.v}; }
FN Mask operator<=(Lanes a, Lanes b) { return {a.v <= b.v}; }
FN Mask operator>=(Lanes a, Lanes b) { return {a.v >= b.v}; }
FN Mask both(Mask a, Mask b) { return {a.v & b.v}; }
FN Mask either(Mask a, Mask b) { return {a.v | b.v}; }
FN Mask differ(Mask a, Mask b) { return {a.v ^ b.v}; }
// Bits of the lanes in which key is not below least, NaN included.
FN unsigned reach(Lanes key, Lanes least) {
  unsigned bits = 0;
  for (int k = 0; k < 4; k++) bits |= static_cast<unsigned>(!(key.v[k] < least.v[k])) << k;
  return bits;
}
FN bool some(Mask m) { return (m.v[0] | m.v[1] | m.v[2] | m.v[3]) != 0; }

FN void load(const float* p, Lanes& x) { __builtin_memcpy(&x.v, p, sizeof x.v); }
FN void load(const int8_t* p, Lanes& x) {
  x.v = Floats{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]), static_cast<float>(p[3])};
}
FN void store(float* p, Lanes x) { __builtin_memcpy(p, &x.v, sizeof x.v); }
FN double total_of(Lanes x) { return (static_cast<double>(x.v[0]) + x.v[1]) + (static_cast<double>(x.v[2]) + x.v[3]); }

FN Lanes select(Mask m, Lanes a, Lanes b) { return Lanes((Floats)(((Words)a.v & m.v) | ((Words)b.v & ~m.v))); }
FN Lanes clamp_min(Lanes x, Lanes lo) { return select(x < lo, lo, x); }
FN Lanes clamp_max(Lanes x, Lanes hi) { return select(x > hi, hi, x); }
FN Lanes absolute(Lanes x) { return Lanes((Floats)((Words)x.v & 0x7fffffff)); }
FN Lanes fma(Lanes a, Lanes b, Lanes c) { return a * b + c; }
FN Lanes fma(Lanes a, Lanes b, double c) { return fma(a, b, Lanes(c)); }
FN Lanes reciprocal(Lanes x) { return Lanes(1.0).v / x.v; }

// n = round(x / ln 2), by the bits that a large number has no room for; the rest is within ±ln 2 / 2.
FN Lanes reduced(Lanes x, Lanes& n) {
  const Lanes big(12582912.0); // 1.5·2^23
  n = (x * Lanes(1.442695041) + big) - big;
  return fma(n, Lanes(-1.428606765330187e-6), fma(n, Lanes(-0.693145751953125), x));
}
FN Lanes power_of_two(Lanes n) { return Lanes((Floats)((__builtin_convertvector(n.v, Words) + 127) << 23)); }
FN Lanes scaled(Lanes x, Lanes n) { return x * power_of_two(n); }

// x = m·2^k with m in [√½, √2).
FN Lanes mantissa(Lanes x, Lanes& k) {
  const Words i = (Words)x.v - 0x3f3504f3;
  k.v = __builtin_convertvector(i >> 23, Floats);
  return Lanes((Floats)((i & 0x7fffff) + 0x3f3504f3));
}

FN void convert(const int8_t* p, float* to) {
  for (int k = 0; k < 4; k++) to[k] = p[k];
}
FN void convert_bf16(const uint16_t* p, float* to) {
  for (int k = 0; k < 4; k++) {
    const uint32_t bits = static_cast<uint32_t>(p[k]) << 16;
    __builtin_memcpy(to + k, &bits, 4);
  }
}
FN void convert_fp16(const uint16_t* p, float* to) {
  for (int k = 0; k < 4; k++) {
    const uint32_t h = p[k], sign = (h & 0x8000) << 16, rest = h & 0x7fff;
    uint32_t bits;
    float x;
    if (rest >= 0x7c00) {
      bits = 0x7f800000 | (rest & 0x3ff) << 13; // infinity, NaN
    } else {
      bits = rest << 13; // a float that is 2^112 too small
      __builtin_memcpy(&x, &bits, 4);
      x *= 5.192296858534828e33f;
      __builtin_memcpy(&bits, &x, 4);
    }
    bits |= sign;
    __builtin_memcpy(to + k, &bits, 4);
  }
}
#undef FN
