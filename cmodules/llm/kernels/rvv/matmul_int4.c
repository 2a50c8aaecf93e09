#include "rvv.h"

#if LLM_KERNELS_RVV

#include "ops.h"

#define BLOCK 16

// Vectors of 128 bits: a register is 16 codes.
#define SUFFIX 128
#define E8 m1
#define E16 m2
#define E32 m4
#define LOAD_TILE(data) \
    vint8m4_t packed = __riscv_vle8_v_i8m4(data, 64); \
    vint8m4_t lows = __riscv_vsra(__riscv_vsll(packed, 4, 64), 4, 64); \
    vint8m4_t highs = __riscv_vsra(packed, 4, 64)
#define LOW(r) __riscv_vget_v_i8m4_i8m1(lows, r)
#define HIGH(r) __riscv_vget_v_i8m4_i8m1(highs, r)
#define LOAD_PAIR(data) \
    vint8m2_t packed = __riscv_vle8_v_i8m2(data, 32); \
    vint8m2_t lows = __riscv_vsra(__riscv_vsll(packed, 4, 32), 4, 32); \
    vint8m2_t highs = __riscv_vsra(packed, 4, 32)
#define PAIR_LOW(r) __riscv_vget_v_i8m2_i8m1(lows, r)
#define PAIR_HIGH(r) __riscv_vget_v_i8m2_i8m1(highs, r)
#include "multiply.h"

#if defined(__riscv_xtheadvector)

void llm_rvv_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    matmul_128(y, y_stride, w, x);
}

#else

#undef SUFFIX
#undef E8
#undef E16
#undef E32
#undef LOAD_TILE
#undef LOW
#undef HIGH
#undef LOAD_PAIR
#undef PAIR_LOW
#undef PAIR_HIGH

// Longer ones: 16 lanes take half as many registers, or less, and half the time.
#define SUFFIX 256
#define E8 mf2
#define E16 m1
#define E32 m2
#define LOAD_TILE(data) \
    vint8mf2_t packed0 = __riscv_vle8_v_i8mf2(data, 16); \
    vint8mf2_t packed1 = __riscv_vle8_v_i8mf2(data + 16, 16); \
    vint8mf2_t packed2 = __riscv_vle8_v_i8mf2(data + 32, 16); \
    vint8mf2_t packed3 = __riscv_vle8_v_i8mf2(data + 48, 16)
#define LOW(r) __riscv_vsra(__riscv_vsll(packed##r, 4, 16), 4, 16)
#define HIGH(r) __riscv_vsra(packed##r, 4, 16)
#define LOAD_PAIR(data) \
    vint8mf2_t packed0 = __riscv_vle8_v_i8mf2(data, 16); \
    vint8mf2_t packed1 = __riscv_vle8_v_i8mf2(data + 16, 16)
#define PAIR_LOW(r) LOW(r)
#define PAIR_HIGH(r) HIGH(r)
#include "multiply.h"

void llm_rvv_matmul_int4(float *y, uint32_t y_stride, const llm_tensor_t *w, const llm_codes_t *x) {
    if (__riscv_vsetvlmax_e8m1() == 16) {
        matmul_128(y, y_stride, w, x);
    } else {
        matmul_256(y, y_stride, w, x);
    }
}

#endif

#endif
