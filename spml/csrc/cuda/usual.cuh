// Functors of loss_math.h and batch_math.h compiled for their usual parameters: with whole powers and logarithms without epsilon as constants.
#pragma once

namespace spml::cuda {

// A functor whose conditions on parameters are constants, where Usual says that the parameters are the usual ones.
template <bool Usual, class F>
__device__ F functor(const double* params) {
  F f(params);
  if constexpr (Usual) {
    if constexpr (requires { f.common(); }) {
      if (!f.common()) __builtin_unreachable();
    } else if constexpr (requires { f.exact; }) {
      f.exact = true;
    }
  }
  return f;
}

// Whether the parameters are those that a kernel is compiled for.
template <class F>
bool usual(const double* params) {
  F f(params);
  if constexpr (requires { f.common(); })
    return f.common();
  else if constexpr (requires { f.exact; })
    return f.exact;
  else
    return false;
}

} // namespace spml::cuda
