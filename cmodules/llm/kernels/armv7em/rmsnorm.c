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

// y = x * r * w; returns the largest magnitude.
static float scale(float *restrict y, const float *restrict x, const float *restrict w, uint32_t n, float r) {
    float max0 = 0.0f;
    float max1 = 0.0f;
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        float a = (x[i] * r) * w[i];
        float b = (x[i + 1] * r) * w[i + 1];
        float c = (x[i + 2] * r) * w[i + 2];
        float d = (x[i + 3] * r) * w[i + 3];
        max0 = llm_armv7em_max(max0, llm_armv7em_abs(a));
        max1 = llm_armv7em_max(max1, llm_armv7em_abs(b));
        max0 = llm_armv7em_max(max0, llm_armv7em_abs(c));
        max1 = llm_armv7em_max(max1, llm_armv7em_abs(d));
        y[i] = a;
        y[i + 1] = b;
        y[i + 2] = c;
        y[i + 3] = d;
    }
    for (; i < n; i++) {
        y[i] = (x[i] * r) * w[i];
        max0 = llm_armv7em_max(max0, llm_armv7em_abs(y[i]));
    }
    return llm_armv7em_max(max0, max1);
}

float llm_armv7em_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps) {
    float r = llm_rsqrt(sum_of_squares(x, n) / (float)n + eps);
    return llm_armv7em_quantize_max(codes, y, n, scale(y, x, w, n, r));
}

#endif
