// How every kernel is started. The emulator, which has no <<<>>>, has its own `launch` (emulator/csrc/emulator.h).
#pragma once

#include <cuda_runtime_api.h>

#if defined(__CUDACC__)
namespace spml::cuda {

template <class... P, class... A>
void launch(void (*kernel)(P...), unsigned blocks, unsigned threads, cudaStream_t stream, const A&... arguments) {
  kernel<<<blocks, threads, 0, stream>>>(arguments...);
}

} // namespace spml::cuda
#endif
