// What the operators of the input check, on every device.
#pragma once

#include <ATen/ATen.h>

#include <optional>

namespace spml {

struct Images {
  int64_t count, height, width;
  bool channels_last;
  float mean[3], std[3];
};

// Checks the arguments of spml::normalize_images.
inline Images check_images(const at::Tensor& pixels, const std::optional<at::Tensor>& flip, at::ArrayRef<double> mean,
                           at::ArrayRef<double> std, at::ScalarType dtype, bool channels_last) {
  constexpr const char* op = "spml::normalize_images";
  TORCH_CHECK(pixels.dim() == 4 && pixels.size(3) == 3 && pixels.scalar_type() == at::kByte, op, ": pixels are ",
              pixels.scalar_type(), pixels.sizes(), ", want uint8 [B, H, W, 3]");
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kHalf || dtype == at::kBFloat16, op, ": the result is ", dtype,
              ", want float32, float16 or bfloat16");
  TORCH_CHECK(mean.size() == 3 && std.size() == 3, op, ": ", mean.size(), " means and ", std.size(),
              " deviations, want 3 of each");
  Images m{pixels.size(0), pixels.size(1), pixels.size(2), channels_last, {}, {}};
  for (int c = 0; c < 3; c++) {
    m.mean[c] = static_cast<float>(mean[c]);
    m.std[c] = static_cast<float>(std[c]);
    TORCH_CHECK(std::isfinite(m.mean[c]) && std::isfinite(m.std[c]) && m.std[c] != 0, op, ": channel ", c, " has mean ",
                mean[c], " and deviation ", std[c]);
  }
  if (flip && flip->defined()) {
    TORCH_CHECK(flip->dim() == 1 && flip->size(0) == m.count &&
                    (flip->scalar_type() == at::kBool || flip->scalar_type() == at::kByte),
                op, ": flip is ", flip->scalar_type(), flip->sizes(), ", want bool [", m.count, "]");
    TORCH_CHECK(flip->device() == pixels.device(), op, ": flip is on ", flip->device(), ", pixels on ",
                pixels.device());
  }
  return m;
}

inline at::Tensor empty_images(const at::Tensor& pixels, const Images& m, at::ScalarType dtype) {
  return at::empty({m.count, 3, m.height, m.width},
                   pixels.options().dtype(dtype).memory_format(m.channels_last ? at::MemoryFormat::ChannelsLast
                                                                               : at::MemoryFormat::Contiguous));
}

// Checks the tables of one axis of spml::resample on the host. They are tensors on the device of the pixels.
inline void check_axis(const char* name, const at::Tensor& bounds, const at::Tensor& weights,
                       const at::Tensor& pixels) {
  constexpr const char* op = "spml::resample";
  TORCH_CHECK(bounds.dim() == 2 && bounds.size(0) == 2 && bounds.scalar_type() == at::kInt && weights.dim() == 2 &&
                  weights.scalar_type() == at::kInt && weights.size(0) == bounds.size(1) && bounds.is_contiguous() &&
                  weights.is_contiguous(),
              op, ": the tables of ", name, " are ", bounds.sizes(), " and ", weights.sizes(),
              ", want int32 [2, out] and [out, taps]");
  TORCH_CHECK(bounds.device() == pixels.device() && weights.device() == pixels.device(), op, ": the tables of ", name,
              " are not on ", pixels.device());
}

inline void check_resample(const at::Tensor& pixels, const at::Tensor& cb, const at::Tensor& cw, const at::Tensor& rb,
                           const at::Tensor& rw) {
  TORCH_CHECK(pixels.dim() == 4 && pixels.size(3) == 3 && pixels.scalar_type() == at::kByte,
              "spml::resample: pixels are ", pixels.scalar_type(), pixels.sizes(), ", want uint8 [B, H, W, 3]");
  check_axis("columns", cb, cw, pixels);
  check_axis("rows", rb, rw, pixels);
}

} // namespace spml
