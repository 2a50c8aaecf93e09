#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "ops.h"

void llm_rvv_rmsnorm(float *y, const float *x, const float *w, uint32_t n, float eps) {
    float r = llm_rsqrt(dot(x, x, n) / (float)n + eps);
    for (size_t vl; n > 0; n -= vl, x += vl, w += vl, y += vl) {
        vl = __riscv_vsetvl_e32m4(n);
        vfloat32m4_t normed = __riscv_vfmul(__riscv_vle32_v_f32m4(x, vl), r, vl);
        __riscv_vse32(y, __riscv_vfmul(normed, __riscv_vle32_v_f32m4(w, vl), vl), vl);
    }
}

float llm_rvv_rmsnorm_quantize(void *codes, float *y, const float *x, const float *w, uint32_t n, float eps) {
    llm_rvv_rmsnorm(y, x, w, n, eps);
    return llm_rvv_quantize(codes, y, n);
}

#endif
