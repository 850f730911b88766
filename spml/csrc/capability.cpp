// Which kernels run here.
#include <c10/util/Exception.h>

#include <cstdlib>
#include <cstring>
#include <string>

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
#endif
  const Choice choices[] = {
#ifdef GOSPML_SET_AVX512
      {&kernels_avx512, avx512},
#endif
#ifdef GOSPML_SET_AVX2
      {&kernels_avx2, avx2},
#endif
#ifdef GOSPML_SET_GENERIC
      {&kernels_generic, true},
#endif
  };
  const char* want = std::getenv("GOSPML_CPU");
  for (const Choice& c : choices) {
    if (want && *want) {
      if (std::strcmp(want, c.kernels->name)) continue;
      TORCH_CHECK(c.here, "GOSPML_CPU is ", want, ", which this processor lacks; unset it");
    }
    if (c.here) return c.kernels;
  }
  if (!want || !*want)
    TORCH_CHECK(false, "the libraries were built with GOSPML_NATIVE=1 on another processor; build them here");
  std::string built;
  for (const Choice& c : choices) built += (built.empty() ? "" : ", ") + std::string(c.kernels->name);
  TORCH_CHECK(false, "GOSPML_CPU is \"", want, "\", want one of ", built);
}

} // namespace

const Kernels& kernels() {
  static const Kernels* const chosen = choose(); // tried again after it threw
  return *chosen;
}

} // namespace spml
