// Losses whose terms depend on the whole batch: one pass over the entries, with the formulas of the CPU (spml/csrc/batch_math.h), and the rows of LAC's
// contrast.
#include "loss_math.h"
#include "../../spml/csrc/batch_math.h"
#include "../../spml/csrc/batchwise.h"
#include "batch.h"
#include "reduce.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace {

using spml::cuda::BatchLaunch;
using spml::cuda::kChunk;
using spml::cuda::kPerThread;
using spml::cuda::kThreads;
using spml::cuda::Tensors;

// Types are the same for all threads, so the branch costs nothing beside the memory access.
template <class T>
__device__ T read(const Tensors& t, int64_t i) {
  switch (t.element) {
    case spml::cuda::kFloat32: return static_cast<T>(static_cast<const float*>(t.data)[i]);
    case spml::cuda::kFloat64: return static_cast<T>(static_cast<const double*>(t.data)[i]);
    case spml::cuda::kFloat16: return static_cast<T>(__half2float(static_cast<const __half*>(t.data)[i]));
    case spml::cuda::kBFloat16: return static_cast<T>(__bfloat162float(static_cast<const __nv_bfloat16*>(t.data)[i]));
    default: return static_cast<T>(static_cast<const int8_t*>(t.data)[i]);
  }
}

template <class T>
__device__ void write(const Tensors& t, int64_t i, T x) {
  switch (t.element) {
    case spml::cuda::kFloat32: static_cast<float*>(t.data)[i] = static_cast<float>(x); break;
    case spml::cuda::kFloat64: static_cast<double*>(t.data)[i] = static_cast<double>(x); break;
    case spml::cuda::kFloat16: static_cast<__half*>(t.data)[i] = __float2half(static_cast<float>(x)); break;
    case spml::cuda::kBFloat16: static_cast<__nv_bfloat16*>(t.data)[i] = __float2bfloat16_rn(static_cast<float>(x)); break;
    default: static_cast<int8_t*>(t.data)[i] = static_cast<int8_t>(x);
  }
}

// Large loss after the selection: what is selected loses its term (rejection), or has the other side's (correction).
template <class V>
struct LargeModify : Logs<V> {
  V scale;
  bool correct;
  GOSPML_FN explicit LargeModify(const double* a) : Logs<V>(a[0]), scale(V(a[1])), correct(a[2] != 0) {}
  GOSPML_FN void operator()(const V* in, V* out, V* sum) const {
    const auto c = this->ce(in[0]);
    const auto pos = in[1] == V(1), chosen = in[2] != V(0);
    V value = V(0), grad = V(0);
    if (correct) {
      value = select(pos, c.neg, c.pos);
      grad = select(pos, c.dneg, c.dpos);
    }
    sum[0] = sum[0] + select(chosen, value, select(pos, c.pos, c.neg));
    out[0] = scale * select(chosen, grad, select(pos, c.dpos, c.dneg));
  }
};

template <template <class> class F, int Inputs, int Outputs, int Sums, class T>
__global__ void __launch_bounds__(kThreads) pass(const BatchLaunch l) {
  double params[spml::cuda::kMaxParams];
  for (int i = 0; i < spml::cuda::kMaxParams; i++) params[i] = l.params[i];
  for (int i = 0; i < l.lates; i++) params[l.late[i].slot] = l.late[i].factor * *l.late[i].value;
  const F<T> f(params);
  T sum[3] = {0, 0, 0};
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kChunk;
  for (int i = 0; i < kPerThread; i++) {
    const int64_t at = chunk + static_cast<int64_t>(i) * kThreads + threadIdx.x;
    if (at >= l.n) break;
    T out[2] = {0, 0};
    if (!l.counts || l.counts[at / l.classes]) {
      T in[3];
#pragma unroll
      for (int k = 0; k < Inputs; k++) in[k] = read<T>(l.in[k], at);
      f(in, out, sum);
    }
#pragma unroll
    for (int k = 0; k < Outputs; k++)
      if (l.out[k].data) write(l.out[k], at, out[k]);
  }
  for (int k = 0; k < 3; k++) {
    const double total = k < Sums ? spml::cuda::block_sum<kThreads>(sum[k]) : 0;
    if (threadIdx.x == 0) l.partial[3 * static_cast<int64_t>(blockIdx.x) + k] = total;
  }
}

template <template <class> class F, int Inputs, int Outputs, int Sums>
void start(const BatchLaunch& l, unsigned chunks) {
  if (l.wide)
    pass<F, Inputs, Outputs, Sums, double><<<chunks, kThreads, 0, l.stream>>>(l);
  else
    pass<F, Inputs, Outputs, Sums, float><<<chunks, kThreads, 0, l.stream>>>(l);
}

__device__ float largest(float a, float b) { return b < a ? a : b; }
__device__ double largest(double a, double b) { return b < a ? a : b; }
__device__ float power(float x) { return expf(x); }
__device__ double power(double x) { return exp(x); }

// The largest x of the block, for every thread.
template <class T>
__device__ T block_max(T x) {
  __shared__ T most[kThreads / 32];
  for (int d = 16; d; d /= 2) x = largest(x, __shfl_xor_sync(0xffffffff, x, d));
  __syncthreads();
  if (threadIdx.x % 32 == 0) most[threadIdx.x / 32] = x;
  __syncthreads();
  x = most[0];
  for (int i = 1; i < kThreads / 32; i++) x = largest(x, most[i]);
  return x;
}

template <class T>
__global__ void __launch_bounds__(kThreads) contrast(T* s, const int64_t* id, int64_t n, double* loss) {
  __shared__ double shared[3];
  const int64_t i = blockIdx.x;
  T* row = s + i * n;
  const int64_t mine = id[i];
  T top = -INFINITY;
  double positives = 0;
  double count = 0;
  for (int64_t j = threadIdx.x; j < n; j += kThreads) {
    if (j == i) continue;
    top = largest(row[j], top);
    if (id[j] != mine) continue;
    positives += row[j];
    count += 1;
  }
  top = block_max(top);
  double total = 0;
  for (int64_t j = threadIdx.x; j < n; j += kThreads)
    if (j != i) total += power(row[j] - top);
  positives = spml::cuda::block_sum<kThreads>(positives);
  count = spml::cuda::block_sum<kThreads>(count);
  total = spml::cuda::block_sum<kThreads>(total);
  if (threadIdx.x == 0) {
    shared[0] = count;
    shared[1] = total;
    loss[i] = -(positives / count - (static_cast<double>(top) + log(total))) / static_cast<double>(n);
  }
  __syncthreads();
  const double each = 1 / static_cast<double>(n), share = each / shared[0], soft = each / shared[1];
  for (int64_t j = threadIdx.x; j < n; j += kThreads)
    row[j] = j == i ? T(0) : static_cast<T>(power(row[j] - top) * soft - (id[j] == mine ? share : 0));
}

} // namespace

namespace spml::cuda {

cudaError_t run_batch(int id, const BatchLaunch& l) {
  const int64_t chunks = blocks(l.n);
  if (chunks > 0x7fffffff) return cudaErrorInvalidValue;
  if (chunks == 0) return cudaSuccess;
  switch (id) {
#define X(name, F, inputs, outputs, sums) \
  case BATCHWISE_##name: start<F, inputs, outputs, sums>(l, static_cast<unsigned>(chunks)); break;
    GOSPML_BATCHWISE(X)
#undef X
    case kLargeModify: start<LargeModify, 3, 1, 1>(l, static_cast<unsigned>(chunks)); break;
    default: return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}

cudaError_t run_contrast(bool wide, void* s, const int64_t* id, int64_t n, double* loss, cudaStream_t stream) {
  if (n > 0x7fffffff) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  if (wide)
    contrast<<<static_cast<unsigned>(n), kThreads, 0, stream>>>(static_cast<double*>(s), id, n, loss);
  else
    contrast<<<static_cast<unsigned>(n), kThreads, 0, stream>>>(static_cast<float*>(s), id, n, loss);
  return cudaGetLastError();
}

} // namespace spml::cuda
