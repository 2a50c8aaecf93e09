#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

LLM_VECTOR void llm_host_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps) {
    float r = llm_rsqrt(f_dot(x, x, n) / (float)n + eps);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        f_store(y + i, f_mul(f_mul(f_load(x + i), f_set(r)), f_load(w + i)));
    }
    for (; i < n; i++) {
        y[i] = (x[i] * r) * w[i];
    }
}

float llm_host_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps) {
    llm_host_rmsnorm(y, x, w, n, eps);
    return llm_host_quantize(codes, y, n);
}

#endif
