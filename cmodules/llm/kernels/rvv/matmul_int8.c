#include "rvv.h"

#if LLM_KERNELS_RVV

#include "ops.h"

#define BLOCK 32

#define SUFFIX 128
#define E8 m1
#define E16 m2
#define E32 m4
#include "multiply.h"
#undef SUFFIX
#undef E8
#undef E16
#undef E32

#if defined(__riscv_xtheadvector)

void llm_rvv_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    matmul_128(y, y_stride, w, x); // no fractions of registers there
}

#else

#define SUFFIX 256
#define E8 mf2
#define E16 m1
#define E32 m2
#include "multiply.h"

void llm_rvv_matmul_int8(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    // Half as many registers hold the 16 lanes where vectors are longer, and are done in half the time.
    if (__riscv_vsetvlmax_e8m1() >= 32) {
        matmul_256(y, y_stride, w, x);
    } else {
        matmul_128(y, y_stride, w, x);
    }
}

#endif

#endif
