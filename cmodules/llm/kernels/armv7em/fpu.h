// Single instructions of the FPU that C has no operator for. Each gives what numeric.h gives.
#ifndef LLM_ARMV7EM_FPU_H
#define LLM_ARMV7EM_FPU_H

#include <stdint.h>

#include "../numeric.h"

// llm_round: VCVTR rounds as FPSCR says, which is to nearest even unless somebody changed it.
static inline int32_t llm_armv7em_round(float value) {
    int32_t result;
    __asm__("vcvtr.s32.f32 %1, %1\n\tvmov %0, %1" : "=r"(result), "+t"(value));
    return result;
}

// value * 2^24 toward zero; the nearest there is where that leaves 32 bits.
static inline int32_t llm_armv7em_fixed24(float value) {
    int32_t result;
    __asm__("vcvt.s32.f32 %1, %1, #24\n\tvmov %0, %1" : "=r"(result), "+t"(value));
    return result;
}

// The larger of two numbers (not of NaN).
static inline float llm_armv7em_max(float a, float b) {
#if __ARM_FP & 8 // in double precision too: FPv5, which has VMAXNM
    __asm__("vmaxnm.f32 %0, %0, %1" : "+t"(a) : "t"(b));
    return a;
#else
    return a > b ? a : b;
#endif
}

static inline float llm_armv7em_abs(float a) {
    return __builtin_fabsf(a);
}

// acc + ((a * b) >> 32) over 64 bits.
static inline int32_t llm_armv7em_mul_high_add(int32_t a, int32_t b, int32_t acc) {
    int32_t result;
    __asm__("smmla %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(acc));
    return result;
}

// llm_exp2q.
static inline int32_t llm_armv7em_exp2q(float exponent) {
    int32_t fixed = llm_armv7em_fixed24(llm_armv7em_max(exponent, -31.0f));
    int32_t fraction = (int32_t)(((uint32_t)fixed << 8) >> 1);
    int32_t r = llm_armv7em_mul_high_add(fraction, 64154101, 154911401);
    r = llm_armv7em_mul_high_add(fraction, r, 479317604);
    r = llm_armv7em_mul_high_add(fraction, r, 1031498459);
    r = llm_armv7em_mul_high_add(fraction, r, 1488531108);
    r = llm_armv7em_mul_high_add(fraction, r, 1073741824);
    return r >> -(fixed >> 24);
}

#endif
