// The gradient that a backward begins with where nobody gave one: a tensor of ones that says so itself. Nodes that
// would multiply by it need not, also on a device, where reading its value would wait.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/TensorImpl.h>

namespace gs {

struct UnitRoot final : c10::BackendMeta {};

inline at::Tensor unit_root(const at::Tensor& root) {
  at::Tensor one = at::ones_like(root, at::MemoryFormat::Preserve);
  one.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<UnitRoot>());
  return one;
}

// Whether g is such a tensor and was not changed in place since.
inline bool is_unit_root(const at::Tensor& g) {
  auto* impl = g.unsafeGetTensorImpl();
  return !g.is_inference() && dynamic_cast<UnitRoot*>(impl->get_backend_meta()) &&
         impl->version_counter().current_version() == 0 && g.numel() == 1;
}

} // namespace gs
