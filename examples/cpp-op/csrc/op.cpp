// An operator of one's own: softclip(x, limit) = limit · tanh(x / limit), which is x near 0 and never larger than the
// limit.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

namespace {

template <typename F>
at::Tensor each(const at::Tensor& x, F f) {
  const at::Tensor in = x.contiguous();
  at::Tensor out = at::empty_like(in);
  AT_DISPATCH_FLOATING_TYPES(in.scalar_type(), "softclip", [&] {
    const scalar_t* from = in.const_data_ptr<scalar_t>();
    scalar_t* to = out.mutable_data_ptr<scalar_t>();
    at::parallel_for(0, in.numel(), 32768, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i++) to[i] = static_cast<scalar_t>(f(from[i]));
    });
  });
  return out;
}

at::Tensor softclip_cpu(const at::Tensor& x, double limit) {
  TORCH_CHECK_VALUE(limit > 0, "softclip: the limit is ", limit, ", it must be positive");
  return each(x, [limit](double v) { return limit * std::tanh(v / limit); });
}

at::Tensor softclip(const at::Tensor& x, double limit) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("example::softclip", "")
                             .typed<at::Tensor(const at::Tensor&, double)>();
  return op.call(x, limit);
}

struct SoftClip : torch::autograd::Function<SoftClip> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, double limit) {
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor y = softclip(x, limit);
    ctx->save_for_backward({y});
    ctx->saved_data["limit"] = limit;
    return y;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor y = ctx->get_saved_variables()[0] / ctx->saved_data["limit"].toDouble();
    return {grads[0] * (1 - y * y), at::Tensor()}; // written in operators, so second derivatives follow
  }
};

at::Tensor softclip_autograd(const at::Tensor& x, double limit) { return SoftClip::apply(x, limit); }

} // namespace

TORCH_LIBRARY(example, m) { m.def("softclip(Tensor x, float limit) -> Tensor"); }
TORCH_LIBRARY_IMPL(example, CPU, m) { m.impl("softclip", softclip_cpu); }
TORCH_LIBRARY_IMPL(example, Autograd, m) { m.impl("softclip", softclip_autograd); }
