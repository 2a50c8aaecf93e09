// Attention over an int8 cache, of heads that are a whole number of vectors: scores and weighted values in assembly, softmax in C.
// The arithmetic is that of ref's file of the same name.
#include "../sets.h"
#if LLM_KERNELS_ESP32S3
#include "../attention.h"
#include "../ref/ref.h"
#include "esp32s3.h"

#define VECTOR 16 // columns
#define PART 64 // columns that llm_esp32s3_scores takes at once

static float score(float *scores, const int8_t *q, float q_scale, const llm_run_t *run, uint32_t head_dim, float max) {
    if (head_dim % VECTOR != 0) {
        return llm_ref_attention_score(scores, q, q_scale, run, head_dim, max);
    }
    int32_t *products = (int32_t *)scores; // in place
    llm_esp32s3_scores(products, q, run->k, run->n, head_dim, llm_min(head_dim, PART) / VECTOR);
    for (uint32_t column = PART; column < head_dim; column += PART) {
        uint32_t n_blocks = llm_min(head_dim - column, PART) / VECTOR;
        int32_t more[32];
        for (uint32_t start = 0; start < run->n; start += 32) {
            uint32_t count = llm_min(run->n - start, 32);
            const int8_t *k = (const int8_t *)run->k + (size_t)start * head_dim;
            llm_esp32s3_scores(more, q + column, k + column, count, head_dim, n_blocks);
            for (uint32_t t = 0; t < count; t++) {
                products[start + t] += more[t];
            }
        }
    }
    for (uint32_t t = 0; t < run->n; t++) {
        scores[t] = (float)products[t] * (llm_bf16_float(run->k_scale[t]) * q_scale);
        max = scores[t] > max ? scores[t] : max;
    }
    return max;
}

static void add(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim) {
    if (head_dim % VECTOR != 0) {
        llm_ref_attention_add(sums, weights, v, n, head_dim);
        return;
    }
    for (uint32_t column = 0; column < head_dim; column += VECTOR) {
        int32_t part[VECTOR];
        llm_esp32s3_values(part, weights, v + column, n, head_dim);
        for (uint32_t i = 0; i < VECTOR; i++) {
            sums[column + i] += part[i];
        }
    }
}

void llm_esp32s3_attention_scores(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_scores(a, run, score);
}

void llm_esp32s3_attention_values(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_values(a, run, llm_ref_attention_weigh, add);
}
#endif
