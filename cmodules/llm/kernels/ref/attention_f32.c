// Attention (Vaswani et al., 2017) over a float cache.
#include "ref.h"

static void attend(const llm_attention_t *a, const llm_run_t *run, const float *q, float *out) {
    float *scores = a->scratch; // [n_positions]
    const float *k = run->k;
    const float *v = run->v;

    // Scores in powers of two.
    float scale = llm_rsqrt((float)a->head_dim) * LLM_LOG2_E;
    float max = LLM_MINUS_INFINITY;
    for (uint32_t t = 0; t < a->n_positions; t++) {
        scores[t] = llm_ref_dot(q, k + (size_t)t * a->head_dim, a->head_dim) * scale;
        max = scores[t] > max ? scores[t] : max;
    }

    // Softmax and the weighted sum of the values.
    uint64_t total = 0;
    memset(out, 0, a->head_dim * sizeof(*out));
    for (uint32_t t = 0; t < a->n_positions; t++) {
        int32_t p = llm_exp2q(scores[t] - max);
        const float *value = v + (size_t)t * a->head_dim;
        total += (uint32_t)p;
        for (uint32_t i = 0; i < a->head_dim; i++) {
            out[i] += (float)p * value[i];
        }
    }
    float share = 1.0f / llm_sum_float(total);
    for (uint32_t i = 0; i < a->head_dim; i++) {
        out[i] *= share;
    }
}

void llm_ref_attention_f32(const llm_attention_t *a, const llm_run_t *run) {
    for (uint32_t i = 0; i < a->n_queries; i++) {
        attend(a, run, a->q + i * a->head_dim, a->out + i * a->head_dim);
    }
}
