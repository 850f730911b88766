// The dispatch key that the operators are registered for. Tests compile them for a device of their own (emulator).
#pragma once

#ifndef GOSPML_DEVICE
#define GOSPML_DEVICE CUDA
#endif
