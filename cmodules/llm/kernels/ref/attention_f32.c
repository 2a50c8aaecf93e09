// Attention (Vaswani et al., 2017) over a float cache.
#include "../attention.h"
#include "ref.h"

void llm_ref_attention_scores_f32(const llm_attention_t *a, const llm_run_t *run) {
    for (uint32_t i = 0; i < a->n_queries; i++) {
        llm_attention_sum_t *sum = &llm_attention_sums(a)[i];
        float *scores = llm_attention_scores_of(a, i, run);
        const float *k = run->k;
        float max = run->first == 0 ? LLM_MINUS_INFINITY : sum->max;
        for (uint32_t t = 0; t < run->n; t++, k += a->head_dim) {
            scores[t] = llm_ref_dot(a->q + i * a->head_dim, k, a->head_dim) * a->scale;
            max = scores[t] > max ? scores[t] : max;
        }
        sum->max = max;
    }
}

void llm_ref_attention_values_f32(const llm_attention_t *a, const llm_run_t *run) {
    for (uint32_t i = 0; i < a->n_queries; i++) {
        llm_attention_sum_t *sum = &llm_attention_sums(a)[i];
        const float *scores = llm_attention_scores_of(a, i, run);
        const float *v = run->v;
        float *out = a->out + i * a->head_dim;
        if (run->first == 0) {
            sum->total = 0;
            memset(out, 0, a->head_dim * sizeof(*out));
        }
        for (uint32_t t = 0; t < run->n; t++, v += a->head_dim) {
            int32_t p = llm_exp2q(scores[t] - sum->max);
            sum->total += (uint32_t)p;
            for (uint32_t j = 0; j < a->head_dim; j++) {
                out[j] += (float)p * v[j];
            }
        }
        if (run->first + run->n == a->n_positions) {
            float share = 1.0f / llm_sum_float(sum->total);
            for (uint32_t j = 0; j < a->head_dim; j++) {
                out[j] *= share;
            }
        }
    }
}
