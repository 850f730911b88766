#pragma once
#include <c10/core/DeviceGuard.h>
namespace c10::cuda {
using CUDAGuard = c10::DeviceGuard;
}
