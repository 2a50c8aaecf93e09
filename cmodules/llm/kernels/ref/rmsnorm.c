// Root mean square layer normalization (Zhang and Sennrich, 2019).
#include "ref.h"

void llm_ref_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps) {
    float r = llm_rsqrt(llm_ref_dot(x, x, n) / (float)n + eps);
    for (uint32_t i = 0; i < n; i++) {
        y[i] = (x[i] * r) * w[i];
    }
}

float llm_ref_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps) {
    llm_ref_rmsnorm(y, x, w, n, eps);
    return llm_ref_quantize(codes, y, n);
}
