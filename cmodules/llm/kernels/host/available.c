#include "host.h"

#if LLM_KERNELS_HOST

bool llm_host_available(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2");
#else
    return true; // every arm64 has NEON
#endif
}

#endif
