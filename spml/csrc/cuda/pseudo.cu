// From softmaxes to pseudo-labels on the card: a block a photo aggregates the patches, compares thresholds and selects.
// The order of sums and the rule of ties are those of spml/csrc/pseudo.cpp.
#include "pseudo.h"
#include "launch.h"

namespace {

using spml::cuda::DampLaunch;
using spml::cuda::VlplLaunch;

constexpr int kThreadsOfPhoto = 256;
constexpr int kBits = 8; // of a digit of the radix selection

__device__ uint32_t digits_of(int32_t order) { return static_cast<uint32_t>(order) ^ 0x80000000u; }
__device__ uint64_t digits_of(int64_t order) { return static_cast<uint64_t>(order) ^ 0x8000000000000000ull; }

// Calls mark(c) for the lowest k of the classes with use(c), by key(c), ties to the lower class. All threads of the
// block call it; what the other threads wrote before is seen. A radix selection finds the k-th key, 8 bits a round;
// then the classes are walked in strips of the block, and equal ones counted in order.
template <class Key, class Use, class Mark>
__device__ void each_lowest(int64_t classes, int64_t k, const Key& key, const Use& use, const Mark& mark) {
  using U = decltype(digits_of(key(int64_t{0})));
  constexpr int width = 8 * sizeof(U);
  __shared__ unsigned long long bins[1 << kBits];
  __shared__ unsigned long long left; // of k, among the keys that share the prefix
  __shared__ unsigned chosen;
  __shared__ unsigned of_warp[kThreadsOfPhoto / 32];
  U prefix = 0;
  __syncthreads();
  if (threadIdx.x == 0) left = static_cast<unsigned long long>(k < 0 ? 0 : k);
  for (int shift = width - kBits; shift >= 0; shift -= kBits) {
    bins[threadIdx.x] = 0;
    __syncthreads();
    for (int64_t c = threadIdx.x; c < classes; c += kThreadsOfPhoto) {
      if (!use(c)) continue;
      const U d = digits_of(key(c));
      if (shift + kBits < width && (d >> (shift + kBits)) != (prefix >> (shift + kBits))) continue;
      atomicAdd(&bins[(d >> shift) & ((1u << kBits) - 1)], 1ull);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned b = 0;
      while (b < (1u << kBits) - 1 && bins[b] < left) left -= bins[b++];
      chosen = b;
    }
    __syncthreads();
    prefix |= static_cast<U>(chosen) << shift;
  }
  unsigned long long ties = left, before = 0; // equal ones that are taken, and those in earlier strips
  for (int64_t from = 0; from < classes; from += kThreadsOfPhoto) {
    const int64_t c = from + threadIdx.x;
    bool below = false, equal = false;
    if (k > 0 && c < classes && use(c)) {
      const U d = digits_of(key(c));
      below = d < prefix;
      equal = d == prefix;
    }
    const unsigned votes = __ballot_sync(0xffffffff, equal), lane = threadIdx.x % 32;
    if (lane == 0) of_warp[threadIdx.x / 32] = __popc(votes);
    __syncthreads();
    unsigned long long at = before + __popc(votes & ((1u << lane) - 1)), all = 0;
    for (unsigned w = 0; w < kThreadsOfPhoto / 32; w++) {
      if (w < threadIdx.x / 32) at += of_warp[w];
      all += of_warp[w];
    }
    if (below || (equal && at < ties)) mark(c);
    before += all;
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(kThreadsOfPhoto) vlpl_photo(const VlplLaunch l) {
  for (int64_t b = blockIdx.x; b < l.photos; b += gridDim.x) {
    const T* p = static_cast<const T*>(l.similarity) + b * l.classes;
    int8_t* out = l.pseudo + b * l.classes;
    const uint8_t* taken = l.taken ? l.taken + b * l.classes : nullptr;
    const T theta = static_cast<T>(l.theta);
    __shared__ unsigned long long free;
    if (threadIdx.x == 0) free = 0;
    __syncthreads();
    unsigned long long mine = 0;
    for (int64_t c = threadIdx.x; c < l.classes; c += kThreadsOfPhoto) {
      out[c] = p[c] > theta;
      mine += !out[c] && !(taken && taken[c]);
    }
    if (taken) atomicAdd(&free, mine);
    __syncthreads();
    if (l.negatives == 0) continue;
    const int64_t k = taken && static_cast<int64_t>(free) < l.negatives ? static_cast<int64_t>(free) : l.negatives;
    // What is marked is -1 from then on; whoever asks for it again asks about its own class alone.
    each_lowest(
        l.classes, k, [&](int64_t c) { return spml::order_of(p[c]); },
        [&](int64_t c) { return !taken || (!(p[c] > theta) && !taken[c]); }, [&](int64_t c) { out[c] = -1; });
  }
}

template <class T>
__global__ void __launch_bounds__(kThreadsOfPhoto) damp_photo(const DampLaunch l) {
  const int64_t n = l.photos * l.classes;
  const T nu = static_cast<T>(l.nu), zeta = static_cast<T>(l.zeta), half = static_cast<T>(0.5);
  for (int64_t b = blockIdx.x; b < l.photos; b += gridDim.x) {
    const int64_t at = b * l.classes;
    const T* global = static_cast<const T*>(l.global) + at;
    T* scores = static_cast<T*>(l.scores) + at;
    T *agg = scores, *final = scores + n, *average = scores + 2 * n, *soft = scores + 3 * n, *top = scores + 4 * n;
    int8_t *pseudo = l.labels + at, *before = l.labels + n + at;
    const T s = global[l.seen[b]], local = s > nu ? nu : s;
    if (threadIdx.x == 0) static_cast<T*>(l.local)[b] = local;
    for (int64_t c = threadIdx.x; c < l.classes; c += kThreadsOfPhoto) {
      const T* p = static_cast<const T*>(l.patches) + at + c;
      T best = *p, worst = best, sum = best;
      int64_t tile = 0;
      for (int64_t v = 1; v < l.count; v++) { // NaN stays, of equal ones the first
        const T x = p[v * n];
        if (!(x <= best) && best == best) best = x, tile = v;
        if (!(x >= worst) && worst == worst) worst = x;
        sum += x;
      }
      const T a = (l.form == spml::kDampCode ? best > local : best >= local) ? best : worst;
      agg[c] = a;
      final[c] = (global[c] + a) * half;
      average[c] = (global[c] + sum / static_cast<T>(l.count)) * half;
      soft[c] = global[c];
      top[c] = best;
      l.tile[at + c] = tile;
      before[c] = 0;
    }
    __syncthreads();
    const auto all = [](int64_t) { return true; };
    each_lowest(
        l.classes, l.top_k < l.classes ? l.top_k : l.classes, [&](int64_t c) { return ~spml::order_of(final[c]); }, all,
        [&](int64_t c) { before[c] = final[c] >= zeta; });
    if (l.form == spml::kDampPaper) continue; // what follows is of all photos at once
    __syncthreads();
    for (int64_t c = threadIdx.x; c < l.classes; c += kThreadsOfPhoto) pseudo[c] = before[c];
    __syncthreads();
    if (l.negatives == 0) continue;
    const uint8_t* taken = l.taken + at;
    const bool take = l.form != spml::kDampDefault;
    const int8_t low = l.form == spml::kDampCode ? 0 : -1;
    each_lowest(
        l.classes, l.negatives, [&](int64_t c) { return spml::order_of(average[c]); }, all,
        [&](int64_t c) {
          if (take || (before[c] == 0 && !taken[c])) pseudo[c] = low;
        });
  }
}

unsigned blocks_of(int64_t photos) { return static_cast<unsigned>(photos < 65536 ? photos : 65536); }

} // namespace

namespace spml::cuda {

cudaError_t vlpl_labels(const VlplLaunch& l) {
  if (l.photos * l.classes == 0) return cudaSuccess;
  if (l.wide)
    spml::cuda::launch(vlpl_photo<double>, blocks_of(l.photos), kThreadsOfPhoto, l.stream, l);
  else
    spml::cuda::launch(vlpl_photo<float>, blocks_of(l.photos), kThreadsOfPhoto, l.stream, l);
  return cudaGetLastError();
}

cudaError_t damp_labels(const DampLaunch& l) {
  if (l.photos * l.classes == 0) return cudaSuccess;
  if (l.wide)
    spml::cuda::launch(damp_photo<double>, blocks_of(l.photos), kThreadsOfPhoto, l.stream, l);
  else
    spml::cuda::launch(damp_photo<float>, blocks_of(l.photos), kThreadsOfPhoto, l.stream, l);
  return cudaGetLastError();
}

} // namespace spml::cuda
