// CUDA implementations of spml::vlpl_labels and spml::damp_labels, whose schemas are those of libgospml-ops-cpu.so. The
// softmax is libtorch's, as in the composed forms.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "../pseudo.h"
#include "device.h"
#include "pseudo.h"

namespace spml {
namespace {

using at::Tensor;

VlplLabels vlpl_cuda(const Tensor& cosines, const std::optional<Tensor>& observed, double tau, double theta,
                     int64_t negatives) {
  check_vlpl(cosines, observed, tau, negatives);
  const c10::cuda::CUDAGuard guard(cosines.device());
  const Tensor similarity = at::softmax(cosines.contiguous().div(tau), 1);
  Tensor pseudo = at::empty(cosines.sizes(), cosines.options().dtype(at::kChar)), taken;
  if (observed && observed->defined()) taken = observed->eq(1).to(at::kByte).contiguous();
  cuda::VlplLaunch l{};
  l.similarity = similarity.const_data_ptr();
  l.taken = taken.defined() ? taken.const_data_ptr<uint8_t>() : nullptr;
  l.pseudo = pseudo.mutable_data_ptr<int8_t>();
  l.wide = cosines.scalar_type() == at::kDouble;
  l.photos = cosines.size(0), l.classes = cosines.size(1), l.negatives = negatives;
  l.theta = theta;
  l.stream = c10::cuda::getCurrentCUDAStream().stream();
  C10_CUDA_CHECK(cuda::vlpl_labels(l));
  return {pseudo, similarity};
}

DampLabels damp_cuda(const Tensor& global, const Tensor& patches, const Tensor& observed, double tau, double nu,
                     int64_t top_k, double zeta, double negative, int64_t form) {
  check_damp(global, patches, observed, tau, top_k, negative, form);
  const c10::cuda::CUDAGuard guard(global.device());
  const Tensor whole = at::softmax(global.contiguous().div(tau), 1),
               parts = at::softmax(patches.contiguous().div(tau), 2);
  const Tensor y = plain_observed(observed, global);
  const Tensor taken = y.eq(1).to(at::kByte).contiguous();
  const Tensor seen =
      y.size(0) ? y.to(global.scalar_type()).argmax(1) : at::empty({0}, global.options().dtype(at::kLong));
  DampLabels out = empty_damp(global);
  auto& [labels, scores, local, tile] = out;
  cuda::DampLaunch l{};
  l.global = whole.const_data_ptr();
  l.patches = parts.const_data_ptr();
  l.seen = seen.const_data_ptr<int64_t>();
  l.taken = taken.const_data_ptr<uint8_t>();
  l.labels = labels.mutable_data_ptr<int8_t>();
  l.scores = scores.mutable_data_ptr();
  l.local = local.mutable_data_ptr();
  l.tile = tile.mutable_data_ptr<int64_t>();
  l.wide = global.scalar_type() == at::kDouble;
  l.photos = global.size(0), l.classes = global.size(1), l.count = patches.size(0);
  l.top_k = top_k, l.negatives = static_cast<int64_t>(negative * static_cast<double>(global.size(1))), l.form = form;
  l.nu = nu, l.zeta = zeta;
  l.stream = c10::cuda::getCurrentCUDAStream().stream();
  C10_CUDA_CHECK(cuda::damp_labels(l));
  if (form == kDampPaper) below_quantile(out, negative);
  return out;
}

TORCH_LIBRARY_IMPL(spml, GOSPML_DEVICE, m) {
  m.impl("vlpl_labels", TORCH_FN(vlpl_cuda));
  m.impl("damp_labels", TORCH_FN(damp_cuda));
}

} // namespace
} // namespace spml
