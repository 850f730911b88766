// gospml::relu6_: torch.nn.ReLU6 in place, which keeps its result for backward. aten::hardtanh_ keeps a copy of its
// input instead: a further pass, and another tensor of the activation's size in memory. min(max(0, x), 6) is inside (0,
// 6) exactly where x is, so both gradients have the same bits.
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/hardtanh_backward.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace {

struct ReLU6 : torch::autograd::Function<ReLU6> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, at::Tensor x) {
    at::hardtanh_(x, 0, 6);
    ctx->mark_dirty({x});
    ctx->save_for_backward({x});
    return x;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 const torch::autograd::variable_list& grads) {
    return {at::hardtanh_backward(grads[0], ctx->get_saved_variables()[0], 0, 6)};
  }
};

void relu6_(at::Tensor x) {
  if (at::GradMode::is_enabled() && x.requires_grad())
    ReLU6::apply(x);
  else
    at::hardtanh_(x, 0, 6);
}

} // namespace

TORCH_LIBRARY_FRAGMENT(gospml, m) { m.def("relu6_(Tensor(a!) self) -> ()"); }

TORCH_LIBRARY_IMPL(gospml, CompositeImplicitAutograd, m) { m.impl("relu6_", relu6_); }
