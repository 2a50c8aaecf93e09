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

// The lower, and the upper, halves of two words as two int16.
static inline int32_t lower_halves(int32_t a, int32_t b) {
    int32_t result;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

static inline int32_t upper_halves(int32_t a, int32_t b) {
    int32_t result;
    __asm__("pkhtb %0, %2, %1, asr #16" : "=r"(result) : "r"(a), "r"(b));
    return result;
}

static inline uint32_t load_word(const int8_t *p) {
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

// Two queries (or one twice) while they are worked on. Memory is the caller's scratch.
typedef struct {
    int32_t *codes[2]; // [head_dim / 2] pairs of int16: even, then odd elements of each four
    float scale[2]; // of the codes, times log2(e) / sqrt(head_dim)
    float *scores[2]; // [n_positions]
    float max[2]; // of the scores
    uint64_t total[2]; // of the probabilities
    int32_t *weights; // [n_positions / 2 rounded up][2 queries] pairs of int16: positions 2i and 2i + 1
} queries_t;

static float quantize_query(int32_t *codes, const float *q, uint32_t head_dim) {
    float max = 0.0f;
    for (uint32_t i = 0; i < head_dim; i++) {
        max = llm_armv7em_max(max, llm_armv7em_abs(q[i]));
    }
    float k = max < LLM_SMALLEST ? 0.0f : 127.0f / max;
    for (uint32_t i = 0; i < head_dim; i += 4, codes += 2) {
        codes[0] = lower_halves(llm_armv7em_round(q[i] * k), llm_armv7em_round(q[i + 2] * k));
        codes[1] = lower_halves(llm_armv7em_round(q[i + 1] * k), llm_armv7em_round(q[i + 3] * k));
    }
    return max < LLM_SMALLEST ? 0.0f : max / 127.0f;
}

// Scores of both queries at all positions, in powers of two. `head_dim` may be a constant, which unrolls the inner loop.
static inline __attribute__((always_inline)) void score(const llm_attention_t *a, queries_t *two, uint32_t head_dim) {
    const int8_t *k = a->k;
    const int32_t *codes0 = two->codes[0];
    const int32_t *codes1 = two->codes[1];
    float max0 = LLM_MINUS_INFINITY;
    float max1 = LLM_MINUS_INFINITY;
    for (uint32_t t = 0; t < a->n_positions; t++) {
        int32_t sum0 = 0;
        int32_t sum1 = 0;
        for (uint32_t i = 0; i < head_dim / 4; i++, k += 4) {
            uint32_t word = load_word(k);
            int32_t even = even_bytes(word);
            int32_t odd = odd_bytes(word);
            sum0 = __smlad(even, codes0[2 * i], sum0);
            sum1 = __smlad(even, codes1[2 * i], sum1);
            sum0 = __smlad(odd, codes0[2 * i + 1], sum0);
            sum1 = __smlad(odd, codes1[2 * i + 1], sum1);
        }
        float k_scale = llm_bf16_float(a->k_scale[t]);
        float score0 = (float)sum0 * (k_scale * two->scale[0]);
        float score1 = (float)sum1 * (k_scale * two->scale[1]);
        two->scores[0][t] = score0;
        two->scores[1][t] = score1;
        max0 = llm_armv7em_max(max0, score0);
        max1 = llm_armv7em_max(max1, score1);
    }
    two->max[0] = max0;
    two->max[1] = max1;
}

// The share of position t in both queries, as int16.
static inline void weigh(const llm_attention_t *a, queries_t *two, uint32_t t, float per_weight, int32_t weight[2]) {
    float v_scale = llm_bf16_float(a->v_scale[t]) * per_weight;
    for (uint32_t i = 0; i < 2; i++) {
        int32_t p = llm_armv7em_exp2q(two->scores[i][t] - two->max[i]);
        two->total[i] += (uint32_t)p;
        weight[i] = llm_armv7em_round((float)p * v_scale);
    }
}

static void softmax(const llm_attention_t *a, queries_t *two, float v_bound) {
    float per_weight = v_bound > 0.0f ? 1.0f / v_bound : 0.0f;
    two->total[0] = 0;
    two->total[1] = 0;
    int32_t *weights = two->weights;
    uint32_t t = 0;
    for (; t + 2 <= a->n_positions; t += 2, weights += 2) {
        int32_t first[2];
        int32_t second[2];
        weigh(a, two, t, per_weight, first);
        weigh(a, two, t + 1, per_weight, second);
        weights[0] = lower_halves(first[0], second[0]);
        weights[1] = lower_halves(first[1], second[1]);
    }
    if (t < a->n_positions) {
        int32_t last[2];
        weigh(a, two, t, per_weight, last);
        weights[0] = last[0] & 0xFFFF;
        weights[1] = last[1] & 0xFFFF;
    }
}

// out0, out1 [4] = the weighted sum of four elements of the values, v [n_positions][head_dim].
static void add_values(const int8_t *v, uint32_t head_dim, const int32_t *weights, uint32_t n_positions, float *out0, float *out1) {
    for (uint32_t i = 0; i < 4; i++) {
        out0[i] = 0.0f;
        out1[i] = 0.0f;
    }
    while (n_positions > 0) {
        uint32_t n = n_positions < BLOCK ? n_positions : BLOCK;
        n_positions -= n;
        int32_t a0 = 0, a1 = 0, a2 = 0, a3 = 0;
        int32_t b0 = 0, b1 = 0, b2 = 0, b3 = 0;
        for (; n > 0; n -= 2) {
            uint32_t first = load_word(v);
            v += head_dim;
            uint32_t second = 0;
            if (n > 1) {
                second = load_word(v);
                v += head_dim;
            } else {
                n = 2;
            }
            int32_t w0 = *weights++;
            int32_t w1 = *weights++;
            int32_t even0 = even_bytes(first);
            int32_t even1 = even_bytes(second);
            int32_t pair = lower_halves(even0, even1);
            a0 = __smlad(pair, w0, a0);
            b0 = __smlad(pair, w1, b0);
            pair = upper_halves(even0, even1);
            a2 = __smlad(pair, w0, a2);
            b2 = __smlad(pair, w1, b2);
            int32_t odd0 = odd_bytes(first);
            int32_t odd1 = odd_bytes(second);
            pair = lower_halves(odd0, odd1);
            a1 = __smlad(pair, w0, a1);
            b1 = __smlad(pair, w1, b1);
            pair = upper_halves(odd0, odd1);
            a3 = __smlad(pair, w0, a3);
            b3 = __smlad(pair, w1, b3);
        }
        out0[0] += (float)a0;
        out0[1] += (float)a1;
        out0[2] += (float)a2;
        out0[3] += (float)a3;
        out1[0] += (float)b0;
        out1[1] += (float)b1;
        out1[2] += (float)b2;
        out1[3] += (float)b3;
    }
}

// Queries q0 and q1, which may be the same.
static void attend(const llm_attention_t *a, uint32_t q0, uint32_t q1, float v_bound) {
    uint32_t head_dim = a->head_dim;
    uint32_t padded_positions = (a->n_positions + 7) & ~7u;
    queries_t two;
    two.scores[0] = a->scratch;
    two.scores[1] = q0 == q1 ? two.scores[0] : two.scores[0] + padded_positions;
    two.codes[0] = (int32_t *)(two.scores[1] + padded_positions);
    // The codes are used up before the weights are written. A query that is paired with itself has half the scratch: two weights
    // of a position take the place of its score, once it has been read.
    two.weights = q0 == q1 ? (int32_t *)two.scores[0] : two.codes[0];
    two.codes[1] = q0 == q1 ? two.codes[0] : two.codes[0] + head_dim / 2;

    float factor = llm_rsqrt((float)head_dim) * LLM_LOG2_E;
    two.scale[0] = quantize_query(two.codes[0], a->q + q0 * head_dim, head_dim) * factor;
    two.scale[1] = quantize_query(two.codes[1], a->q + q1 * head_dim, head_dim) * factor;
    switch (head_dim) {
        case 8:
            score(a, &two, 8);
            break;
        case 32:
            score(a, &two, 32);
            break;
        case 64:
            score(a, &two, 64);
            break;
        default:
            score(a, &two, head_dim);
            break;
    }
    softmax(a, &two, v_bound);
    float scale0 = v_bound / llm_sum_float(two.total[0]);
    float scale1 = v_bound / llm_sum_float(two.total[1]);
    for (uint32_t i = 0; i < head_dim; i += 4) {
        float *out0 = a->out + q0 * head_dim + i;
        float *out1 = a->out + q1 * head_dim + i;
        float spare[4];
        add_values((const int8_t *)a->v + i, head_dim, two.weights, a->n_positions, out0, q0 == q1 ? spare : out1);
        for (uint32_t j = 0; j < 4; j++) {
            out0[j] *= scale0;
            if (q0 != q1) {
                out1[j] *= scale1;
            }
        }
    }
}

void llm_armv7em_attention_int8(const llm_attention_t *a) {
    if (a->head_dim % 4 != 0) {
        llm_ref_attention_int8(a);
        return;
    }
    uint16_t largest = 0; // scales are not negative, so their bits compare as they do
    for (uint32_t t = 0; t < a->n_positions; t++) {
        largest = a->v_scale[t] > largest ? a->v_scale[t] : largest;
    }
    float v_bound = llm_bf16_float(largest) * 32769.0f;
    uint32_t i = 0;
    for (; i + 2 <= a->n_queries; i += 2) {
        attend(a, i, i + 1, v_bound);
    }
    if (i < a->n_queries) {
        attend(a, i, i, v_bound);
    }
}

#endif
