// bfloat16 as the card's header has it, rounded to nearest even.
#pragma once
#include <stdint.h>
#include <string.h>
struct __nv_bfloat16 {
  uint16_t bits;
};
inline float __bfloat162float(__nv_bfloat16 x) {
  const uint32_t u = uint32_t(x.bits) << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}
inline __nv_bfloat16 __float2bfloat16_rn(float f) {
  if (f != f) return {0x7fff};
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return {static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16)};
}
