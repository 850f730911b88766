#include "autograd.h"

#include "../../torch/csrc/node.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include "../../torch/csrc/direct.h"
#include "../../torch/csrc/unit_root.h"

namespace spml {
namespace {

using torch::autograd::edge_list;
using torch::autograd::variable_list;

// 1 where that can be read without waiting for a device or asking a subclass. A recorded step must not depend on it;
// while one is recorded, this key is on.
bool is_plain_one(const at::Tensor& g) {
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Fake)) return false;
  if (gs::is_unit_root(g)) return true;
  if (!g.device().is_cpu() || g.numel() != 1 || !g.has_storage() || !g.storage().data_ptr()) return false;
  const auto keys = g.key_set();
  if (keys.has(c10::DispatchKey::Python) || keys.has(c10::DispatchKey::Functionalize) || g.is_neg()) return false;
  switch (g.scalar_type()) {
    case at::kFloat: return *g.const_data_ptr<float>() == 1;
    case at::kDouble: return *g.const_data_ptr<double>() == 1;
    default: return false;
  }
}

// A node of our own and not torch::autograd::Function: saved variables cost microseconds, and a second buffer, because
// AccumulateGrad must copy what a saved variable still holds.
struct LossNode final : gs::DirectNode {
  struct Slot {
    at::Tensor grad;
    at::ScalarType type; // of the input
  };
  std::string_view op;
  std::vector<Slot> slots;
  bool released = false;

  std::string name() const override { return std::string(op); }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    slots.clear();
    released = true;
  }

  void check_released() const {
    TORCH_CHECK(!released, op, ": backward a second time: keep the graph (retain_graph) or use impl=composed");
  }

  variable_list direct() override {
    std::lock_guard<std::mutex> lock(mutex_);
    check_released();
    released = true;
    variable_list out(slots.size());
    for (size_t i = 0; i < slots.size(); i++)
      if (slots[i].grad.defined())
        out[i] =
            slots[i].grad.scalar_type() == slots[i].type ? std::move(slots[i].grad) : slots[i].grad.to(slots[i].type);
    slots.clear();
    return out;
  }

  variable_list apply(variable_list&& incoming) override {
    std::lock_guard<std::mutex> lock(mutex_);
    TORCH_CHECK(!c10::GradMode::is_enabled(), op,
                ": the fused form saves its gradient and has no second derivative; use impl=composed for backward with "
                "create_graph");
    check_released();
    const at::Tensor& g = incoming[0];
    variable_list out(slots.size());
    if (!g.defined()) return out;
    const bool keep = torch::autograd::get_current_graph_task_keep_graph(), one = is_plain_one(g);
    for (size_t i = 0; i < slots.size(); i++) {
      Slot& s = slots[i];
      if (!s.grad.defined() || !task_should_compute_output(i)) continue;
      if (s.grad.scalar_type() != s.type) { // half inputs, gradient in float
        out[i] = at::empty_like(s.grad, s.grad.options().dtype(s.type));
        at::mul_out(out[i], s.grad, g);
      } else if (keep) {
        out[i] = s.grad.mul(g);
      } else {
        out[i] = std::move(s.grad);
        if (!one) out[i].mul_(g);
      }
    }
    return out;
  }
};

} // namespace

at::Tensor with_gradients(std::string_view op, at::Tensor loss, std::initializer_list<Saved> saved) {
  auto node = gs::make_node<LossNode>();
  edge_list edges;
  edges.reserve(saved.size());
  node->slots.reserve(saved.size());
  for (const Saved& s : saved) {
    edges.push_back(s.grad.defined() ? torch::autograd::impl::gradient_edge(s.input) : torch::autograd::Edge());
    node->slots.push_back({s.grad, s.input.defined() ? s.input.scalar_type() : at::kFloat});
  }
  node->op = op;
  node->set_next_edges(std::move(edges));
  torch::autograd::set_history(loss, node);
  return loss;
}

void check_differentiable(std::string_view op, const at::Tensor& t) {
  TORCH_CHECK(!t.defined() || !t._fw_grad(0).defined(), op,
              ": the fused form has no forward-mode derivative; use impl=composed");
}

void check_constant(std::string_view op, const char* name, const at::Tensor& t) {
  check_differentiable(op, t);
  TORCH_CHECK(!wants_grad(t), op, ": the fused form has no gradient with respect to ", name,
              "; use impl=composed, or detach it");
}

} // namespace spml
