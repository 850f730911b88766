// The autograd node that all fused losses share: their forward has already computed the gradient.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <initializer_list>
#include <optional>
#include <string_view>

namespace spml {

// An input of a loss and the gradient of the loss with respect to it, undefined where none was asked for.
struct Saved {
  const at::Tensor& input;
  at::Tensor grad;
};

// loss becomes the result of a recorded operation whose backward hands out the saved gradients, times the incoming one.
// op must outlive the graph (a literal). A second derivative and a second backward of a graph that was not kept raise.
at::Tensor with_gradients(std::string_view op, at::Tensor loss, std::initializer_list<Saved> saved);

// Does autograd want a gradient with respect to t?
inline bool wants_grad(const at::Tensor& t) { return t.defined() && t.requires_grad() && c10::GradMode::is_enabled(); }

// Raises where an input carries a forward-mode tangent. constant inputs may not ask for a gradient either: the fused
// form has none for them.
void check_differentiable(std::string_view op, const at::Tensor& t);
void check_constant(std::string_view op, const char* name, const at::Tensor& t);

} // namespace spml
