// The operations of the host set on arm64. Those of avx2.h, which says what each does.
#ifndef LLM_NEON_H
#define LLM_NEON_H

#include <arm_neon.h>

#define LLM_VECTOR
#define LLM_OPERATION static inline __attribute__((always_inline))

// ---------------------------------------------------------------------------- eight floats or 32-bit integers

typedef float32x4x2_t f32x8_t;
typedef int32x4x2_t i32x8_t;

LLM_OPERATION f32x8_t f_set(float value) {
    return (f32x8_t){{vdupq_n_f32(value), vdupq_n_f32(value)}};
}

LLM_OPERATION f32x8_t f_load(const float *p) {
    return (f32x8_t){{vld1q_f32(p), vld1q_f32(p + 4)}};
}

LLM_OPERATION void f_store(float *p, f32x8_t v) {
    vst1q_f32(p, v.val[0]);
    vst1q_f32(p + 4, v.val[1]);
}

LLM_OPERATION f32x8_t f_add(f32x8_t a, f32x8_t b) {
    return (f32x8_t){{vaddq_f32(a.val[0], b.val[0]), vaddq_f32(a.val[1], b.val[1])}};
}

LLM_OPERATION f32x8_t f_sub(f32x8_t a, f32x8_t b) {
    return (f32x8_t){{vsubq_f32(a.val[0], b.val[0]), vsubq_f32(a.val[1], b.val[1])}};
}

LLM_OPERATION f32x8_t f_mul(f32x8_t a, f32x8_t b) {
    return (f32x8_t){{vmulq_f32(a.val[0], b.val[0]), vmulq_f32(a.val[1], b.val[1])}};
}

LLM_OPERATION f32x8_t f_div(f32x8_t a, f32x8_t b) {
    return (f32x8_t){{vdivq_f32(a.val[0], b.val[0]), vdivq_f32(a.val[1], b.val[1])}};
}

LLM_OPERATION float32x4_t larger4(float32x4_t a, float32x4_t b) {
    return vbslq_f32(vcgeq_f32(a, b), a, b); // b if a is NaN, which vmaxq is not
}

LLM_OPERATION f32x8_t f_max(f32x8_t a, f32x8_t b) {
    return (f32x8_t){{larger4(a.val[0], b.val[0]), larger4(a.val[1], b.val[1])}};
}

LLM_OPERATION f32x8_t f_abs(f32x8_t v) {
    return (f32x8_t){{vabsq_f32(v.val[0]), vabsq_f32(v.val[1])}};
}

LLM_OPERATION f32x8_t f_where_positive(f32x8_t v, f32x8_t a, f32x8_t b) {
    f32x8_t result;
    for (int i = 0; i < 2; i++) {
        result.val[i] = vbslq_f32(vcgezq_f32(v.val[i]), a.val[i], b.val[i]);
    }
    return result;
}

LLM_OPERATION float f_fold(f32x8_t v) {
    float32x4_t t = vaddq_f32(v.val[0], v.val[1]);
    float32x2_t u = vadd_f32(vget_low_f32(t), vget_high_f32(t));
    return vget_lane_f32(u, 0) + vget_lane_f32(u, 1);
}

LLM_OPERATION float f_largest(f32x8_t v) {
    return vmaxvq_f32(larger4(v.val[0], v.val[1]));
}

LLM_OPERATION i32x8_t i_zero(void) {
    return (i32x8_t){{vdupq_n_s32(0), vdupq_n_s32(0)}};
}

LLM_OPERATION i32x8_t i_load(const int32_t *p) {
    return (i32x8_t){{vld1q_s32(p), vld1q_s32(p + 4)}};
}

LLM_OPERATION void i_store(int32_t *p, i32x8_t v) {
    vst1q_s32(p, v.val[0]);
    vst1q_s32(p + 4, v.val[1]);
}

LLM_OPERATION i32x8_t i_of(f32x8_t v) {
    return (i32x8_t){{vcvtq_s32_f32(v.val[0]), vcvtq_s32_f32(v.val[1])}};
}

LLM_OPERATION f32x8_t f_of(i32x8_t v) {
    return (f32x8_t){{vcvtq_f32_s32(v.val[0]), vcvtq_f32_s32(v.val[1])}};
}

LLM_OPERATION i32x8_t i_round(f32x8_t v) {
    i32x8_t result;
    for (int i = 0; i < 2; i++) {
        float32x4_t shifted = vaddq_f32(v.val[i], vdupq_n_f32(12582912.0f));
        result.val[i] = vsubq_s32(vreinterpretq_s32_f32(shifted), vdupq_n_s32(0x4B400000));
    }
    return result;
}

LLM_OPERATION f32x8_t f_load_bf16(const uint16_t *p) {
    uint16x8_t bits = vld1q_u16(p);
    uint32x4_t low = vshll_n_u16(vget_low_u16(bits), 16);
    uint32x4_t high = vshll_n_u16(vget_high_u16(bits), 16);
    return (f32x8_t){{vreinterpretq_f32_u32(low), vreinterpretq_f32_u32(high)}};
}

LLM_OPERATION int32x4_t mul_high4(int32x4_t a, int32x4_t b) {
    int64x2_t low = vmull_s32(vget_low_s32(a), vget_low_s32(b));
    int64x2_t high = vmull_high_s32(a, b);
    return vuzp2q_s32(vreinterpretq_s32_s64(low), vreinterpretq_s32_s64(high));
}

LLM_OPERATION i32x8_t i_exp2q(f32x8_t exponent) {
    static const int32_t coefficients[5] = {154911401, 479317604, 1031498459, 1488531108, 1073741824};
    i32x8_t result;
    for (int i = 0; i < 2; i++) {
        float32x4_t clamped = larger4(exponent.val[i], vdupq_n_f32(-31.0f));
        int32x4_t fixed = vcvtq_s32_f32(vmulq_f32(clamped, vdupq_n_f32(16777216.0f)));
        int32x4_t fraction = vshlq_n_s32(vandq_s32(fixed, vdupq_n_s32(0xFFFFFF)), 7);
        int32x4_t r = vdupq_n_s32(64154101);
        for (int j = 0; j < 5; j++) {
            r = vaddq_s32(vdupq_n_s32(coefficients[j]), mul_high4(fraction, r));
        }
        result.val[i] = vshlq_s32(r, vshrq_n_s32(fixed, 24)); // a negative shift is to the right
    }
    return result;
}

LLM_OPERATION uint64_t i_fold(i32x8_t v) {
    return (uint64_t)(vaddlvq_s32(v.val[0]) + vaddlvq_s32(v.val[1]));
}

LLM_OPERATION int16x8_t narrow8(i32x8_t v) {
    return vcombine_s16(vmovn_s32(v.val[0]), vmovn_s32(v.val[1]));
}

LLM_OPERATION void i_store_i16(int16_t *p, i32x8_t v) {
    vst1q_s16(p, narrow8(v));
}

LLM_OPERATION void i_store_i8(int8_t *p, i32x8_t v) {
    vst1_s8(p, vmovn_s16(narrow8(v)));
}

// ---------------------------------------------------------------------------- the int8 cache

LLM_OPERATION i32x8_t i_mac16(i32x8_t sum, const int8_t *a, const int8_t *b) {
    int8x16_t a8 = vld1q_s8(a);
    int8x16_t b8 = vld1q_s8(b);
    sum.val[0] = vpadalq_s16(sum.val[0], vmull_s8(vget_low_s8(a8), vget_low_s8(b8)));
    sum.val[1] = vpadalq_s16(sum.val[1], vmull_high_s8(a8, b8));
    return sum;
}

LLM_OPERATION int32x4_t fold4(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
    return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
}

LLM_OPERATION void i_store_folded(float *p, i32x8_t a, i32x8_t b, i32x8_t c, i32x8_t d) {
    int32x4_t low = fold4(a.val[0], b.val[0], c.val[0], d.val[0]);
    int32x4_t high = fold4(a.val[1], b.val[1], c.val[1], d.val[1]);
    vst1q_f32(p, vcvtq_f32_s32(vaddq_s32(low, high)));
}

LLM_OPERATION void i_weigh16(i32x8_t sums[2], const int16_t u[2], const int8_t *a, const int8_t *b) {
    const int8_t *rows[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        int8x16_t codes = vld1q_s8(rows[i]);
        int16x8_t low = vmovl_s8(vget_low_s8(codes));
        int16x8_t high = vmovl_high_s8(codes);
        sums[0].val[0] = vmlal_n_s16(sums[0].val[0], vget_low_s16(low), u[i]);
        sums[0].val[1] = vmlal_high_n_s16(sums[0].val[1], low, u[i]);
        sums[1].val[0] = vmlal_n_s16(sums[1].val[0], vget_low_s16(high), u[i]);
        sums[1].val[1] = vmlal_high_n_s16(sums[1].val[1], high, u[i]);
    }
}

// ---------------------------------------------------------------------------- matrices
//
// Activation codes are -127 to 127, so that two products with int8 weights, and four with int4, fit 16 bits.

#define LLM_GROUP_BYTES 32 // of a group of activations: the codes

LLM_OPERATION void finish_group(int8_t *group) {
    (void)group; // nothing to add
}

LLM_OPERATION void store_rows(float *y, uint32_t n, const int32x4_t sums[LLM_TILE], const float *row_scales, float scale) {
    int32x4_t rows = fold4(sums[0], sums[1], sums[2], sums[3]);
    float32x4_t values = vmulq_f32(vcvtq_f32_s32(rows), vmulq_n_f32(vld1q_f32(row_scales), scale));
    if (n == LLM_TILE) {
        vst1q_f32(y, values);
    } else {
        float four[LLM_TILE];
        vst1q_f32(four, values);
        memcpy(y, four, n * sizeof(*y));
    }
}

// A group of a tile, a row in each pair of vectors.
typedef struct {
    int8x16_t low[LLM_TILE]; // elements 0 to 15
    int8x16_t high[LLM_TILE]; // elements 16 to 31
    const int8_t *scales;
} int4_tile_t;

typedef int4_tile_t int8_tile_t;

typedef struct {
    int32x4_t rows[LLM_TILE];
} int4_sums_t;

typedef int4_sums_t int8_sums_t;

LLM_OPERATION int4_tile_t int4_load(const uint8_t *data, const int8_t *scales) {
    int4_tile_t tile = {.scales = scales};
    for (int i = 0; i < LLM_TILE; i++) {
        int8x16_t w = vreinterpretq_s8_u8(vld1q_u8(data + 16 * i));
        tile.low[i] = vshrq_n_s8(vshlq_n_s8(w, 4), 4);
        tile.high[i] = vshrq_n_s8(w, 4);
    }
    return tile;
}

LLM_OPERATION void int4_clear(int4_sums_t *sums) {
    for (int i = 0; i < LLM_TILE; i++) {
        sums->rows[i] = vdupq_n_s32(0);
    }
}

LLM_OPERATION void int4_mac(int4_sums_t *sums, const int4_tile_t *tile, const int8_t *group) {
    int8x16_t x_low = vld1q_s8(group);
    int8x16_t x_high = vld1q_s8(group + 16);
    for (int i = 0; i < LLM_TILE; i++) {
        int16_t scale = tile->scales[i];
#ifdef __ARM_FEATURE_DOTPROD
        int32x4_t dot = vdotq_s32(vdotq_s32(vdupq_n_s32(0), tile->low[i], x_low), tile->high[i], x_high);
        sums->rows[i] = vmlaq_n_s32(sums->rows[i], dot, scale);
#else
        int16x8_t products = vmull_s8(vget_low_s8(tile->low[i]), vget_low_s8(x_low));
        products = vmlal_high_s8(products, tile->low[i], x_low);
        products = vmlal_s8(products, vget_low_s8(tile->high[i]), vget_low_s8(x_high));
        products = vmlal_high_s8(products, tile->high[i], x_high);
        sums->rows[i] = vmlal_n_s16(sums->rows[i], vget_low_s16(products), scale);
        sums->rows[i] = vmlal_high_n_s16(sums->rows[i], products, scale);
#endif
    }
}

LLM_OPERATION void int4_store(float *y, uint32_t n, const int4_sums_t *sums, const float *row_scales, float scale) {
    store_rows(y, n, sums->rows, row_scales, scale);
}

LLM_OPERATION int8_tile_t int8_load(const uint8_t *data, const int8_t *scales) {
    int8_tile_t tile = {.scales = scales};
    for (int i = 0; i < LLM_TILE; i++) {
        tile.low[i] = vreinterpretq_s8_u8(vld1q_u8(data + 32 * i));
        tile.high[i] = vreinterpretq_s8_u8(vld1q_u8(data + 32 * i + 16));
    }
    return tile;
}

LLM_OPERATION void int8_clear(int8_sums_t *sums) {
    int4_clear(sums);
}

LLM_OPERATION void int8_mac(int8_sums_t *sums, const int8_tile_t *tile, const int8_t *group) {
#ifdef __ARM_FEATURE_DOTPROD
    int4_mac(sums, tile, group);
#else
    int8x16_t x_low = vld1q_s8(group);
    int8x16_t x_high = vld1q_s8(group + 16);
    for (int i = 0; i < LLM_TILE; i++) {
        int16x8_t low = vmlal_high_s8(vmull_s8(vget_low_s8(tile->low[i]), vget_low_s8(x_low)), tile->low[i], x_low);
        int16x8_t high = vmlal_high_s8(vmull_s8(vget_low_s8(tile->high[i]), vget_low_s8(x_high)), tile->high[i], x_high);
        int32x4_t dot = vpadalq_s16(vpaddlq_s16(low), high);
        sums->rows[i] = vmlaq_n_s32(sums->rows[i], dot, tile->scales[i]);
    }
#endif
}

LLM_OPERATION void int8_store(float *y, uint32_t n, const int8_sums_t *sums, const float *row_scales, float scale) {
    store_rows(y, n, sums->rows, row_scales, scale);
}

#endif
