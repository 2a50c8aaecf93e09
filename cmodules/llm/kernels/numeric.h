// The numeric functions that kernels and core share: docs/arithmetic.md, "Functions". No libm, one result everywhere.
#ifndef LLM_NUMERIC_H
#define LLM_NUMERIC_H

#include <stdint.h>
#include <string.h>

// What would change results silently.
#if defined(__FAST_MATH__)
#error "compile without -ffast-math: results must be the same on every target"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "float must be computed as float: on x86-32 compile with -msse2 -mfpmath=sse"
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "images are little-endian and read in place"
#endif

#define LLM_LOG2_E 1.44269504f
#define LLM_SMALLEST 1e-30f // a vector of nothing larger is quantized to zeros, so that 127 / max stays finite

static inline uint32_t llm_float_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float llm_bits_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

#define LLM_MINUS_INFINITY llm_bits_float(0xFF800000u)

static inline float llm_bf16_float(uint16_t bits) {
    return llm_bits_float((uint32_t)bits << 16);
}

static inline uint32_t llm_min(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static inline uint32_t llm_max(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

// Nearest integer, ties to even, for |value| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
static inline int32_t llm_round(float value) {
    return (int32_t)(llm_float_bits(value + 12582912.0f) - 0x4B400000u);
}

// 1 / sqrt(value), value > 0: a first guess from the exponent, then three of Newton's iterations.
static inline float llm_rsqrt(float value) {
    float y = llm_bits_float(0x5F375A86u - (llm_float_bits(value) >> 1));
    float half = 0.5f * value;
    for (int i = 0; i < 3; i++) {
        y = y * (1.5f - (half * y) * y);
    }
    return y;
}

static inline int32_t llm_mul_high(int32_t a, int32_t b) {
    return (int32_t)(((int64_t)a * b) >> 32);
}

// 2^exponent in units of 2^-30, exponent <= 0; below -31 (and for NaN) it is that of -31.
static inline int32_t llm_exp2q(float exponent) {
    float clamped = exponent >= -31.0f ? exponent : -31.0f;
    int32_t fixed = (int32_t)(clamped * 16777216.0f); // 8.24, toward zero
    int32_t fraction = (fixed & 0xFFFFFF) << 7; // [0, 1) times 2^31
    int32_t n = -(fixed >> 24); // 2^exponent = 2^fraction / 2^n; every compiler we know shifts signs in
    int32_t r = 64154101;
    r = 154911401 + llm_mul_high(fraction, r);
    r = 479317604 + llm_mul_high(fraction, r);
    r = 1031498459 + llm_mul_high(fraction, r);
    r = 1488531108 + llm_mul_high(fraction, r);
    r = 1073741824 + llm_mul_high(fraction, r);
    return r >> n;
}

// Sine and cosine of a phase in turns times 2^32.
static inline void llm_sincos(uint32_t phase, float *sine, float *cosine) {
    uint32_t quadrant = (phase + 0x20000000u) >> 30;
    uint32_t rest = phase - (quadrant << 30); // within an eighth of a turn of 0, two's complement
    float x = (float)(int32_t)rest * 1.4629180792671596e-9f;
    float z = x * x;
    float s = x + (x * z) * (-0.16666667f + z * (0.0083333310f + z * -0.00019840874f));
    float c = 1.0f + z * (-0.5f + z * (0.041666642f + z * (-0.0013888397f + z * 0.000024433157f)));
    switch (quadrant) {
        case 0:
            *sine = s;
            *cosine = c;
            break;
        case 1:
            *sine = c;
            *cosine = -s;
            break;
        case 2:
            *sine = -s;
            *cosine = -c;
            break;
        default:
            *sine = -c;
            *cosine = s;
            break;
    }
}

// A 64-bit sum of llm_exp2q as a float.
static inline float llm_sum_float(uint64_t sum) {
    return (float)(uint32_t)(sum >> 32) * 4294967296.0f + (float)(uint32_t)sum;
}

#endif
