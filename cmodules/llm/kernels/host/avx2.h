// The operations of the host set on x86-64 with AVX2.
#ifndef LLM_AVX2_H
#define LLM_AVX2_H

#include <immintrin.h>

// Functions that use these operations; the rest of the program is compiled for any x86-64.
#define LLM_VECTOR __attribute__((target("avx2")))
#define LLM_OPERATION static inline __attribute__((always_inline, target("avx2")))

// ---------------------------------------------------------------------------- eight floats or 32-bit integers

typedef __m256 f32x8_t;
typedef __m256i i32x8_t;

LLM_OPERATION f32x8_t f_set(float value) {
    return _mm256_set1_ps(value);
}

LLM_OPERATION f32x8_t f_load(const float *p) {
    return _mm256_loadu_ps(p);
}

LLM_OPERATION void f_store(float *p, f32x8_t v) {
    _mm256_storeu_ps(p, v);
}

LLM_OPERATION f32x8_t f_add(f32x8_t a, f32x8_t b) {
    return _mm256_add_ps(a, b);
}

LLM_OPERATION f32x8_t f_sub(f32x8_t a, f32x8_t b) {
    return _mm256_sub_ps(a, b);
}

LLM_OPERATION f32x8_t f_mul(f32x8_t a, f32x8_t b) {
    return _mm256_mul_ps(a, b);
}

LLM_OPERATION f32x8_t f_div(f32x8_t a, f32x8_t b) {
    return _mm256_div_ps(a, b);
}

// The larger; b if a is NaN.
LLM_OPERATION f32x8_t f_max(f32x8_t a, f32x8_t b) {
    return _mm256_max_ps(a, b);
}

LLM_OPERATION f32x8_t f_abs(f32x8_t v) {
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

// a where v >= 0, else b.
LLM_OPERATION f32x8_t f_where_positive(f32x8_t v, f32x8_t a, f32x8_t b) {
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_GE_OQ));
}

// The sum: halves are folded, as docs/arithmetic.md says of lanes(v).
LLM_OPERATION float f_fold(f32x8_t v) {
    __m128 t = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 u = _mm_add_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_add_ss(u, _mm_movehdup_ps(u)));
}

LLM_OPERATION float f_largest(f32x8_t v) {
    __m128 t = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 u = _mm_max_ps(t, _mm_movehl_ps(t, t));
    return _mm_cvtss_f32(_mm_max_ss(u, _mm_movehdup_ps(u)));
}

LLM_OPERATION i32x8_t i_zero(void) {
    return _mm256_setzero_si256();
}

LLM_OPERATION i32x8_t i_load(const int32_t *p) {
    return _mm256_loadu_si256((const void *)p);
}

LLM_OPERATION void i_store(int32_t *p, i32x8_t v) {
    _mm256_storeu_si256((void *)p, v);
}

// Toward zero.
LLM_OPERATION i32x8_t i_of(f32x8_t v) {
    return _mm256_cvttps_epi32(v);
}

LLM_OPERATION f32x8_t f_of(i32x8_t v) {
    return _mm256_cvtepi32_ps(v);
}

// As llm_round.
LLM_OPERATION i32x8_t i_round(f32x8_t v) {
    return _mm256_sub_epi32(_mm256_castps_si256(_mm256_add_ps(v, _mm256_set1_ps(12582912.0f))), _mm256_set1_epi32(0x4B400000));
}

// Eight bfloat16.
LLM_OPERATION f32x8_t f_load_bf16(const uint16_t *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}

// As llm_exp2q.
LLM_OPERATION i32x8_t i_exp2q(f32x8_t exponent) {
    __m256 clamped = _mm256_max_ps(exponent, _mm256_set1_ps(-31.0f));
    __m256i fixed = _mm256_cvttps_epi32(_mm256_mul_ps(clamped, _mm256_set1_ps(16777216.0f)));
    __m256i even = _mm256_slli_epi32(_mm256_and_si256(fixed, _mm256_set1_epi32(0xFFFFFF)), 7);
    __m256i odd = _mm256_srli_epi64(even, 32);
    __m256i n = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_srai_epi32(fixed, 24));
    __m256i r = _mm256_set1_epi32(64154101);
    static const int32_t coefficients[5] = {154911401, 479317604, 1031498459, 1488531108, 1073741824};
    for (int i = 0; i < 5; i++) {
        // The high halves of the products of the even and of the odd lanes.
        __m256i low = _mm256_srli_epi64(_mm256_mul_epi32(even, r), 32);
        __m256i high = _mm256_mul_epi32(odd, _mm256_srli_epi64(r, 32));
        r = _mm256_add_epi32(_mm256_set1_epi32(coefficients[i]), _mm256_blend_epi32(low, high, 0xAA));
    }
    return _mm256_srav_epi32(r, n);
}

// The sum of lanes that are not negative, in 64 bits.
LLM_OPERATION uint64_t i_fold(i32x8_t v) {
    __m256i pairs = _mm256_add_epi64(_mm256_and_si256(v, _mm256_set1_epi64x(0xFFFFFFFF)), _mm256_srli_epi64(v, 32));
    __m128i sum = _mm_add_epi64(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    return (uint64_t)_mm_cvtsi128_si64(sum) + (uint64_t)_mm_extract_epi64(sum, 1);
}

// Stores the low halves of lanes that are within 16 bits.
LLM_OPERATION void i_store_i16(int16_t *p, i32x8_t v) {
    _mm_storeu_si128((void *)p, _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
}

// Stores lanes that are within 8 bits.
LLM_OPERATION void i_store_i8(int8_t *p, i32x8_t v) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((void *)p, _mm_packs_epi16(words, words));
}

// ---------------------------------------------------------------------------- the int8 cache

// sum + the products of 16 codes with 16 codes, spread over the lanes.
LLM_OPERATION i32x8_t i_mac16(i32x8_t sum, const int8_t *a, const int8_t *b) {
    __m256i a16 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)a));
    __m256i b16 = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)b));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(a16, b16));
}

// Stores the sums of the lanes of each of four vectors.
LLM_OPERATION void i_store_folded(float *p, i32x8_t a, i32x8_t b, i32x8_t c, i32x8_t d) {
    __m256i sums = _mm256_hadd_epi32(_mm256_hadd_epi32(a, b), _mm256_hadd_epi32(c, d));
    __m128i all = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    _mm_storeu_ps(p, _mm_cvtepi32_ps(all));
}

// sums[0..1] += u[0] * a[i] + u[1] * b[i] for i < 16.
LLM_OPERATION void i_weigh16(i32x8_t sums[2], const int16_t u[2], const int8_t *a, const int8_t *b) {
    int32_t pair;
    memcpy(&pair, u, sizeof(pair));
    __m256i weights = _mm256_set1_epi32(pair);
    __m128i a8 = _mm_loadu_si128((const void *)a);
    __m128i b8 = _mm_loadu_si128((const void *)b);
    __m256i low = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(a8, b8));
    __m256i high = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(a8, b8));
    sums[0] = _mm256_add_epi32(sums[0], _mm256_madd_epi16(low, weights));
    sums[1] = _mm256_add_epi32(sums[1], _mm256_madd_epi16(high, weights));
}

// ---------------------------------------------------------------------------- matrices
//
// The instruction for bytes, maddubs, multiplies bytes without a sign by bytes with one and saturates sums of two products at 16
// bits. Neither loses anything here, since activation codes are -127 to 127:
// - int4: 8 is added to each weight: 15 * 127 * 2 fits, even four products do. 8 times the sum of the codes is taken off again; those
//   sums are made once a vector and stored with the codes.
// - int8: the weight's sign is moved to the code: 128 * 127 * 2 = 32512 fits.

#define LLM_GROUP_BYTES 64 // of a group of activations: 32 codes, 8 corrections of 16 bits, 16 bytes of nothing

// Completes a group whose codes are stored.
LLM_OPERATION void finish_group(int8_t *group) {
    __m256i codes = _mm256_loadu_si256((const void *)group);
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(8), codes);
    __m128i corrections = _mm_add_epi16(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    _mm_storeu_si128((void *)(group + 32), corrections);
    _mm_storeu_si128((void *)(group + 48), _mm_setzero_si128());
}

// Asks for the weights of a few groups on: the processor guesses too late when a matrix comes from memory.
LLM_OPERATION void fetch_ahead(const uint8_t *data, int n_bytes) {
    for (int i = 0; i < n_bytes; i += 64) {
        _mm_prefetch((const char *)data + 2048 + i, _MM_HINT_T0);
    }
}

// Stores n <= 4 rows of y from their sums.
LLM_OPERATION void store_rows(float *y, uint32_t n, __m128i sums, const float *row_scales, float scale) {
    __m128 values = _mm_mul_ps(_mm_cvtepi32_ps(sums), _mm_mul_ps(_mm_loadu_ps(row_scales), _mm_set1_ps(scale)));
    if (n == LLM_TILE) {
        _mm_storeu_ps(y, values);
    } else {
        float four[LLM_TILE];
        _mm_storeu_ps(four, values);
        memcpy(y, four, n * sizeof(*y));
    }
}

// A group of a tile: rows 0 and 1, 2 and 3 in the halves of a vector.
typedef struct {
    __m256i low[2]; // elements 0 to 15
    __m256i high[2]; // elements 16 to 31
    __m256i scales[2];
} int4_tile_t;

typedef struct {
    __m256i rows[2];
} int4_sums_t;

LLM_OPERATION int4_tile_t int4_load(const uint8_t *data, const int8_t *scales) {
    // The scales of two rows as the high bytes of eight words each, then shifted down with their signs.
    const __m256i first = _mm256_set_epi8(1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1, 0, -1);
    const __m256i second = _mm256_set_epi8(3, -1, 3, -1, 3, -1, 3, -1, 3, -1, 3, -1, 3, -1, 3, -1, 2, -1, 2, -1, 2, -1, 2, -1, 2, -1, 2, -1, 2, -1, 2, -1);
    int32_t four;
    memcpy(&four, scales, sizeof(four));
    __m256i all = _mm256_set1_epi32(four);
    fetch_ahead(data, LLM_TILE * 16);
    int4_tile_t tile;
    tile.scales[0] = _mm256_srai_epi16(_mm256_shuffle_epi8(all, first), 8);
    tile.scales[1] = _mm256_srai_epi16(_mm256_shuffle_epi8(all, second), 8);
    for (int i = 0; i < 2; i++) {
        // Turning over the sign bit of a nibble adds 8 to it.
        __m256i w = _mm256_xor_si256(_mm256_loadu_si256((const void *)(data + 32 * i)), _mm256_set1_epi8((char)0x88));
        tile.low[i] = _mm256_and_si256(w, _mm256_set1_epi8(15));
        tile.high[i] = _mm256_and_si256(_mm256_srli_epi16(w, 4), _mm256_set1_epi8(15));
    }
    return tile;
}

LLM_OPERATION void int4_clear(int4_sums_t *sums) {
    sums->rows[0] = sums->rows[1] = _mm256_setzero_si256();
}

LLM_OPERATION void int4_mac(int4_sums_t *sums, const int4_tile_t *tile, const int8_t *group) {
    __m256i x_low = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)group));
    __m256i x_high = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(group + 16)));
    __m256i correction = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(group + 32)));
    for (int i = 0; i < 2; i++) {
        __m256i products = _mm256_add_epi16(_mm256_maddubs_epi16(tile->low[i], x_low), _mm256_maddubs_epi16(tile->high[i], x_high));
        products = _mm256_sub_epi16(products, correction);
        sums->rows[i] = _mm256_add_epi32(sums->rows[i], _mm256_madd_epi16(products, tile->scales[i]));
    }
}

LLM_OPERATION void int4_store(float *y, uint32_t n, const int4_sums_t *sums, const float *row_scales, float scale) {
    __m256i pairs = _mm256_hadd_epi32(sums->rows[0], sums->rows[1]);
    __m256i rows = _mm256_hadd_epi32(pairs, pairs); // 0, 2, 0, 2 and 1, 3, 1, 3
    store_rows(y, n, _mm_unpacklo_epi32(_mm256_castsi256_si128(rows), _mm256_extracti128_si256(rows, 1)), row_scales, scale);
}

// A group of a tile: a row in each vector.
typedef struct {
    __m256i weights[LLM_TILE];
    __m256i magnitudes[LLM_TILE]; // of weights, without a sign
    __m256i scales[LLM_TILE];
} int8_tile_t;

typedef struct {
    __m256i rows[LLM_TILE];
} int8_sums_t;

LLM_OPERATION int8_tile_t int8_load(const uint8_t *data, const int8_t *scales) {
    fetch_ahead(data, LLM_TILE * 32);
    int8_tile_t tile;
    for (int i = 0; i < LLM_TILE; i++) {
        tile.weights[i] = _mm256_loadu_si256((const void *)(data + 32 * i));
        tile.magnitudes[i] = _mm256_abs_epi8(tile.weights[i]);
        tile.scales[i] = _mm256_set1_epi16(scales[i]);
    }
    return tile;
}

LLM_OPERATION void int8_clear(int8_sums_t *sums) {
    for (int i = 0; i < LLM_TILE; i++) {
        sums->rows[i] = _mm256_setzero_si256();
    }
}

LLM_OPERATION void int8_mac(int8_sums_t *sums, const int8_tile_t *tile, const int8_t *group) {
    __m256i x = _mm256_loadu_si256((const void *)group);
    for (int i = 0; i < LLM_TILE; i++) {
        __m256i products = _mm256_maddubs_epi16(tile->magnitudes[i], _mm256_sign_epi8(x, tile->weights[i]));
        sums->rows[i] = _mm256_add_epi32(sums->rows[i], _mm256_madd_epi16(products, tile->scales[i]));
    }
}

LLM_OPERATION void int8_store(float *y, uint32_t n, const int8_sums_t *sums, const float *row_scales, float scale) {
    __m256i rows = _mm256_hadd_epi32(_mm256_hadd_epi32(sums->rows[0], sums->rows[1]), _mm256_hadd_epi32(sums->rows[2], sums->rows[3]));
    store_rows(y, n, _mm_add_epi32(_mm256_castsi256_si128(rows), _mm256_extracti128_si256(rows, 1)), row_scales, scale);
}

#endif
