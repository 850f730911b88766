// What the kernels share.
#pragma once

#include <stdint.h>

namespace spml::cuda {

// The sum of x over a block of Threads threads, in thread 0. Everybody has to call it; it may be called again.
template <int Threads, class T>
__device__ double block_sum(T x) {
  __shared__ double sums[Threads / 32];
  double s = x;
  for (int d = 16; d; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
  __syncthreads(); // of an earlier call
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = s;
  __syncthreads();
  s = threadIdx.x < Threads / 32 ? sums[threadIdx.x] : 0;
  if (threadIdx.x < 32)
    for (int d = 16; d; d /= 2) s += __shfl_down_sync(0xffffffff, s, d);
  return s;
}

} // namespace spml::cuda
