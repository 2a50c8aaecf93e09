#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

LLM_VECTOR void llm_host_add(float *x, const float *y, uint32_t n) {
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        f_store(x + i, f_add(f_load(x + i), f_load(y + i)));
    }
    for (; i < n; i++) {
        x[i] += y[i];
    }
}

#endif
