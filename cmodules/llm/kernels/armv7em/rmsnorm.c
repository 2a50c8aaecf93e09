#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include "fpu.h"
#include "quantize.h"

// The sum of squares in the eight partial sums of the reference, all in registers.
static float sum_of_squares(const float *x, uint32_t n) {
    float lane[8] = {0.0f};
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (uint32_t j = 0; j < 8; j++) {
            lane[j] += x[i + j] * x[i + j];
        }
    }
    for (uint32_t j = 0; i + j < n; j++) {
        lane[j] += x[i + j] * x[i + j];
    }
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

float llm_armv7em_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps) {
    float r = llm_rsqrt(sum_of_squares(x, n) / (float)n + eps);
    float max = 0.0f;
    for (uint32_t i = 0; i < n; i++) {
        float value = (x[i] * r) * w[i];
        max = llm_armv7em_max(max, llm_armv7em_abs(value));
        y[i] = value;
    }
    return llm_armv7em_quantize_max(codes, y, n, max);
}

#endif
