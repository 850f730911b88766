// The conversions of one instruction set. Included last, in the anonymous namespace of set_*.cpp.
#pragma once

template <void (*Convert)(const int8_t*, float*)>
void floats_of_bytes(const int8_t* p, float* to, int64_t n) {
  constexpr int W = sizeof(Lanes) / sizeof(float);
  int64_t i = 0;
  for (; i + W <= n; i += W) Convert(p + i, to + i);
  for (; i < n; i++) to[i] = p[i];
}

template <void (*Convert)(const uint16_t*, float*)>
void floats_of_halves(const uint16_t* p, float* to, int64_t n) {
  constexpr int W = sizeof(Lanes) / sizeof(float);
  int64_t i = 0;
  for (; i + W <= n; i += W) Convert(p + i, to + i);
  if (i == n) return;
  uint16_t rest[W] = {};
  float out[W];
  for (int k = 0; k < n - i; k++) rest[k] = p[i + k];
  Convert(rest, out);
  for (int k = 0; k < n - i; k++) to[i + k] = out[k];
}

// Rounds to nearest, ties to even.
void bf16_of_floats(const float* p, uint16_t* to, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint32_t b;
    __builtin_memcpy(&b, p + i, 4);
    const uint32_t rounded = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    to[i] = static_cast<uint16_t>(p[i] == p[i] ? rounded : 0x7fc0);
  }
}

#define GOSPML_CONVERSIONS \
  floats_of_bytes<convert>, floats_of_halves<convert_bf16>, floats_of_halves<convert_fp16>, bf16_of_floats
