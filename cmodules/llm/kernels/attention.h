// Attention over an int8 cache, as far as sets have it in common whose queries are int8 codes: what lies in scratch, and how runs
// and blocks meet. A set brings its loops over the positions of a run.
#ifndef LLM_ATTENTION_H
#define LLM_ATTENTION_H

#include "kernels.h"

// Quantizes x [n] to codes [n rounded up to 32, zeros at the end] and returns the scale.
typedef float llm_attention_quantize_t(void *codes, const float *x, uint32_t n);

// scores[t] = float(q . k[t]) * (k_scale[t] * q_scale) for t < run->n. q is [head_dim rounded up to 32], zeros at the end, at a
// multiple of 16. Returns the largest of the scores and `max`.
typedef float llm_attention_score_t(float *scores, const int8_t *q, float q_scale, const llm_run_t *run, uint32_t head_dim, float max);

// weights[t] = round(p * (v_scale[t] * per_weight)) with p = exp2q(scores[t] - max), for t < n, n <= LLM_ATTENTION_BLOCK.
// `weights` has room for n rounded up to 8. Returns the sum of p.
typedef uint64_t llm_attention_weigh_t(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max, float per_weight);

// sums[i] += sum over t < n of weights[t] * v[t][i], for i < head_dim, n <= LLM_ATTENTION_BLOCK. What comes into `sums` from there
// to the next multiple of 32 does not matter.
typedef void llm_attention_add_t(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim);

// The functions of the table for an int8 cache, made of these.
void llm_attention_query(const llm_attention_t *a, llm_attention_quantize_t *quantize);
void llm_attention_scores(const llm_attention_t *a, const llm_run_t *run, llm_attention_score_t *score);
void llm_attention_values(const llm_attention_t *a, const llm_run_t *run, llm_attention_weigh_t *weigh, llm_attention_add_t *add);

// Attention over a float cache: what all sets keep in scratch, one for each query, then scores [n_queries][n_positions rounded up to 8].
typedef struct {
    uint64_t total; // of its probabilities so far
    float max; // of its scores so far
} llm_attention_sum_t;

static inline llm_attention_sum_t *llm_attention_sums(const llm_attention_t *a) {
    return (llm_attention_sum_t *)a->scratch;
}

// The scores of the positions of a run.
static inline float *llm_attention_scores_of(const llm_attention_t *a, uint32_t query, const llm_run_t *run) {
    float *scores = (float *)(llm_attention_sums(a) + a->n_queries);
    return scores + (size_t)query * ((a->n_positions + 7) & ~7u) + run->first;
}

#endif
