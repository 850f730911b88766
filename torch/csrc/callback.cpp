// Functions written in Go as nodes of the autograd graph, and hooks on gradients.
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <mutex>

#include "node.h"
#include "shim.h"

namespace gs {
namespace {

gs_go_function go_function = nullptr;

std::mutex dead_mutex;
std::vector<uint64_t>& dead() {
  static auto* v = new std::vector<uint64_t>; // graphs may outlive static destructors
  return *v;
}

// Ends with the last user of a Go function. It may be destroyed anywhere, so it only writes the id down.
struct Function {
  const uint64_t id;
  explicit Function(uint64_t id) : id(id) {}
  Function(const Function&) = delete;
  ~Function() {
    std::lock_guard<std::mutex> lock(dead_mutex);
    dead().push_back(id);
  }
};

// Calls Go with tensors and takes what it gives back.
std::vector<at::Tensor> call_go(uint64_t id, std::vector<at::Tensor>&& args, size_t nout) {
  Thread& t = thread();
  if (t.calling)
    throw CallError(
        "a graph with functions or hooks of Go must be run by Backward or Grad, not by an operator such as "
        "aten::_backward");
  gs_result r;
  clear(r);
  put_tensors(r, std::move(args));
  std::vector<uint64_t> out(nout, 0);
  char* msg = nullptr;
  const int kind = go_function(id, &r, out.data(), nout, &msg);
  std::vector<at::Tensor> results;
  results.reserve(nout);
  for (uint64_t h : out)
    results.push_back(
        h ? at::Tensor(c10::intrusive_ptr<Impl, c10::UndefinedTensorImpl>::reclaim(reinterpret_cast<Impl*>(h)))
          : at::Tensor());
  if (kind != GS_OK) {
    GoError e(kind, msg ? msg : "an error in a Go function");
    free(msg);
    throw e;
  }
  return results;
}

using torch::autograd::variable_list;

struct GoNode : torch::autograd::Node {
  std::shared_ptr<Function> function;
  std::vector<torch::autograd::SavedVariable> saved;
  bool released = false;

  // Calls Go with the gradients of the outputs, then the saved tensors.
  variable_list apply(variable_list&& grads) override {
    TORCH_CHECK(!released, torch::autograd::ERR_BACKWARD_TWICE);
    variable_list args = std::move(grads);
    auto self = getptr();
    for (auto& s : saved) args.push_back(s.unpack(self));
    return call_go(function->id, std::move(args), num_outputs());
  }
  void release_variables() override {
    if (saved.empty()) return; // nothing that a second backward would miss
    released = true;
    for (auto& s : saved) s.reset_data();
  }
  std::string name() const override { return "GoFunction"; }
};

} // namespace

void set_go_function(gs_go_function f) { go_function = f; }

size_t dead_functions(uint64_t* ids, size_t n) {
  std::lock_guard<std::mutex> lock(dead_mutex);
  auto& d = dead();
  n = std::min(n, d.size());
  memcpy(ids, d.data() + (d.size() - n), n * sizeof *ids);
  d.resize(d.size() - n);
  return n;
}

uint64_t own(uint64_t h) { return h ? reinterpret_cast<uint64_t>(tensor_of(h).unsafeReleaseTensorImpl()) : 0; }

gs_result node(uint64_t id, const uint64_t* inputs, size_t n, const uint64_t* outputs, size_t nout,
               const uint8_t* differentiable, const uint64_t* saved, size_t nsaved) {
  return guarded([&](gs_result& r) {
    auto f = std::make_shared<Function>(id);
    variable_list in;
    for (size_t i = 0; i < n; i++) in.push_back(tensor_of(inputs[i]));
    if (!c10::GradMode::is_enabled() || !torch::autograd::any_variable_requires_grad(in)) return;
    auto node = make_node<GoNode>();
    node->function = std::move(f);
    node->set_next_edges(torch::autograd::collect_next_edges(in));
    variable_list out;
    for (size_t i = 0; i < nout; i++) {
      at::Tensor t = tensor_of(outputs[i]);
      bool fresh = !t.is_view() && !t.grad_fn() && !t.requires_grad();
      for (const auto& x : in) fresh = fresh && !x.is_same(t);
      for (const auto& x : out) fresh = fresh && !x.is_same(t);
      if (!fresh) {
        at::NoGradGuard off;
        t = t.clone(); // an input, a view of one, or an output twice has a history of its own
      }
      if (differentiable[i]) {
        torch::autograd::set_history(t, node);
      } else {
        node->add_input_metadata(torch::autograd::Node::undefined_input());
      }
      out.push_back(std::move(t));
    }
    for (size_t i = 0; i < nsaved; i++) {
      at::Tensor s = tensor_of(saved[i]);
      bool is_output = false;
      for (size_t k = 0; k < nout; k++)
        if (outputs[k] == saved[i]) { // the one with the history
          s = out[k];
          is_output = differentiable[k] != 0;
        }
      node->saved.emplace_back(s, is_output);
    }
    put_tensors(r, std::move(out));
  });
}

gs_result hook(uint64_t h, uint64_t id) {
  return guarded([&](gs_result& r) {
    auto f = std::make_shared<Function>(id);
    const at::Tensor t = tensor_of(h);
    TORCH_CHECK(t.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
    const unsigned at = t.register_hook([f](const at::TensorBase& grad) -> at::Tensor {
      std::vector<at::Tensor> args{at::Tensor(grad)};
      return call_go(f->id, std::move(args), 1)[0];
    });
    put(r, GS_INT, at);
  });
}

gs_result unhook(uint64_t h, uint64_t position) {
  return guarded([&](gs_result&) { tensor_of(h).remove_hook(static_cast<unsigned>(position)); });
}

namespace {
struct AfterAccumulation : torch::autograd::PostAccumulateGradHook {
  std::shared_ptr<Function> function;
  explicit AfterAccumulation(uint64_t id) : function(std::make_shared<Function>(id)) {}
  void operator()(const torch::autograd::Variable& leaf) override { call_go(function->id, {leaf}, 0); }
};
} // namespace

gs_result accumulated(uint64_t h, uint64_t id) {
  return guarded([&](gs_result&) {
    auto hook = id ? std::make_unique<AfterAccumulation>(id) : nullptr;
    const at::Tensor t = tensor_of(h);
    TORCH_CHECK(t.requires_grad() && t.is_leaf(),
                "a hook behind the accumulation of a gradient is for leaf tensors that require one");
    torch::autograd::impl::set_post_acc_grad_hooks(t, std::move(hook));
  });
}

} // namespace gs
