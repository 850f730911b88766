// Losses whose terms depend on the whole batch: one pass over the entries, with the formulas of the CPU
// (spml/csrc/batch_math.h), and the rows of LAC's contrast.
#include "../loss_math.h"
#include "../batch_math.h"
#include "../batchwise.h"
#include "batch.h"
#include "launch.h"
#include "pack.cuh"
#include "reduce.cuh"
#include "usual.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

namespace {

using spml::cuda::BatchLaunch;
using spml::cuda::kChunk;
using spml::cuda::kPerThread;
using spml::cuda::kThreads;
using spml::cuda::Tensors;

constexpr int kPack = 4; // elements that a thread moves at once

template <class T>
__device__ T widen(float x) {
  return static_cast<T>(x);
}
template <class T>
__device__ T widen(double x) {
  return static_cast<T>(x);
}
template <class T>
__device__ T widen(int8_t x) {
  return static_cast<T>(x);
}
template <class T>
__device__ T widen(__half x) {
  return static_cast<T>(__half2float(x));
}
template <class T>
__device__ T widen(__nv_bfloat16 x) {
  return static_cast<T>(__bfloat162float(x));
}
template <class E, class T>
__device__ E narrow(T x) {
  if constexpr (std::is_same_v<E, __half>)
    return __float2half(static_cast<float>(x));
  else if constexpr (std::is_same_v<E, __nv_bfloat16>)
    return __float2bfloat16_rn(static_cast<float>(x));
  else
    return static_cast<E>(x);
}

template <class T, class E>
__device__ void read_as(const void* data, int64_t at, int n, bool whole, T* out) {
  const auto* p = static_cast<const E*>(data);
  const auto pack = spml::cuda::load<kPack>(p + at, n, whole && spml::cuda::aligned<kPack>(p));
#pragma unroll
  for (int j = 0; j < kPack; j++) out[j] = widen<T>(pack.v[j]);
}

// Types are the same for all threads, so the branch costs nothing beside the memory access.
template <class T>
__device__ void read(const Tensors& t, int64_t at, int n, bool whole, T* out) {
  switch (t.element) {
    case spml::cuda::kFloat32: return read_as<T, float>(t.data, at, n, whole, out);
    case spml::cuda::kFloat64: return read_as<T, double>(t.data, at, n, whole, out);
    case spml::cuda::kFloat16: return read_as<T, __half>(t.data, at, n, whole, out);
    case spml::cuda::kBFloat16: return read_as<T, __nv_bfloat16>(t.data, at, n, whole, out);
    default: return read_as<T, int8_t>(t.data, at, n, whole, out);
  }
}

template <class T, class E>
__device__ void write_as(void* data, int64_t at, int n, bool whole, const T* x) {
  auto* p = static_cast<E*>(data);
  spml::cuda::Pack<E, kPack> pack;
#pragma unroll
  for (int j = 0; j < kPack; j++) pack.v[j] = narrow<E>(x[j]);
  spml::cuda::store<kPack>(p + at, pack, n, whole && spml::cuda::aligned<kPack>(p));
}

template <class T>
__device__ void write(const Tensors& t, int64_t at, int n, bool whole, const T* x) {
  switch (t.element) {
    case spml::cuda::kFloat32: return write_as<T, float>(t.data, at, n, whole, x);
    case spml::cuda::kFloat64: return write_as<T, double>(t.data, at, n, whole, x);
    case spml::cuda::kFloat16: return write_as<T, __half>(t.data, at, n, whole, x);
    case spml::cuda::kBFloat16: return write_as<T, __nv_bfloat16>(t.data, at, n, whole, x);
    default: return write_as<T, int8_t>(t.data, at, n, whole, x);
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

template <template <class> class F, int Inputs, int Outputs, int Sums, bool Usual, class T>
__global__ void __launch_bounds__(kThreads) pass(const BatchLaunch l) {
  double params[spml::cuda::kMaxParams];
#pragma unroll
  for (int i = 0; i < spml::cuda::kMaxParams; i++) {
    params[i] = l.params[i];
#pragma unroll
    for (int k = 0; k < spml::cuda::kMaxLates;
         k++) // no index that is known late, which would put the array into memory
      if (k < l.lates && l.late[k].slot == i) params[i] = l.late[k].factor * *l.late[k].value;
  }
  F<T> f(params);
  spml::cuda::settle<Usual>(f);
  T sum[3] = {0, 0, 0};
  const int64_t chunk = static_cast<int64_t>(blockIdx.x) * kChunk;
  const bool whole = chunk + kChunk <= l.n;
  for (int i = 0; i < kPerThread / kPack; i++) {
    const int64_t at = chunk + (i * kThreads + static_cast<int>(threadIdx.x)) * kPack;
    const int n = whole ? kPack : static_cast<int>(at >= l.n ? 0 : l.n - at < kPack ? l.n - at : kPack);
    if (n == 0) break;
    T in[Inputs][kPack], out[Outputs ? Outputs : 1][kPack] = {};
#pragma unroll
    for (int k = 0; k < Inputs; k++) read(l.in[k], at, n, whole, in[k]);
    bool use[kPack];
    if (l.counts) {
      spml::cuda::RowWalk row(at, l.n, l.classes);
#pragma unroll
      for (int j = 0; j < kPack; j++, row.step()) use[j] = j < n && l.counts[row.row];
    } else {
#pragma unroll
      for (int j = 0; j < kPack; j++) use[j] = j < n;
    }
#pragma unroll
    for (int j = 0; j < kPack; j++) {
      if (!use[j]) continue;
      T x[3], y[2] = {0, 0};
#pragma unroll
      for (int k = 0; k < Inputs; k++) x[k] = in[k][j];
      f(x, y, sum);
#pragma unroll
      for (int k = 0; k < Outputs; k++) out[k][j] = y[k];
    }
#pragma unroll
    for (int k = 0; k < Outputs; k++)
      if (l.out[k].data) write(l.out[k], at, n, whole, out[k]);
  }
  for (int k = 0; k < 3; k++) {
    const double total = k < Sums ? spml::cuda::block_sum<kThreads>(sum[k]) : 0;
    if (threadIdx.x == 0) l.partial[3 * static_cast<int64_t>(blockIdx.x) + k] = total;
  }
}

template <template <class> class F, int Inputs, int Outputs, int Sums>
void start(const BatchLaunch& l, unsigned chunks) {
  if (l.wide)
    spml::cuda::launch(pass<F, Inputs, Outputs, Sums, false, double>, chunks, kThreads, l.stream, l);
  else if (spml::cuda::usual<F<float>>(l.params))
    spml::cuda::launch(pass<F, Inputs, Outputs, Sums, true, float>, chunks, kThreads, l.stream, l);
  else
    spml::cuda::launch(pass<F, Inputs, Outputs, Sums, false, float>, chunks, kThreads, l.stream, l);
}

__global__ void __launch_bounds__(kThreads) tally(const spml::cuda::Tally t) {
  using spml::cuda::Tally;
  double sums[3] = {0, 0, 0};
  for (int64_t i = threadIdx.x; i < t.chunks; i += kThreads)
    for (int k = 0; k < 3; k++) sums[k] += t.partial[3 * i + k];
  for (int k = 0; k < 3; k++) sums[k] = spml::cuda::block_sum<kThreads>(sums[k]);
  if (threadIdx.x) return;
  const double rows = static_cast<double>(t.count ? *t.count : t.rows), classes = static_cast<double>(t.classes);
  const double terms = t.reduction == 1 ? rows * classes : rows, scale = t.reduction == 2 ? 1
                                                                         : terms > 0      ? 1 / terms
                                                                                          : 0;
  double* out = t.numbers + t.at;
  if (t.kind != Tally::kLoss) {
    out[0] = scale;
    if (t.kind == Tally::kScale) return;
    const bool some = rows > 0 && classes > 0;
    const double off = some ? sums[0] / rows - t.k : 0;
    out[1] = some ? off / classes * (off / classes) : 0;
    out[2] = some ? 2 * off / (classes * classes * rows) : 0;
    return;
  }
  double loss = sums[0] * scale * t.factor;
  for (int i = 0; i < t.slots; i++) loss += t.weight[i] * t.numbers[t.slot[i]];
  if (t.lam != 0) {
    double over = t.over_rows ? rows : sums[2];
    if (over < 1) over = 1;
    loss += t.lam * (sums[1] / over);
    out[0] = t.lam / over;
  }
  if (t.wide)
    *static_cast<double*>(t.loss) = loss;
  else
    *static_cast<float*>(t.loss) = static_cast<float>(loss);
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
  if (mine < 0) { // all threads of the block
    for (int64_t j = threadIdx.x; j < n; j += kThreads) row[j] = T(0);
    if (threadIdx.x == 0) loss[i] = 0;
    return;
  }
  T top = -INFINITY;
  double positives = 0;
  double count = 0, all = 0;
  for (int64_t j = threadIdx.x; j < n; j += kThreads) {
    if (id[j] < 0) continue;
    all += 1;
    if (j == i) continue;
    top = largest(row[j], top);
    if (id[j] != mine) continue;
    positives += row[j];
    count += 1;
  }
  top = block_max(top);
  double total = 0;
  for (int64_t j = threadIdx.x; j < n; j += kThreads)
    if (j != i && id[j] >= 0) total += power(row[j] - top);
  positives = spml::cuda::block_sum<kThreads>(positives);
  count = spml::cuda::block_sum<kThreads>(count);
  all = spml::cuda::block_sum<kThreads>(all);
  total = spml::cuda::block_sum<kThreads>(total);
  if (threadIdx.x == 0) {
    shared[0] = count;
    shared[1] = total;
    shared[2] = all;
    loss[i] = -(positives / count - (static_cast<double>(top) + log(total))) / all;
  }
  __syncthreads();
  const double each = 1 / shared[2], share = each / shared[0], soft = each / shared[1];
  for (int64_t j = threadIdx.x; j < n; j += kThreads)
    row[j] = j == i || id[j] < 0 ? T(0) : static_cast<T>(power(row[j] - top) * soft - (id[j] == mine ? share : 0));
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

cudaError_t run_tally(const Tally& t) {
  spml::cuda::launch(tally, 1, kThreads, t.stream, t);
  return cudaGetLastError();
}

cudaError_t run_contrast(bool wide, void* s, const int64_t* id, int64_t n, double* loss, cudaStream_t stream) {
  if (n > 0x7fffffff) return cudaErrorInvalidValue;
  if (n == 0) return cudaSuccess;
  if (wide)
    spml::cuda::launch(contrast<double>, static_cast<unsigned>(n), kThreads, stream, static_cast<double*>(s), id, n,
                       loss);
  else
    spml::cuda::launch(contrast<float>, static_cast<unsigned>(n), kThreads, stream, static_cast<float*>(s), id, n,
                       loss);
  return cudaGetLastError();
}

} // namespace spml::cuda
