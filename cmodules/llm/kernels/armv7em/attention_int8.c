// Attention over an int8 cache: each key and value is widened once for two queries that share it.
#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include <arm_acle.h>

#include "../ref/ref.h"
#include "fpu.h"

#define BLOCK 512 // positions whose weighted values fit a 32-bit sum, as in the reference

// Bytes 0 and 2, and 1 and 3, of a word as two int16.
static inline int32_t even_bytes(uint32_t word) {
    int32_t result;
    __asm__("sxtb16 %0, %1" : "=r"(result) : "r"(word));
    return result;
}

static inline int32_t odd_bytes(uint32_t word) {
    int32_t result;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(word));
    return result;
}

// Two int16 in a word.
static inline int32_t pair(int32_t low, int32_t high) {
    int32_t result;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(result) : "r"(low), "r"(high));
    return result;
}

static inline uint32_t load_word(const void *p) {
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

// A query as int16 codes [head_dim]: even, then odd elements of each four. Returns their scale.
static float quantize_query(int32_t *codes, const float *q, uint32_t head_dim) {
    float max0 = 0.0f;
    float max1 = 0.0f;
    for (uint32_t i = 0; i < head_dim; i += 4) {
        max0 = llm_armv7em_max(max0, llm_armv7em_abs(q[i]));
        max1 = llm_armv7em_max(max1, llm_armv7em_abs(q[i + 1]));
        max0 = llm_armv7em_max(max0, llm_armv7em_abs(q[i + 2]));
        max1 = llm_armv7em_max(max1, llm_armv7em_abs(q[i + 3]));
    }
    float max = llm_armv7em_max(max0, max1);
    float k = max < LLM_SMALLEST ? 0.0f : 127.0f / max;
    for (uint32_t i = 0; i < head_dim; i += 4, codes += 2) {
        codes[0] = pair(llm_armv7em_round(q[i] * k), llm_armv7em_round(q[i + 2] * k));
        codes[1] = pair(llm_armv7em_round(q[i + 1] * k), llm_armv7em_round(q[i + 3] * k));
    }
    return max < LLM_SMALLEST ? 0.0f : max / 127.0f;
}

// What all queries of a KV head share.
typedef struct {
    float to_powers_of_two; // log2(e) / sqrt(head_dim)
    float v_bound; // the largest scale of a value times 2^30 / 32767
    float per_weight; // 1 / v_bound, 0 if there is nothing to weigh
} shared_t;

// ---------------------------------------------------------------------------- two queries

// Widths of a head that attention_values.S has a loop for.
typedef void values_t(const int8_t *v, const int32_t *weights, uint32_t n_positions, int32_t sums[8]);
values_t llm_armv7em_values_8;
values_t llm_armv7em_values_16;
values_t llm_armv7em_values_32;
values_t llm_armv7em_values_48;
values_t llm_armv7em_values_64;
values_t llm_armv7em_values_96;
values_t llm_armv7em_values_128;
void llm_armv7em_score8(float *scores, float max[2], const int32_t codes[8], const int8_t *k, const uint16_t *k_scale, uint32_t n_pairs, float scale0, float scale1);
void llm_armv7em_softmax(float *scores, uint64_t totals[2], const uint16_t *v_scale, uint32_t n_positions, const float max[2], float per_weight);

static values_t *find_values(uint32_t head_dim) {
    switch (head_dim) {
        case 8:
            return llm_armv7em_values_8;
        case 16:
            return llm_armv7em_values_16;
        case 32:
            return llm_armv7em_values_32;
        case 48:
            return llm_armv7em_values_48;
        case 64:
            return llm_armv7em_values_64;
        case 96:
            return llm_armv7em_values_96;
        case 128:
            return llm_armv7em_values_128;
        default:
            return NULL;
    }
}

// scores [n_positions][2] from position `t` on; max[2] takes them in.
static void score_two(const llm_attention_t *a, float *scores, float max[2], const int32_t *codes, const float scale[2], uint32_t t) {
    uint32_t n_words = a->head_dim / 4;
    const int8_t *k = (const int8_t *)a->k + (size_t)t * a->head_dim;
    for (; t < a->n_positions; t++) {
        int32_t sum0 = 0;
        int32_t sum1 = 0;
        for (uint32_t i = 0; i < n_words; i++, k += 4) {
            const int32_t *code = codes + 2 * i;
            uint32_t word = load_word(k);
            int32_t even = even_bytes(word);
            int32_t odd = odd_bytes(word);
            sum0 = __smlad(even, code[0], sum0);
            sum1 = __smlad(even, code[2 * n_words], sum1);
            sum0 = __smlad(odd, code[1], sum0);
            sum1 = __smlad(odd, code[2 * n_words + 1], sum1);
        }
        float k_scale = llm_bf16_float(a->k_scale[t]);
        scores[2 * t] = (float)sum0 * (k_scale * scale[0]);
        scores[2 * t + 1] = (float)sum1 * (k_scale * scale[1]);
        max[0] = llm_armv7em_max(max[0], scores[2 * t]);
        max[1] = llm_armv7em_max(max[1], scores[2 * t + 1]);
    }
}

// Four elements from their sums, the first block's and further ones'.
static inline void put(float *out, const int32_t *sums) {
    out[0] = (float)sums[0];
    out[2] = (float)sums[1];
    out[1] = (float)sums[2];
    out[3] = (float)sums[3];
}

static inline void put_more(float *out, const int32_t *sums) {
    out[0] += (float)sums[0];
    out[2] += (float)sums[1];
    out[1] += (float)sums[2];
    out[3] += (float)sums[3];
}

static void attend_two(const llm_attention_t *a, uint32_t first, const shared_t *shared, values_t *values) {
    uint32_t head_dim = a->head_dim;
    uint32_t n = a->n_positions;
    uint32_t padded = (n + 7) & ~7u;
    float *scores = a->scratch; // [padded][2], then weights in their place
    int32_t *codes = (int32_t *)(scores + 2 * padded); // [2][head_dim / 2]
    const float *q = a->q + first * head_dim;
    float *out = a->out + first * head_dim;

    float max[2] = {LLM_MINUS_INFINITY, LLM_MINUS_INFINITY};
    float scale[2];
    scale[0] = quantize_query(codes, q, head_dim) * shared->to_powers_of_two;
    scale[1] = quantize_query(codes + head_dim / 2, q + head_dim, head_dim) * shared->to_powers_of_two;
    uint32_t done = 0;
    if (head_dim == 8 && n >= 2 && (uintptr_t)a->k % sizeof(uint32_t) == 0) { // its LDRD takes no other address
        done = n & ~1u;
        llm_armv7em_score8(scores, max, codes, a->k, a->k_scale, n / 2, scale[0], scale[1]);
    }
    score_two(a, scores, max, codes, scale, done);

    if (n % 2 != 0) { // a position that counts nothing
        scores[2 * n] = LLM_MINUS_INFINITY;
        scores[2 * n + 1] = LLM_MINUS_INFINITY;
    }
    uint64_t totals[2];
    llm_armv7em_softmax(scores, totals, a->v_scale, n, max, shared->per_weight);

    scale[0] = shared->v_bound / llm_sum_float(totals[0]);
    scale[1] = shared->v_bound / llm_sum_float(totals[1]);
    for (uint32_t i = 0; i < head_dim; i += 4) {
        float *out0 = out + i;
        float *out1 = out0 + head_dim;
        for (uint32_t from = 0; from < n; from += BLOCK) {
            int32_t sums[8];
            values((const int8_t *)a->v + (size_t)from * head_dim + i, (const int32_t *)a->scratch + 2 * from, n - from < BLOCK ? n - from : BLOCK, sums);
            if (from == 0) {
                put(out0, sums);
                put(out1, sums + 4);
            } else {
                put_more(out0, sums);
                put_more(out1, sums + 4);
            }
        }
        for (uint32_t j = 0; j < 4; j++) {
            out0[j] *= scale[0];
            out1[j] *= scale[1];
        }
    }
}

// ---------------------------------------------------------------------------- one query

static void attend_one(const llm_attention_t *a, uint32_t index, const shared_t *shared) {
    uint32_t head_dim = a->head_dim;
    uint32_t n = a->n_positions;
    uint32_t padded = (n + 7) & ~7u;
    float *scores = a->scratch; // [padded]
    int16_t *weights = (int16_t *)(scores + padded); // [padded]
    int32_t *codes = (int32_t *)(weights + padded); // [head_dim / 2]
    float *out = a->out + index * head_dim;

    float scale = quantize_query(codes, a->q + index * head_dim, head_dim) * shared->to_powers_of_two;
    float max = LLM_MINUS_INFINITY;
    const int8_t *k = a->k;
    for (uint32_t t = 0; t < n; t++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < head_dim / 2; i += 2, k += 4) {
            uint32_t word = load_word(k);
            sum = __smlad(even_bytes(word), codes[i], sum);
            sum = __smlad(odd_bytes(word), codes[i + 1], sum);
        }
        scores[t] = (float)sum * (llm_bf16_float(a->k_scale[t]) * scale);
        max = llm_armv7em_max(max, scores[t]);
    }

    uint64_t total = 0;
    for (uint32_t t = 0; t < n; t++) {
        int32_t p = llm_armv7em_exp2q(scores[t] - max);
        total += (uint32_t)p;
        weights[t] = (int16_t)llm_armv7em_round((float)p * (llm_bf16_float(a->v_scale[t]) * shared->per_weight));
    }

    scale = shared->v_bound / llm_sum_float(total);
    for (uint32_t i = 0; i < head_dim; i += 4) {
        float o[4] = {0.0f};
        const int8_t *v = (const int8_t *)a->v + i;
        for (uint32_t from = 0; from < n; from += BLOCK) {
            uint32_t to = n - from < BLOCK ? n : from + BLOCK;
            int32_t sum0 = 0;
            int32_t sum1 = 0;
            int32_t sum2 = 0;
            int32_t sum3 = 0;
            for (uint32_t t = from; t < to; t++, v += head_dim) {
                uint32_t word = load_word(v);
                int32_t even = even_bytes(word);
                int32_t odd = odd_bytes(word);
                sum0 = __smlabb(even, weights[t], sum0);
                sum1 = __smlabb(odd, weights[t], sum1);
                sum2 = __smlatb(even, weights[t], sum2);
                sum3 = __smlatb(odd, weights[t], sum3);
            }
            o[0] += (float)sum0;
            o[1] += (float)sum1;
            o[2] += (float)sum2;
            o[3] += (float)sum3;
        }
        for (uint32_t j = 0; j < 4; j++) {
            out[i + j] = o[j] * scale;
        }
    }
}

// ---------------------------------------------------------------------------- all of them

// Scales are not negative, so their bits compare as they do: two at a time.
static uint32_t largest_of(const uint16_t *scales, uint32_t n) {
    uint32_t largest = 0;
    uint32_t t = 0;
    for (; t + 8 <= n; t += 8) {
        for (uint32_t i = 0; i < 8; i += 2) {
            uint32_t two = load_word(scales + t + i);
            (void)__usub16(two, largest);
            largest = __sel(two, largest);
        }
    }
    for (; t < n; t++) {
        (void)__usub16(scales[t], largest);
        largest = __sel(scales[t], largest);
    }
    uint32_t a = largest & 0xFFFF;
    uint32_t b = largest >> 16;
    return a > b ? a : b;
}

void llm_armv7em_attention_int8(const llm_attention_t *a) {
    if (a->head_dim % 4 != 0) {
        llm_ref_attention_int8(a);
        return;
    }
    shared_t shared;
    shared.to_powers_of_two = llm_rsqrt((float)a->head_dim) * LLM_LOG2_E;
    shared.v_bound = llm_bf16_float((uint16_t)largest_of(a->v_scale, a->n_positions)) * 32769.0f;
    shared.per_weight = shared.v_bound > 0.0f ? 1.0f / shared.v_bound : 0.0f;
    values_t *values = find_values(a->head_dim);
    uint32_t i = 0;
    for (; values != NULL && i + 2 <= a->n_queries; i += 2) {
        attend_two(a, i, &shared, values);
    }
    for (; i < a->n_queries; i++) {
        attend_one(a, i, &shared);
    }
}

#endif
