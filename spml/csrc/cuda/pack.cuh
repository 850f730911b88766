// Several neighbouring elements at once, and the rows that they are of.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace spml::cuda {

template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

// Whether N elements from p on can be moved as one; so can those that nobody wants (nullptr).
template <int N, class T>
__device__ bool aligned(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % (sizeof(T) * N) == 0;
}

// The first n of N elements; the others are zero.
template <int N, class T>
__device__ Pack<T, N> load(const T* p, int n, bool packed) {
  if (packed) return *reinterpret_cast<const Pack<T, N>*>(p);
  Pack<T, N> out;
#pragma unroll
  for (int j = 0; j < N; j++) out.v[j] = j < n ? p[j] : T{};
  return out;
}

template <int N, class T>
__device__ void store(T* p, const Pack<T, N>& x, int n, bool packed) {
  if (packed) {
    *reinterpret_cast<Pack<T, N>*>(p) = x;
    return;
  }
#pragma unroll
  for (int j = 0; j < N; j++)
    if (j < n) p[j] = x.v[j];
}

// The row of element `at` of n, and of those behind it. One division, of 32 bits where they do.
struct RowWalk {
  int64_t row, column, classes;
  __device__ RowWalk(int64_t at, int64_t n, int64_t c) : classes(c) {
    row = n <= 0xffffffffll ? static_cast<int64_t>(static_cast<uint32_t>(at) / static_cast<uint32_t>(c)) : at / c;
    column = at - row * c;
  }
  __device__ void step() {
    if (++column == classes) column = 0, row++;
  }
};

} // namespace spml::cuda
