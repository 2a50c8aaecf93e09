// Attention (Vaswani et al., 2017) over an int8 cache, in integers wherever many terms are added.
#include "ref.h"

#define BLOCK 512 // positions whose weighted values fit a 32-bit sum: 512 * 32767 * 127 < 2^31

static int32_t dot(const int8_t *a, const int8_t *b, uint32_t n) {
    int32_t sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

// One query over all positions. `v_bound` is the largest scale of a value times 2^30 / 32767.
static void attend(const llm_attention_t *a, const float *q, float *out, float v_bound) {
    uint32_t padded_positions = (a->n_positions + 7) & ~7u;
    uint32_t padded_dim = llm_n_groups(a->head_dim) * LLM_GROUP;
    float *scores = a->scratch; // [n_positions]
    int32_t *sums = (int32_t *)a->scratch + padded_positions; // [head_dim]
    int16_t *weights = (int16_t *)(sums + padded_dim); // [n_positions]
    int8_t *q_codes = (int8_t *)(weights + padded_positions); // [head_dim]
    const int8_t *k = a->k;
    const int8_t *v = a->v;

    // Scores in powers of two.
    float q_scale = llm_ref_quantize(q_codes, q, a->head_dim) * (llm_rsqrt((float)a->head_dim) * LLM_LOG2_E);
    float max = LLM_MINUS_INFINITY;
    for (uint32_t t = 0; t < a->n_positions; t++) {
        int32_t product = dot(q_codes, k + (size_t)t * a->head_dim, a->head_dim);
        scores[t] = (float)product * (llm_bf16_float(a->k_scale[t]) * q_scale);
        max = scores[t] > max ? scores[t] : max;
    }

    // Softmax, and each position's share of the values in 15 bits.
    float per_weight = v_bound > 0.0f ? 1.0f / v_bound : 0.0f;
    uint64_t total = 0;
    for (uint32_t t = 0; t < a->n_positions; t++) {
        int32_t p = llm_exp2q(scores[t] - max);
        total += (uint32_t)p;
        weights[t] = (int16_t)llm_round((float)p * (llm_bf16_float(a->v_scale[t]) * per_weight));
    }

    // The weighted sum of the values.
    memset(out, 0, a->head_dim * sizeof(*out));
    for (uint32_t start = 0; start < a->n_positions; start += BLOCK) {
        uint32_t end = a->n_positions - start < BLOCK ? a->n_positions : start + BLOCK;
        memset(sums, 0, a->head_dim * sizeof(*sums));
        for (uint32_t t = start; t < end; t++) {
            const int8_t *value = v + (size_t)t * a->head_dim;
            for (uint32_t i = 0; i < a->head_dim; i++) {
                sums[i] += weights[t] * value[i];
            }
        }
        for (uint32_t i = 0; i < a->head_dim; i++) {
            out[i] += (float)sums[i];
        }
    }
    float scale = v_bound / llm_sum_float(total);
    for (uint32_t i = 0; i < a->head_dim; i++) {
        out[i] *= scale;
    }
}

void llm_ref_attention_int8(const llm_attention_t *a) {
    uint16_t largest = 0; // scales are not negative, so their bits compare as they do
    for (uint32_t t = 0; t < a->n_positions; t++) {
        largest = a->v_scale[t] > largest ? a->v_scale[t] : largest;
    }
    float v_bound = llm_bf16_float(largest) * 32769.0f;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        attend(a, a->q + i * a->head_dim, a->out + i * a->head_dim, v_bound);
    }
}
