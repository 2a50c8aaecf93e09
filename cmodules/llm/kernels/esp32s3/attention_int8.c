// Attention over an int8 cache, of heads that are a whole number of vectors: scores and weighted values in assembly, softmax in C.
// The arithmetic is that of ref's file of the same name.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3
#include "../ref/ref.h"
#include "esp32s3.h"

#define VECTOR 16 // columns
#define PART 64 // columns that llm_esp32s3_scores takes at once
#define BLOCK 512 // positions whose weighted values fit a 32-bit sum and a lane of QACC

static uint32_t smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

// products[t] = q . k[t] for t < n.
static void multiply(int32_t *products, const int8_t *q, const int8_t *k, uint32_t n, uint32_t head_dim) {
    llm_esp32s3_scores(products, q, k, n, head_dim, smaller(head_dim, PART) / VECTOR);
    for (uint32_t column = PART; column < head_dim; column += PART) {
        uint32_t n_blocks = smaller(head_dim - column, PART) / VECTOR;
        int32_t more[32];
        for (uint32_t start = 0; start < n; start += 32) {
            uint32_t count = smaller(n - start, 32);
            llm_esp32s3_scores(more, q + column, k + (size_t)start * head_dim + column, count, head_dim, n_blocks);
            for (uint32_t t = 0; t < count; t++) {
                products[start + t] += more[t];
            }
        }
    }
}

// One query over all positions. `v_bound` is the largest scale of a value times 2^30 / 32767.
static void attend(const llm_attention_t *a, const float *q, float *out, float v_bound) {
    uint32_t padded_positions = (a->n_positions + 7) & ~7u;
    int8_t *q_codes = a->scratch; // [head_dim], first for its alignment
    int32_t *products = (int32_t *)(q_codes + llm_n_groups(a->head_dim) * LLM_GROUP); // [n_positions]
    float *scores = (float *)products; // in place
    int16_t *weights = (int16_t *)(products + padded_positions); // [n_positions]

    // Scores in powers of two.
    float q_scale = llm_ref_quantize(q_codes, q, a->head_dim) * (llm_rsqrt((float)a->head_dim) * LLM_LOG2_E);
    multiply(products, q_codes, a->k, a->n_positions, a->head_dim);
    float max = 0.0f;
    for (uint32_t t = 0; t < a->n_positions; t++) {
        scores[t] = (float)products[t] * (llm_bf16_float(a->k_scale[t]) * q_scale);
        max = t == 0 || scores[t] > max ? scores[t] : max;
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
    float scale = v_bound / llm_sum_float(total);
    for (uint32_t column = 0; column < a->head_dim; column += VECTOR) {
        float sum[VECTOR] = {0.0f};
        for (uint32_t start = 0; start < a->n_positions; start += BLOCK) {
            int32_t part[VECTOR];
            const int8_t *v = (const int8_t *)a->v + (size_t)start * a->head_dim + column;
            llm_esp32s3_values(part, weights + start, v, smaller(a->n_positions - start, BLOCK), a->head_dim);
            for (uint32_t i = 0; i < VECTOR; i++) {
                sum[i] += (float)part[i];
            }
        }
        for (uint32_t i = 0; i < VECTOR; i++) {
            out[column + i] = sum[i] * scale;
        }
    }
}

void llm_esp32s3_attention_int8(const llm_attention_t *a) {
    if (a->head_dim % VECTOR != 0 || ((uintptr_t)a->k | (uintptr_t)a->v) % VECTOR != 0) {
        llm_ref_attention_int8(a);
        return;
    }
    uint16_t largest = 0; // scales are not negative, so their bits compare as they do
    for (uint32_t t = 0; t < a->n_positions; t++) {
        largest = a->v_scale[t] > largest ? a->v_scale[t] : largest;
    }
    float v_bound = llm_bf16_float(largest) * 32769.0f;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        attend(a, a->q + i * a->head_dim, a->out + i * a->head_dim, v_bound);
    }
}
#endif
