// libtorch's CUDA headers as far as spml's operators use them, over the test device.
#pragma once
#include <c10/util/Exception.h>
#define C10_CUDA_CHECK(x) TORCH_CHECK((x) == cudaSuccess, "a kernel was not started")
