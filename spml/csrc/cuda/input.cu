// Bytes to normalised numbers, and Pillow's resampling, on the card. The arithmetic is spml/csrc/input_math.h, as on
// the CPU, so the results are equal to the bit.
#include "input.h"
#include "launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

using spml::cuda::NormalizeLaunch;
using spml::cuda::ResampleLaunch;

constexpr int kThreadsOfInput = 256;

template <class T>
__device__ T narrowed(float x);
template <>
__device__ float narrowed<float>(float x) {
  return x;
}
template <>
__device__ __half narrowed<__half>(float x) {
  return __float2half_rn(x);
}
template <>
__device__ __nv_bfloat16 narrowed<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

// A thread per value of the result. The 768 possible results are computed once per block.
template <class T, bool Last>
__global__ void __launch_bounds__(kThreadsOfInput) normalize_values(const NormalizeLaunch l) {
  __shared__ float table[3][256];
  for (int c = 0; c < 3; c++)
    table[c][threadIdx.x] = spml::normal(static_cast<uint8_t>(threadIdx.x), l.mean[c], l.std[c]);
  __syncthreads();
  const int64_t plane = l.height * l.width, image = 3 * plane, n = l.images * image;
  auto* out = static_cast<T*>(l.out);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreadsOfInput + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreadsOfInput) {
    const int64_t b = i / image, at = i % image;
    const int64_t pixel = Last ? at / 3 : at % plane;
    const int c = static_cast<int>(Last ? at % 3 : at / plane);
    const int64_t y = pixel / l.width;
    int64_t x = pixel % l.width;
    if (l.flip && l.flip[b]) x = l.width - 1 - x;
    out[i] = narrowed<T>(table[c][l.pixels[b * image + (y * l.width + x) * 3 + c]]);
  }
}

unsigned grid(int64_t n) {
  const int64_t blocks = (n + kThreadsOfInput - 1) / kThreadsOfInput;
  return static_cast<unsigned>(blocks < 65536 ? blocks : 65536);
}

template <class T>
void start(const NormalizeLaunch& l) {
  const unsigned blocks = grid(l.images * l.height * l.width * 3);
  if (l.channels_last)
    spml::cuda::launch(normalize_values<T, true>, blocks, kThreadsOfInput, l.stream, l);
  else
    spml::cuda::launch(normalize_values<T, false>, blocks, kThreadsOfInput, l.stream, l);
}

// A thread per value of the result of one pass.
__global__ void __launch_bounds__(kThreadsOfInput) resample_pass(const ResampleLaunch l) {
  const int64_t w = l.rows ? l.width : l.axis.out, h = l.rows ? l.axis.out : l.height, n = l.images * h * w * 3;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreadsOfInput + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreadsOfInput) {
    const int64_t c = i % 3, x = i / 3 % w, y = i / 3 / w % h, b = i / 3 / w / h;
    const uint8_t* image = l.in + b * l.height * l.width * 3;
    l.out[i] = l.rows ? spml::resampled(l.axis, y, image + x * 3 + c, l.width * 3)
                      : spml::resampled(l.axis, x, image + y * l.width * 3 + c, 3);
  }
}

} // namespace

namespace spml::cuda {

cudaError_t normalize(const NormalizeLaunch& l) {
  if (l.images * l.height * l.width == 0) return cudaSuccess;
  switch (l.element) {
    case kFloat32: start<float>(l); break;
    case kFloat16: start<__half>(l); break;
    case kBFloat16: start<__nv_bfloat16>(l); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t resample(const ResampleLaunch& l) {
  const int64_t n = l.images * (l.rows ? l.axis.out * l.width : l.height * l.axis.out) * 3;
  if (n == 0) return cudaSuccess;
  spml::cuda::launch(resample_pass, grid(n), kThreadsOfInput, l.stream, l);
  return cudaGetLastError();
}

} // namespace spml::cuda
