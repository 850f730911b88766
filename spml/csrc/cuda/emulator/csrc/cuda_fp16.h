// float16 as the card's header has it.
#pragma once
struct __half {
  _Float16 x;
};
inline float __half2float(__half h) { return static_cast<float>(h.x); }
inline __half __float2half(float f) { return {static_cast<_Float16>(f)}; }
inline __half __float2half_rn(float f) { return {static_cast<_Float16>(f)}; }
