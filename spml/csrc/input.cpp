// From bytes to the network's input: spml::normalize_images (mirror, normalise, type and layout in one pass) and
// spml::resample (Pillow's resizing), with their CPU kernels.
#include <torch/library.h>

#include <omp.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "input.h"
#include "input_math.h"

#if defined(__x86_64__)
#define GOSPML_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GOSPML_CLONES
#endif

namespace spml {
namespace {

using at::Tensor;

// Values by table, and whether a product and a correction in place of each division give the same bits for all 256 of
// them.
struct Constants {
  float table[3][256];
  float mean[48], std[48], inverse[48]; // of 16 pixels
  bool quick;
};

// n values of pixels whose channels repeat (channels_last), 48 at a time.
GOSPML_CLONES void quick_pixels(const uint8_t* __restrict in, float* __restrict out, int64_t n, const Constants& k) {
  constexpr float by = 1.0f / 255.0f;
  int64_t i = 0;
  for (; i + 48 <= n; i += 48)
    for (int j = 0; j < 48; j++) {
      const float v = static_cast<float>(in[i + j]);
      float q = v * by;
      q = __builtin_fmaf(__builtin_fmaf(-q, 255.0f, v), by, q);
      const float s = q - k.mean[j];
      q = s * k.inverse[j];
      out[i + j] = __builtin_fmaf(__builtin_fmaf(-q, k.std[j], s), k.inverse[j], q);
    }
  for (int j = 0; i < n; i++, j++) out[i] = k.table[j % 3][in[i]];
}

// n values of one channel.
GOSPML_CLONES void quick_plane(const uint8_t* __restrict in, float* __restrict out, int64_t n, const Constants& k,
                               int c) {
  constexpr float by = 1.0f / 255.0f;
  const float mean = k.mean[c], std = k.std[c], inverse = k.inverse[c];
  for (int64_t i = 0; i < n; i++) {
    const float v = static_cast<float>(in[i]);
    float q = v * by;
    q = __builtin_fmaf(__builtin_fmaf(-q, 255.0f, v), by, q);
    const float s = q - mean;
    q = s * inverse;
    out[i] = __builtin_fmaf(__builtin_fmaf(-q, std, s), inverse, q);
  }
}

bool fused_multiply_add() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

void prepare(Constants& k, const Images& m) {
  uint8_t all[256];
  float got[256];
  for (int v = 0; v < 256; v++) all[v] = static_cast<uint8_t>(v);
  for (int j = 0; j < 48; j++) {
    k.mean[j] = m.mean[j % 3];
    k.std[j] = m.std[j % 3];
    k.inverse[j] = 1.0f / k.std[j];
  }
  k.quick = fused_multiply_add();
  for (int c = 0; c < 3; c++) {
    for (int v = 0; v < 256; v++) k.table[c][v] = normal(all[v], m.mean[c], m.std[c]);
    if (!k.quick) continue;
    quick_plane(all, got, 256, k, c);
    k.quick = std::memcmp(got, k.table[c], sizeof got) == 0;
  }
}

template <class T>
T narrow(float x) {
  return static_cast<T>(x);
}

// PixelRows of one image: bytes in, values out. Buffers belong to the thread.
template <class T>
class PixelRows {
 public:
  PixelRows(const Images& m, const Constants& k)
      : m_(m),
        k_(k),
        bytes_(static_cast<size_t>(3 * m.width)),
        values_(sizeof(T) == 4 ? 0 : static_cast<size_t>(3 * m.width)) {}

  void row(const uint8_t* in, T* image, int64_t y, bool flip) {
    const int64_t w = m_.width;
    if (m_.channels_last) {
      if (flip) {
        for (int64_t x = 0; x < w; x++) std::memcpy(&bytes_[static_cast<size_t>(3 * (w - 1 - x))], in + 3 * x, 3);
        in = bytes_.data();
      }
      values(in, image + y * w * 3, 3 * w, -1);
      return;
    }
    for (int c = 0; c < 3; c++) {
      if (flip)
        for (int64_t x = 0; x < w; x++) bytes_[static_cast<size_t>(x)] = in[3 * (w - 1 - x) + c];
      else
        for (int64_t x = 0; x < w; x++) bytes_[static_cast<size_t>(x)] = in[3 * x + c];
      values(bytes_.data(), image + (c * m_.height + y) * w, w, c);
    }
  }

 private:
  // c < 0: channels repeat.
  void values(const uint8_t* in, T* out, int64_t n, int c) {
    if constexpr (sizeof(T) == 4) {
      floats(in, out, n, c);
    } else {
      floats(in, values_.data(), n, c);
      for (int64_t i = 0; i < n; i++) out[i] = narrow<T>(values_[static_cast<size_t>(i)]);
    }
  }

  void floats(const uint8_t* in, float* out, int64_t n, int c) {
    if (k_.quick)
      c < 0 ? quick_pixels(in, out, n, k_) : quick_plane(in, out, n, k_, c);
    else if (c < 0)
      for (int64_t i = 0; i < n; i += 3)
        for (int j = 0; j < 3; j++) out[i + j] = k_.table[j][in[i + j]];
    else
      for (int64_t i = 0; i < n; i++) out[i] = k_.table[c][in[i]];
  }

  const Images& m_;
  const Constants& k_;
  std::vector<uint8_t> bytes_;
  std::vector<float> values_;
};

template <class T>
void normalize(const Images& m, const uint8_t* in, const bool* flip, T* out) {
  Constants k;
  prepare(k, m);
  constexpr int64_t kRows = 32; // of a chunk
  const int64_t parts = (m.height + kRows - 1) / kRows, chunks = m.count * parts, image = m.height * m.width * 3;
  const int threads = omp_in_parallel() ? 1 : static_cast<int>(std::min<int64_t>(omp_get_max_threads(), chunks));
  const auto part = [&](PixelRows<T>& rows, int64_t i) {
    const int64_t b = i / parts, first = i % parts * kRows;
    for (int64_t y = first; y < std::min(m.height, first + kRows); y++)
      rows.row(in + b * image + y * m.width * 3, out + b * image, y, flip && flip[b]);
  };
  if (threads <= 1) {
    PixelRows<T> rows(m, k);
    for (int64_t i = 0; i < chunks; i++) part(rows, i);
    return;
  }
  std::vector<PixelRows<T>> buffers(static_cast<size_t>(threads),
                                    PixelRows<T>(m, k)); // allocated here: nothing may throw within the loop
#pragma omp parallel for schedule(static) num_threads(threads)
  for (int64_t i = 0; i < chunks; i++) part(buffers[static_cast<size_t>(omp_get_thread_num())], i);
}

Tensor normalize_cpu(const Tensor& pixels, const std::optional<Tensor>& flip, at::ArrayRef<double> mean,
                     at::ArrayRef<double> std, at::ScalarType dtype, bool channels_last) {
  const Images m = check_images(pixels, flip, mean, std, dtype, channels_last);
  Tensor out = empty_images(pixels, m, dtype);
  if (out.numel() == 0) return out;
  const Tensor p = pixels.contiguous();
  Tensor f;
  if (flip && flip->defined()) f = flip->to(at::kBool).contiguous();
  const bool* mirrored = f.defined() ? f.const_data_ptr<bool>() : nullptr;
  const uint8_t* in = p.const_data_ptr<uint8_t>();
  switch (dtype) {
    case at::kHalf: normalize(m, in, mirrored, out.mutable_data_ptr<at::Half>()); break;
    case at::kBFloat16: normalize(m, in, mirrored, out.mutable_data_ptr<at::BFloat16>()); break;
    default: normalize(m, in, mirrored, out.mutable_data_ptr<float>());
  }
  return out;
}

Tensor normalize_meta(const Tensor& pixels, const std::optional<Tensor>& flip, at::ArrayRef<double> mean,
                      at::ArrayRef<double> std, at::ScalarType dtype, bool channels_last) {
  return empty_images(pixels, check_images(pixels, flip, mean, std, dtype, channels_last), dtype);
}

Axis axis_of(const Tensor& bounds, const Tensor& weights) {
  const int32_t* b = bounds.const_data_ptr<int32_t>();
  return {b, b + bounds.size(1), weights.const_data_ptr<int32_t>(), bounds.size(1), weights.size(1)};
}

void check_within(const char* name, const Axis& a, int64_t in) {
  for (int64_t i = 0; i < a.out; i++)
    TORCH_CHECK(a.first[i] >= 0 && a.taps[i] >= 0 && a.taps[i] <= a.stride && a.first[i] + int64_t{a.taps[i]} <= in,
                "spml::resample: output ", i, " of ", name, " reads inputs ", a.first[i], " to ",
                a.first[i] + int64_t{a.taps[i]}, " of ", in);
}

Tensor columns(const Tensor& p, const Axis& a) {
  const int64_t b = p.size(0), h = p.size(1), w = p.size(2);
  Tensor out = at::empty({b, h, a.out, 3}, p.options());
  const uint8_t* in = p.const_data_ptr<uint8_t>();
  uint8_t* to = out.mutable_data_ptr<uint8_t>();
  for (int64_t y = 0; y < b * h; y++)
    for (int64_t x = 0; x < a.out; x++)
      for (int c = 0; c < 3; c++) to[(y * a.out + x) * 3 + c] = resampled(a, x, in + y * w * 3 + c, 3);
  return out;
}

Tensor rows(const Tensor& p, const Axis& a) {
  const int64_t n = p.size(0), h = p.size(1), row = p.size(2) * 3;
  Tensor out = at::empty({n, a.out, p.size(2), 3}, p.options());
  const uint8_t* in = p.const_data_ptr<uint8_t>();
  uint8_t* to = out.mutable_data_ptr<uint8_t>();
  for (int64_t b = 0; b < n; b++)
    for (int64_t y = 0; y < a.out; y++)
      for (int64_t x = 0; x < row; x++) to[(b * a.out + y) * row + x] = resampled(a, y, in + b * h * row + x, row);
  return out;
}

Tensor resample_cpu(const Tensor& pixels, const Tensor& cb, const Tensor& cw, const Tensor& rb, const Tensor& rw,
                    bool rows_first) {
  check_resample(pixels, cb, cw, rb, rw);
  const Axis across = axis_of(cb, cw), down = axis_of(rb, rw);
  check_within("columns", across, pixels.size(2));
  check_within("rows", down, pixels.size(1));
  const Tensor p = pixels.contiguous();
  return rows_first ? columns(rows(p, down), across) : rows(columns(p, across), down);
}

TORCH_LIBRARY_FRAGMENT(spml, m) {
  m.def(
      "normalize_images(Tensor pixels, Tensor? flip, float[] mean, float[] std, ScalarType dtype, bool channels_last) "
      "-> Tensor");
  m.def(
      "resample(Tensor pixels, Tensor column_bounds, Tensor column_weights, Tensor row_bounds, Tensor row_weights, "
      "bool rows_first) -> Tensor");
}

TORCH_LIBRARY_IMPL(spml, CPU, m) {
  m.impl("normalize_images", TORCH_FN(normalize_cpu));
  m.impl("resample", TORCH_FN(resample_cpu));
}

TORCH_LIBRARY_IMPL(spml, Meta, m) { m.impl("normalize_images", TORCH_FN(normalize_meta)); }

} // namespace
} // namespace spml
