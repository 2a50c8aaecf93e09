// Attention over a float cache: ref's, eight positions or elements of a head at a time.
#include "../attention.h"
#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

LLM_VECTOR void llm_host_attention_scores_f32(const llm_attention_t *a, const llm_run_t *run) {
    uint32_t n = a->head_dim;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        llm_attention_sum_t *sum = &llm_attention_sums(a)[i];
        float *scores = llm_attention_scores_of(a, i, run);
        const float *k = run->k;
        float max = run->first == 0 ? LLM_MINUS_INFINITY : sum->max;
        for (uint32_t t = 0; t < run->n; t++, k += n) {
            scores[t] = f_dot(a->q + i * n, k, n) * a->scale;
            max = scores[t] > max ? scores[t] : max;
        }
        sum->max = max;
    }
}

// scores [n] become their powers as floats. Returns the sum of the powers.
LLM_VECTOR static uint64_t weigh(float *scores, uint32_t n, float max) {
    uint64_t total = 0;
    uint32_t t = 0;
    for (; t + 8 <= n; t += 8) {
        i32x8_t p = i_exp2q(f_sub(f_load(scores + t), f_set(max)));
        total += i_fold(p);
        f_store(scores + t, f_of(p));
    }
    for (; t < n; t++) {
        int32_t p = llm_exp2q(scores[t] - max);
        total += (uint32_t)p;
        scores[t] = (float)p;
    }
    return total;
}

LLM_VECTOR void llm_host_attention_values_f32(const llm_attention_t *a, const llm_run_t *run) {
    uint32_t n = a->head_dim;
    bool last = run->first + run->n == a->n_positions;
    for (uint32_t query = 0; query < a->n_queries; query++) {
        llm_attention_sum_t *state = &llm_attention_sums(a)[query];
        float *scores = llm_attention_scores_of(a, query, run);
        float *out = a->out + query * n;
        if (run->first == 0) {
            state->total = 0;
            memset(out, 0, n * sizeof(*out));
        }
        state->total += weigh(scores, run->n, state->max);
        float share = last ? 1.0f / llm_sum_float(state->total) : 1.0f;

        // The weighted sum of the values; each element of the head adds the positions in order.
        uint32_t i = 0;
        for (; i + 8 <= n; i += 8) {
            const float *v = (const float *)run->v + i;
            f32x8_t sum = f_load(out + i);
            for (uint32_t t = 0; t < run->n; t++, v += n) {
                sum = f_add(sum, f_mul(f_set(scores[t]), f_load(v)));
            }
            f_store(out + i, f_mul(sum, f_set(share)));
        }
        for (; i < n; i++) {
            const float *v = (const float *)run->v + i;
            float sum = out[i];
            for (uint32_t t = 0; t < run->n; t++, v += n) {
                sum += scores[t] * *v;
            }
            out[i] = sum * share;
        }
    }
}

#endif
