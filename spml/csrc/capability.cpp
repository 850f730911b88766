// Which kernels run here.
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>

#include "pointwise.h"

namespace spml {
namespace {

struct Choice {
  const Kernels* kernels;
  bool here;
};

const Kernels* choose() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const Choice choices[] = {{&kernels_avx512, avx512}, {&kernels_avx2, avx2}, {&kernels_generic, true}};
#else
  const Choice choices[] = {{&kernels_generic, true}};
#endif
  const char* want = std::getenv("GOSPML_CPU");
  for (const Choice& c : choices) {
    if (want && *want) {
      if (std::strcmp(want, c.kernels->name)) continue;
      TORCH_CHECK(c.here, "GOSPML_CPU is ", want, ", which this processor lacks; unset it");
    }
    if (c.here) return c.kernels;
  }
  TORCH_CHECK(false, "GOSPML_CPU is \"", want, "\", want avx512, avx2 or generic");
}

} // namespace

const Kernels& kernels() {
  static const Kernels* const chosen = choose(); // tried again after it threw
  return *chosen;
}

} // namespace spml
