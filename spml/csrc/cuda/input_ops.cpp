// CUDA implementations of spml::normalize_images and spml::resample, whose schemas are those of libgospml-ops-cpu.so.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cmath>

#include "../input.h"
#include "device.h"
#include "input.h"

namespace spml {
namespace {

using at::Tensor;

Tensor normalize_cuda(const Tensor& pixels, const std::optional<Tensor>& flip, at::ArrayRef<double> mean,
                      at::ArrayRef<double> std, at::ScalarType dtype, bool channels_last) {
  const Images m = check_images(pixels, flip, mean, std, dtype, channels_last);
  const c10::cuda::CUDAGuard guard(pixels.device());
  Tensor out = empty_images(pixels, m, dtype);
  const Tensor p = pixels.contiguous();
  Tensor f;
  if (flip && flip->defined()) f = flip->to(at::kBool).contiguous();
  cuda::NormalizeLaunch l{};
  l.pixels = p.const_data_ptr<uint8_t>();
  l.flip = f.defined() ? f.const_data_ptr<bool>() : nullptr;
  l.out = out.mutable_data_ptr();
  l.element = dtype == at::kHalf ? cuda::kFloat16 : dtype == at::kBFloat16 ? cuda::kBFloat16 : cuda::kFloat32;
  l.channels_last = channels_last;
  l.images = m.count, l.height = m.height, l.width = m.width;
  for (int c = 0; c < 3; c++) l.mean[c] = m.mean[c], l.std[c] = m.std[c];
  l.stream = c10::cuda::getCurrentCUDAStream().stream();
  C10_CUDA_CHECK(cuda::normalize(l));
  return out;
}

Tensor pass(const Tensor& p, const Tensor& bounds, const Tensor& weights, bool rows) {
  const int32_t* b = bounds.const_data_ptr<int32_t>();
  cuda::ResampleLaunch l{};
  l.axis = {b, b + bounds.size(1), weights.const_data_ptr<int32_t>(), bounds.size(1), weights.size(1)};
  l.rows = rows;
  l.images = p.size(0), l.height = p.size(1), l.width = p.size(2);
  Tensor out = at::empty({l.images, rows ? l.axis.out : l.height, rows ? l.width : l.axis.out, 3}, p.options());
  l.in = p.const_data_ptr<uint8_t>();
  l.out = out.mutable_data_ptr<uint8_t>();
  l.stream = c10::cuda::getCurrentCUDAStream().stream();
  C10_CUDA_CHECK(cuda::resample(l));
  return out;
}

// The tables are not read back: they come from spml/input, which makes them for the size of the pixels.
Tensor resample_cuda(const Tensor& pixels, const Tensor& cb, const Tensor& cw, const Tensor& rb, const Tensor& rw,
                     bool rows_first) {
  check_resample(pixels, cb, cw, rb, rw);
  const c10::cuda::CUDAGuard guard(pixels.device());
  const Tensor p = pixels.contiguous();
  return rows_first ? pass(pass(p, rb, rw, true), cb, cw, false) : pass(pass(p, cb, cw, false), rb, rw, true);
}

TORCH_LIBRARY_IMPL(spml, GOSPML_DEVICE, m) {
  m.impl("normalize_images", TORCH_FN(normalize_cuda));
  m.impl("resample", TORCH_FN(resample_cuda));
}

} // namespace
} // namespace spml
