#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "ops.h"

void llm_rvv_silu_mul(float *gate, const float *up, uint32_t n) {
    for (size_t vl; n > 0; n -= vl, gate += vl, up += vl) {
        vl = __riscv_vsetvl_e32m4(n);
        vfloat32m4_t x = __riscv_vle32_v_f32m4(gate, vl);
        vfloat32m4_t exponent = __riscv_vfneg(__riscv_vfmul(__riscv_vfabs(x, vl), LLM_LOG2_E, vl), vl);
        vfloat32m4_t e = __riscv_vfmul(__riscv_vfcvt_f(exp2q(exponent, vl), vl), 1.0f / 1073741824.0f, vl); // exp(-|x|)
        vfloat32m4_t r = __riscv_vfrdiv(__riscv_vfadd(e, 1.0f, vl), 1.0f, vl);
        vbool8_t negative = __riscv_vmflt(x, 0.0f, vl);
        vfloat32m4_t silu = __riscv_vfmul(x, __riscv_vmerge(r, __riscv_vfmul(e, r, vl), negative, vl), vl);
        __riscv_vse32(gate, __riscv_vfmul(silu, __riscv_vle32_v_f32m4(up, vl), vl), vl);
    }
}

float llm_rvv_silu_mul_quantize(void *codes, float *gate, const float *up, uint32_t n) {
    llm_rvv_silu_mul(gate, up, n);
    return llm_rvv_quantize(codes, gate, n);
}

#endif
