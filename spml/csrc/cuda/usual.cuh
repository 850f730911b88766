// Functors of loss_math.h and batch_math.h compiled for their usual parameters: with whole powers and logarithms
// without epsilon as constants.
#pragma once

namespace spml::cuda {

// Makes the conditions on parameters constants, where Usual says that the parameters are the usual ones. It asks
// nothing: behind a question nvcc keeps the conditions.
template <bool Usual, class F>
__device__ void settle(F& f) {
  if constexpr (Usual) {
    if constexpr (requires { f.constants(); })
      f.constants();
    else if constexpr (requires { f.exact; })
      f.exact = true;
  }
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
