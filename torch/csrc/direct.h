// A node that has its gradients when backward begins. Libraries of operators derive from it; backward then needs no
// engine where all of them go straight into leaves.
#pragma once

#include <torch/csrc/autograd/function.h>

namespace gs {

struct DirectNode : torch::autograd::Node {
  // The gradients, one for each next edge, undefined where none is wanted, for an incoming gradient of 1. Ends the
  // node's life as backward without retain_graph does, and raises as that would.
  virtual torch::autograd::variable_list direct() = 0;
};

} // namespace gs
