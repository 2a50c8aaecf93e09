#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include "../ref/ref.h"
#include "quantize.h"

float llm_armv7em_sum_of_squares(const float *x, uint32_t n);
float llm_armv7em_scale(float *y, const float *x, const float *w, uint32_t n, float r);

float llm_armv7em_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps) {
    if (n % 8 != 0) {
        llm_ref_rmsnorm(y, x, w, n, eps);
        return llm_armv7em_quantize(codes, y, n);
    }
    float r = llm_rsqrt(llm_armv7em_sum_of_squares(x, n) / (float)n + eps);
    float max = llm_armv7em_scale(y, x, w, n, r);
    return llm_armv7em_quantize_max(codes, y, n, max);
}

#endif
