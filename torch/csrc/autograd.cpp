// Backward, gradients and the thread-local modes.
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

#include "direct.h"
#include "shim.h"
#include "unit_root.h"

namespace gs {
namespace {

bool hooked(torch::autograd::Node& n) {
  return !n.pre_hooks().empty() || !n.post_hooks().empty() || !n.tensor_pre_hooks().empty() ||
         !n.retains_grad_hooks().empty();
}

// Backward without the engine, whose set-up takes 8 µs, for a root whose node has its gradients and hands them to
// leaves, with nothing that watches: no hooks, no anomaly mode. Did that apply?
bool straight(const at::Tensor& root) {
  if (!root.defined() || !root.device().is_cpu() || root.numel() != 1 || torch::autograd::AnomalyMode::is_enabled())
    return false;
  const auto fn = root.grad_fn();
  auto* node = dynamic_cast<DirectNode*>(fn.get());
  if (!node || hooked(*node)) return false;
  for (const auto& edge : node->next_edges()) {
    if (!edge.is_valid()) continue;
    auto* leaf = dynamic_cast<torch::autograd::AccumulateGrad*>(edge.function.get());
    if (!leaf || hooked(*leaf) || leaf->tensor_post_acc_grad_hooks()) return false;
  }
  const c10::AutoGradMode off(false);
  auto grads = node->direct();
  for (size_t i = 0; i < grads.size(); i++) {
    if (!grads[i].defined()) continue;
    torch::autograd::variable_list one;
    one.push_back(std::move(grads[i]));
    (*node->next_edge(i).function)(std::move(one));
  }
  return true;
}

} // namespace

gs_result backward(const uint64_t* roots, size_t n, const uint64_t* grads, const uint64_t* inputs, size_t ninputs,
                   int retain, int create, uint32_t flags) {
  return guarded([&](gs_result&) {
    set_team(thread(), flags);
    if (n == 1 && !grads && !ninputs && !retain && !create && straight(tensor_of(roots[0]))) return;
    // Off the CPU a node cannot look whether it is to multiply by one.
    if (n == 1 && !grads && !create) {
      const at::Tensor root = tensor_of(roots[0]);
      if (root.defined() && root.requires_grad() && root.numel() == 1 && !root.device().is_cpu() &&
          !root.is_complex()) {
        torch::autograd::backward({root}, {unit_root(root)}, retain != 0, false, list(inputs, ninputs));
        return;
      }
    }
    torch::autograd::backward(list(roots, n), grads ? list(grads, n) : std::vector<at::Tensor>{}, retain != 0,
                              create != 0, list(inputs, ninputs));
  });
}

gs_result grad(const uint64_t* outputs, size_t n, const uint64_t* inputs, size_t ninputs, const uint64_t* grad_outputs,
               int retain, int create, int allow_unused, uint32_t flags) {
  return guarded([&](gs_result& r) {
    set_team(thread(), flags);
    auto g = torch::autograd::grad(list(outputs, n), list(inputs, ninputs),
                                   grad_outputs ? list(grad_outputs, n) : std::vector<at::Tensor>{}, retain != 0,
                                   create != 0, allow_unused != 0);
    put_tensors(r, std::move(g));
  });
}

gs_result get_grads(const uint64_t* h, size_t n) {
  return guarded([&](gs_result& r) {
    std::vector<at::Tensor> g;
    g.reserve(n);
    for (size_t i = 0; i < n; i++) g.push_back(tensor_of(h[i]).grad());
    put_tensors(r, std::move(g));
  });
}

gs_result set_grad(uint64_t h, uint64_t g) {
  return guarded([&](gs_result&) {
    const at::Tensor t = tensor_of(h), grad = tensor_of(g);
    if (grad.defined()) {
      TORCH_CHECK(grad.sizes() == t.sizes(), "assigned grad has shape ", grad.sizes(), ", the tensor has ", t.sizes());
      TORCH_CHECK(grad.scalar_type() == t.scalar_type(), "assigned grad has dtype ", grad.scalar_type(),
                  ", the tensor has ", t.scalar_type());
      TORCH_CHECK(grad.device() == t.device(), "assigned grad is on ", grad.device(), ", the tensor on ", t.device());
    }
    t.mutable_grad() = grad;
  });
}

gs_result zero_grads(const uint64_t* h, size_t n, int set_to_none) {
  return guarded([&](gs_result&) {
    for (size_t i = 0; i < n; i++) {
      at::Tensor& g = tensor_of(h[i]).mutable_grad();
      if (!g.defined()) continue;
      if (set_to_none) {
        g.reset();
      } else {
        if (g.grad_fn())
          g = g.detach();
        else
          g.requires_grad_(false);
        g.zero_();
      }
    }
  });
}

gs_result set_requires_grad(uint64_t h, int on) {
  return guarded([&](gs_result&) {
    const at::Tensor t = tensor_of(h);
    TORCH_CHECK(t.is_leaf() || on, "requires_grad can be cleared on leaf tensors only; use Detach for a result");
    t.requires_grad_(on != 0);
  });
}

gs_result set_data(uint64_t h, uint64_t source) {
  return guarded([&](gs_result&) { tensor_of(h).set_data(tensor_of(source)); });
}

gs_result grad_fn(uint64_t h) {
  return guarded([&](gs_result& r) {
    const auto fn = tensor_of(h).grad_fn();
    if (!fn) return;
    const std::string name = fn->name();
    const size_t colons = name.rfind("::");
    put(r, GS_STR,
        reinterpret_cast<uint64_t>(text_block(colons == std::string::npos ? name : name.substr(colons + 2))));
  });
}

int mode(int which) {
  switch (which) {
    case GS_MODE_GRAD: return c10::GradMode::is_enabled();
    case GS_MODE_INFERENCE: return c10::InferenceMode::is_enabled();
    default: return -1;
  }
}

gs_result enter(int which, int on) {
  return guarded([&](gs_result& r) {
    Thread& t = thread();
    switch (which) {
      case GS_MODE_GRAD:
        put(r, GS_INT, c10::GradMode::is_enabled());
        c10::GradMode::set_enabled(on != 0);
        break;
      case GS_MODE_INFERENCE:
        put(r, GS_INT, 0);
        t.inference.push_back(std::make_unique<c10::InferenceMode>(on != 0));
        break;
      case GS_MODE_STEADY: put(r, GS_INT, 0); break;
      default: throw CallError("no such mode");
    }
    t.steady++;
  });
}

gs_result leave(int which, int before) {
  return guarded([&](gs_result&) {
    Thread& t = thread();
    if (!t.steady) throw CallError("no mode was entered on this thread");
    t.steady--;
    if (which == GS_MODE_GRAD) c10::GradMode::set_enabled(before != 0);
    if (which == GS_MODE_INFERENCE && !t.inference.empty()) t.inference.pop_back();
  });
}

} // namespace gs
