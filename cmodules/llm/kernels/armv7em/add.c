#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM

void llm_armv7em_add(float *restrict x, const float *restrict y, uint32_t n) {
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float a = x[i] + y[i];
        float b = x[i + 1] + y[i + 1];
        float c = x[i + 2] + y[i + 2];
        float d = x[i + 3] + y[i + 3];
        x[i] = a;
        x[i + 1] = b;
        x[i + 2] = c;
        x[i + 3] = d;
    }
    for (; i < n; i++) {
        x[i] += y[i];
    }
}

#endif
