// Attention (Vaswani et al., 2017) over an int8 cache, in integers wherever many terms are added.
#include "../attention.h"
#include "ref.h"

float llm_ref_attention_score(float *scores, const int8_t *q, float q_scale, const llm_run_t *run, uint32_t head_dim, float max) {
    const int8_t *k = run->k;
    for (uint32_t t = 0; t < run->n; t++, k += head_dim) {
        int32_t product = 0;
        for (uint32_t i = 0; i < head_dim; i++) {
            product += q[i] * k[i];
        }
        scores[t] = (float)product * (llm_bf16_float(run->k_scale[t]) * q_scale);
        max = scores[t] > max ? scores[t] : max;
    }
    return max;
}

uint64_t llm_ref_attention_weigh(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max, float per_weight) {
    uint64_t total = 0;
    for (uint32_t t = 0; t < n; t++) {
        int32_t p = llm_exp2q(scores[t] - max);
        total += (uint32_t)p;
        weights[t] = (int16_t)llm_round((float)p * (llm_bf16_float(v_scale[t]) * per_weight));
    }
    return total;
}

void llm_ref_attention_add(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim) {
    for (uint32_t t = 0; t < n; t++, v += head_dim) {
        for (uint32_t i = 0; i < head_dim; i++) {
            sums[i] += weights[t] * v[i];
        }
    }
}

void llm_ref_attention_query(const llm_attention_t *a) {
    llm_attention_query(a, llm_ref_quantize);
}

void llm_ref_attention_scores(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_scores(a, run, llm_ref_attention_score);
}

void llm_ref_attention_values(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_values(a, run, llm_ref_attention_weigh, llm_ref_attention_add);
}
