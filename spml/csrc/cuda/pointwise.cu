// One pass over logits and labels gives the terms' sum and the gradient. The formulas are those of the CPU:
// spml/csrc/loss.
#include "../loss_math.h"
#include "losses.h" // of the table, by CMake
#include "../pointwise.h"
#include "launch.h"
#include "pack.cuh"
#include "pointwise.h"
#include "reduce.cuh"
#include "usual.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

using spml::cuda::aligned;
using spml::cuda::kChunk;
using spml::cuda::kPerThread;
using spml::cuda::kThreads;
using spml::cuda::Launch;
using spml::cuda::load;
using spml::cuda::Pack;
using spml::cuda::RowWalk;
using spml::cuda::settle;
using spml::cuda::store;
using spml::cuda::usual;

template <class T>
struct Wide {
  using type = float;
};
template <>
struct Wide<double> {
  using type = double;
};
template <class T>
struct Gradient {
  using type = T;
};
template <>
struct Gradient<__half> {
  using type = float;
};

__device__ float widen(float x) { return x; }
__device__ double widen(double x) { return x; }
__device__ float widen(__half x) { return __half2float(x); }
__device__ float widen(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T narrow(float x);
template <>
__device__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <class T>
__device__ T narrow(double x) {
  return x;
}

// What the sum of the terms is multiplied by. The host knows it but where rows are masked.
__device__ double scale_of(const Launch& l) {
  if (!l.count) return l.scale;
  const double rows = static_cast<double>(*l.count),
               terms = l.reduction == 1 ? rows * static_cast<double>(l.classes) : rows;
  return l.reduction == 2 ? 1 : terms > 0 ? 1 / terms : 0;
}

template <template <class> class F, int Labels, class T>
__device__ Term<T> term(const F<T>& f, T z, T y, T w) {
  if constexpr (Labels == 2)
    return f(z, y, w);
  else
    return f(z, y);
}

template <template <class> class F, int Labels, bool Usual, class Z, class Y>
__global__ void __launch_bounds__(kThreads) pointwise(const Launch l, const F<typename Wide<Z>::type> given) {
  using T = typename Wide<Z>::type;
  using G = typename Gradient<Z>::type;
  constexpr int N = 16 / sizeof(Z);
  auto f = given; // made by the host: its constants cost no conversions here
  settle<Usual>(f);
  const T scale = static_cast<T>(scale_of(l));
  const auto* z = static_cast<const Z*>(l.z);
  const auto* y = static_cast<const Y*>(l.y);
  const auto* w = static_cast<const Y*>(l.w);
  auto* g = static_cast<G*>(l.g);
  T sum = 0;
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kChunk;
  const bool whole = chunk + kChunk <= l.n;
  const bool packed = whole && aligned<N>(z) && aligned<N>(y) && aligned<N>(w) && aligned<N>(g);
  // Every thread has the same elements in the same order whatever the addresses, so the bits do not depend on them.
  const auto place = [&](int i) { return chunk + (i * kThreads + static_cast<int>(threadIdx.x)) * N; };
  const auto element = [&](const auto& zs, const auto& ys, const auto& ws, int j) {
    return term<F, Labels, T>(f, widen(zs.v[j]), static_cast<T>(ys.v[j]), static_cast<T>(ws.v[j]));
  };
  if (packed && !l.counts) {
#pragma unroll(N > 4 ? 1 : 2)
    for (int i = 0; i < kPerThread / N; i++) {
      const int64_t at = place(i);
      const auto zs = load<N>(z + at, N, true);
      const auto ys = load<N>(y + at, N, true);
      Pack<Y, N> ws{};
      if constexpr (Labels == 2) ws = load<N>(w + at, N, true);
      Pack<G, N> gs;
#pragma unroll
      for (int j = 0; j < N; j++) {
        const auto t = element(zs, ys, ws, j);
        sum += t.value;
        gs.v[j] = narrow<G>(t.grad * scale);
      }
      if (g) store<N>(g + at, gs, N, true);
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < kPerThread / N; i++) {
      const int64_t at = place(i);
      const int n = whole ? N : static_cast<int>(at >= l.n ? 0 : l.n - at < N ? l.n - at : N);
      if (n == 0) break;
      const auto zs = load<N>(z + at, n, packed);
      const auto ys = load<N>(y + at, n, packed);
      Pack<Y, N> ws{};
      if constexpr (Labels == 2) ws = load<N>(w + at, n, packed);
      RowWalk row(l.counts ? at : 0, l.n, l.classes);
      Pack<G, N> gs;
#pragma unroll
      for (int j = 0; j < N; j++, row.step()) {
        const bool use = j < n && (!l.counts || l.counts[row.row]);
        const auto t = element(zs, ys, ws, j);
        if (use) sum += t.value;
        gs.v[j] = narrow<G>(use ? t.grad * scale : T(0));
      }
      if (g) store<N>(g + at, gs, n, packed);
    }
  }
  const double total = spml::cuda::block_sum<kThreads>(sum);
  if (threadIdx.x == 0) l.partial[blockIdx.x] = total;
}

// Adds the chunks in a fixed order and writes the loss.
__global__ void __launch_bounds__(kThreads) finish(const Launch l, int64_t chunks) {
  double s = 0;
  for (int64_t i = threadIdx.x; i < chunks; i += kThreads) s += l.partial[i];
  s = spml::cuda::block_sum<kThreads>(s) * scale_of(l);
  if (threadIdx.x) return;
  if (l.element == spml::cuda::kFloat64)
    *static_cast<double*>(l.loss) = s;
  else
    *static_cast<float*>(l.loss) = static_cast<float>(s);
}

template <template <class> class F, int Labels, bool Usual, class Z>
void start(const Launch& l, unsigned chunks) {
  using T = typename Wide<Z>::type;
  const F<T> f(l.params);
  if (l.byte_labels)
    spml::cuda::launch(pointwise<F, Labels, Usual, Z, int8_t>, chunks, kThreads, l.stream, l, f);
  else
    spml::cuda::launch(pointwise<F, Labels, Usual, Z, T>, chunks, kThreads, l.stream, l, f);
}

template <template <class> class F, int Labels, class Z>
void start(const Launch& l, unsigned chunks) {
  if constexpr (sizeof(Z) < 8)
    if (usual<F<float>>(l.params)) return start<F, Labels, true, Z>(l, chunks);
  start<F, Labels, false, Z>(l, chunks);
}

template <template <class> class F, int Labels>
void start(const Launch& l, unsigned chunks) {
  switch (l.element) {
    case spml::cuda::kFloat32: return start<F, Labels, float>(l, chunks);
    case spml::cuda::kFloat64: return start<F, Labels, double>(l, chunks);
    case spml::cuda::kFloat16: return start<F, Labels, __half>(l, chunks);
    case spml::cuda::kBFloat16: return start<F, Labels, __nv_bfloat16>(l, chunks);
  }
}

} // namespace

namespace spml::cuda {

cudaError_t run(int id, const Launch& given) {
  Launch l = given;
  const double rows = static_cast<double>(l.classes ? l.n / l.classes : 0),
               terms = l.reduction == 1 ? static_cast<double>(l.n) : rows;
  l.scale = l.reduction == 2 ? 1 : terms > 0 ? 1 / terms : 0;
  const int64_t chunks = blocks(l.n);
  if (chunks > 0x7fffffff) return cudaErrorInvalidValue;
  if (chunks) switch (id) {
#define X(name, F, labels, schema) \
  case POINTWISE_##name: start<F, labels>(l, static_cast<unsigned>(chunks)); break;
      GOSPML_POINTWISE(X)
#undef X
      default: return cudaErrorInvalidValue;
    }
  const cudaError_t err = cudaGetLastError();
  if (err != cudaSuccess) return err;
  spml::cuda::launch(finish, 1, kThreads, l.stream, l, chunks);
  return cudaGetLastError();
}

} // namespace spml::cuda
