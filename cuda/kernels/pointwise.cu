// One pass over logits and labels gives the terms' sum and the gradient. The formulas are those of the CPU: spml/csrc/loss.
#include "loss_math.h"
#include "losses.h"
#include "../../spml/csrc/pointwise.h"
#include "pointwise.h"
#include "reduce.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

using spml::cuda::kChunk;
using spml::cuda::kPerThread;
using spml::cuda::kThreads;
using spml::cuda::Launch;

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
__device__ float narrow<float>(float x) { return x; }
template <>
__device__ __nv_bfloat16 narrow<__nv_bfloat16>(float x) { return __float2bfloat16_rn(x); }
template <class T>
__device__ T narrow(double x) { return x; }

// Elements that a thread moves at once: 16 bytes of logits.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T v[N];
};

__device__ bool aligned(const void* p, size_t bytes) { return reinterpret_cast<uintptr_t>(p) % bytes == 0; }

__device__ double scale_of(const Launch& l) {
  const double rows = l.count ? static_cast<double>(*l.count) : static_cast<double>(l.classes ? l.n / l.classes : 0);
  switch (l.reduction) {
    case 1: return rows > 0 ? 1 / (rows * static_cast<double>(l.classes)) : 0;
    case 3: return rows > 0 ? 1 / rows : 0;
    default: return 1;
  }
}

template <template <class> class F, int Labels, class T>
__device__ Term<T> term(const F<T>& f, T z, T y, T w) {
  if constexpr (Labels == 2)
    return f(z, y, w);
  else
    return f(z, y);
}

template <template <class> class F, int Labels, class Z, class Y>
__global__ void __launch_bounds__(kThreads) pointwise(const Launch l) {
  using T = typename Wide<Z>::type;
  using G = typename Gradient<Z>::type;
  constexpr int N = 16 / sizeof(Z);
  const F<T> f(l.params);
  const T scale = static_cast<T>(scale_of(l));
  const auto* z = static_cast<const Z*>(l.z);
  const auto* y = static_cast<const Y*>(l.y);
  const auto* w = static_cast<const Y*>(l.w);
  auto* g = static_cast<G*>(l.g);
  T sum = 0;
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kChunk;
  const bool whole = chunk + kChunk <= l.n && !l.counts && aligned(z, sizeof(Z) * N) && aligned(y, sizeof(Y) * N) && aligned(w, sizeof(Y) * N) &&
                     aligned(g, sizeof(G) * N);
  if (whole) {
#pragma unroll 2
    for (int i = 0; i < kPerThread / N; i++) {
      const int64_t at = chunk + (static_cast<int64_t>(i) * kThreads + threadIdx.x) * N;
      const auto zs = *reinterpret_cast<const Pack<Z, N>*>(z + at);
      const auto ys = *reinterpret_cast<const Pack<Y, N>*>(y + at);
      Pack<Y, N> ws{};
      if constexpr (Labels == 2) ws = *reinterpret_cast<const Pack<Y, N>*>(w + at);
      Pack<G, N> gs;
#pragma unroll
      for (int j = 0; j < N; j++) {
        const auto t = term<F, Labels, T>(f, widen(zs.v[j]), static_cast<T>(ys.v[j]), static_cast<T>(ws.v[j]));
        sum += t.value;
        gs.v[j] = narrow<G>(t.grad * scale);
      }
      if (g) *reinterpret_cast<Pack<G, N>*>(g + at) = gs;
    }
  } else {
    for (int i = 0; i < kPerThread; i++) {
      const int64_t at = chunk + static_cast<int64_t>(i) * kThreads + threadIdx.x;
      if (at >= l.n) break;
      if (l.counts && !l.counts[at / l.classes]) {
        if (g) g[at] = narrow<G>(T(0));
        continue;
      }
      T second = 0;
      if constexpr (Labels == 2) second = static_cast<T>(w[at]);
      const auto t = term<F, Labels, T>(f, widen(z[at]), static_cast<T>(y[at]), second);
      sum += t.value;
      if (g) g[at] = narrow<G>(t.grad * scale);
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

template <template <class> class F, int Labels, class Z>
void start(const Launch& l, unsigned chunks) {
  using T = typename Wide<Z>::type;
  if (l.byte_labels)
    pointwise<F, Labels, Z, int8_t><<<chunks, kThreads, 0, l.stream>>>(l);
  else
    pointwise<F, Labels, Z, T><<<chunks, kThreads, 0, l.stream>>>(l);
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

cudaError_t run(int id, const Launch& l) {
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
  finish<<<1, kThreads, 0, l.stream>>>(l, chunks);
  return cudaGetLastError();
}

} // namespace spml::cuda
