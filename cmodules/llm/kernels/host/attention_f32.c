// Attention over a float cache: ref's, eight positions or elements of a head at a time.
#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

LLM_VECTOR static void attend(const llm_attention_t *a, const llm_run_t *run, const float *q, float *out) {
    float *scores = a->scratch; // [n_positions], then their powers as floats
    uint32_t n = a->head_dim;

    // Scores in powers of two.
    float scale = llm_rsqrt((float)n) * LLM_LOG2_E;
    const float *k = run->k;
    float max = LLM_MINUS_INFINITY;
    for (uint32_t t = 0; t < a->n_positions; t++, k += n) {
        scores[t] = f_dot(q, k, n) * scale;
        max = scores[t] > max ? scores[t] : max;
    }
    uint64_t total = 0;
    uint32_t t = 0;
    for (; t + 8 <= a->n_positions; t += 8) {
        i32x8_t p = i_exp2q(f_sub(f_load(scores + t), f_set(max)));
        total += i_fold(p);
        f_store(scores + t, f_of(p));
    }
    for (; t < a->n_positions; t++) {
        int32_t p = llm_exp2q(scores[t] - max);
        total += (uint32_t)p;
        scores[t] = (float)p;
    }

    // The weighted sum of the values; each element of the head adds the positions in order.
    float share = 1.0f / llm_sum_float(total);
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const float *v = (const float *)run->v + i;
        f32x8_t sum = f_set(0.0f);
        for (t = 0; t < a->n_positions; t++, v += n) {
            sum = f_add(sum, f_mul(f_set(scores[t]), f_load(v)));
        }
        f_store(out + i, f_mul(sum, f_set(share)));
    }
    for (; i < n; i++) {
        const float *v = (const float *)run->v + i;
        float sum = 0.0f;
        for (t = 0; t < a->n_positions; t++, v += n) {
            sum += scores[t] * *v;
        }
        out[i] = sum * share;
    }
}

void llm_host_attention_f32(const llm_attention_t *a, const llm_run_t *run) {
    for (uint32_t i = 0; i < a->n_queries; i++) {
        attend(a, run, a->q + i * a->head_dim, a->out + i * a->head_dim);
    }
}

#endif
