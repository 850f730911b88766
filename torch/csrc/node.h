// How autograd nodes are kept differs between versions of libtorch: in std::shared_ptr up to 2.11 at least, in
// c10::intrusive_ptr in 2.15.
#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>

namespace gs {

template <typename Node>
auto make_node() {
  if constexpr (std::is_base_of_v<c10::intrusive_ptr_target, Node>)
    return c10::make_intrusive<Node>();
  else // deleteNode is found by the argument's namespace: newer versions have none
    return std::shared_ptr<Node>(new Node, [](auto* node) { deleteNode(node); });
}

} // namespace gs
