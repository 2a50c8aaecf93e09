// Attention over an int8 cache: each key and value is widened once for two queries that share it.
#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include <arm_acle.h>

#include "../ref/ref.h"

// The loops, in attention_scores.S, attention_softmax.S and attention_values.S.
void llm_armv7em_quantize_queries(int32_t *codes, float *scales, const float *q, uint32_t head_dim, uint32_t n, float scale);
void llm_armv7em_score_two_of_8(float *scores, float max[2], const int32_t codes[8], const int8_t *k, const uint16_t *k_scale, uint32_t n, float scale0, float scale1);
void llm_armv7em_score_two(float *scores, float max[2], const int32_t *codes, const int8_t *k, const uint16_t *k_scale, uint32_t n, uint32_t head_dim, float scale0, float scale1);
float llm_armv7em_score_one(float *scores, const int32_t *codes, const int8_t *k, const uint16_t *k_scale, uint32_t n, uint32_t head_dim, float scale, float max);
void llm_armv7em_softmax_two(float *scores, uint64_t totals[2], const uint16_t *v_scale, uint32_t n, const float max[2], float per_weight);
uint64_t llm_armv7em_softmax_one(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max, float per_weight);
void llm_armv7em_add_two(int32_t *sums, const float *weights, const int8_t *v, uint32_t n, uint32_t head_dim, bool anew);
void llm_armv7em_put_two(float *out, const int32_t *sums, uint32_t head_dim, bool first, float scale0, float scale1);
void llm_armv7em_add_one(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim, bool anew);

// Scratch begins with the weights of a query that goes alone, and what all queries share. Then come the queries, two at a time, the last
// of an odd number alone: n = 1 or 2.
typedef struct {
    int16_t weights[LLM_ATTENTION_BLOCK]; // of a run's positions, as far as they belong to one block
    uint32_t v_largest; // bits of the largest scale of a value so far
    uint32_t unused[3];
} shared_t;

typedef struct {
    uint64_t totals[2]; // of the probabilities so far, as attention_softmax.S has them
    float max[2]; // of the scores so far
    float scale[2]; // of the codes, times llm_attention_t.scale
    // int32_t codes[head_dim / 2][n]: two int16 each
    // int32_t sums[head_dim / 2][n][2]: weighted values of the block under way
    // float scores[n_positions][n]: then the weights of two queries; there is room for one position more
} queries_t;

static inline queries_t *queries_at(const llm_attention_t *a, uint32_t i) {
    size_t each = sizeof(queries_t) + 6 * a->head_dim + ((a->n_positions + 8) & ~7u) * sizeof(float);
    return (queries_t *)((uint8_t *)a->scratch + sizeof(shared_t) + i * each);
}

static inline int32_t *codes_of(queries_t *queries) {
    return (int32_t *)(queries + 1);
}

static inline int32_t *sums_of(queries_t *queries, uint32_t n, uint32_t head_dim) {
    return codes_of(queries) + n * head_dim / 2;
}

static inline float *scores_of(queries_t *queries, uint32_t n, uint32_t head_dim) {
    return (float *)(sums_of(queries, n, head_dim) + n * head_dim);
}

// How many queries go together from the `i`-th on.
static inline uint32_t together(const llm_attention_t *a, uint32_t i) {
    return i + 1 < a->n_queries ? 2 : 1;
}

// ---------------------------------------------------------------------------- queries

void llm_armv7em_attention_query(const llm_attention_t *a) {
    uint32_t head_dim = a->head_dim;
    if (head_dim % 8 != 0) {
        llm_ref_attention_query(a);
        return;
    }
    for (uint32_t i = 0, n; i < a->n_queries; i += n) {
        n = together(a, i);
        queries_t *queries = queries_at(a, i);
        llm_armv7em_quantize_queries(codes_of(queries), queries->scale, a->q + i * head_dim, head_dim, n, a->scale);
    }
}

// ---------------------------------------------------------------------------- scores

// Scales are not negative, so their bits compare as they do: two at a time.
static uint32_t largest_of(const uint16_t *scales, uint32_t n) {
    uint32_t largest = 0;
    uint32_t t = 0;
    for (; t + 8 <= n; t += 8) {
        for (uint32_t i = 0; i < 8; i += 2) {
            uint32_t two;
            memcpy(&two, scales + t + i, sizeof(two));
            (void)__usub16(two, largest);
            largest = __sel(two, largest);
        }
    }
    for (; t < n; t++) {
        (void)__usub16(scales[t], largest);
        largest = __sel(scales[t], largest);
    }
    uint32_t a = largest & 0xFFFF;
    uint32_t b = largest >> 16;
    return a > b ? a : b;
}

void llm_armv7em_attention_scores(const llm_attention_t *a, const llm_run_t *run) {
    uint32_t head_dim = a->head_dim;
    if (head_dim % 8 != 0) {
        llm_ref_attention_scores(a, run);
        return;
    }
    shared_t *shared = a->scratch;
    uint32_t largest = largest_of(run->v_scale, run->n);
    if (run->first == 0 || largest > shared->v_largest) {
        shared->v_largest = largest;
    }
    for (uint32_t i = 0, n; i < a->n_queries; i += n) {
        n = together(a, i);
        queries_t *queries = queries_at(a, i);
        const int32_t *codes = codes_of(queries);
        float *scores = scores_of(queries, n, head_dim) + n * run->first;
        if (run->first == 0) {
            queries->totals[0] = queries->totals[1] = 0;
            queries->max[0] = queries->max[1] = LLM_MINUS_INFINITY;
        }
        if (n == 1) {
            queries->max[0] = llm_armv7em_score_one(scores, codes, run->k, run->k_scale, run->n, head_dim, queries->scale[0], queries->max[0]);
        } else if (head_dim == 8 && run->n >= 2) {
            llm_armv7em_score_two_of_8(scores, queries->max, codes, run->k, run->k_scale, run->n, queries->scale[0], queries->scale[1]);
        } else {
            llm_armv7em_score_two(scores, queries->max, codes, run->k, run->k_scale, run->n, head_dim, queries->scale[0], queries->scale[1]);
        }
    }
}

// ---------------------------------------------------------------------------- values

#define PER_TOTAL 0x5EF05787ACB1BA5Du // 1 / 64154101 modulo 2^64

// out [n][head_dim] = sums times scale of each query, `out` added before if these are not the first.
static void put(float *out, const int32_t *sums, uint32_t n, uint32_t head_dim, bool first, const float scale[2]) {
    if (n == 2) {
        llm_armv7em_put_two(out, sums, head_dim, first, scale[0], scale[1]);
        return;
    }
    for (uint32_t i = 0; i < head_dim; i++) {
        out[i] = (first ? (float)sums[i] : out[i] + (float)sums[i]) * scale[0];
    }
}

void llm_armv7em_attention_values(const llm_attention_t *a, const llm_run_t *run) {
    uint32_t head_dim = a->head_dim;
    if (head_dim % 8 != 0) {
        llm_ref_attention_values(a, run);
        return;
    }
    shared_t *shared = a->scratch;
    float v_bound = llm_bf16_float((uint16_t)shared->v_largest) * 32769.0f; // the largest scale of a value times 2^30 / 32767
    float per_weight = v_bound > 0.0f ? 1.0f / v_bound : 0.0f;
    float *out = a->out;
    for (uint32_t i = 0, n; i < a->n_queries; i += n) {
        n = together(a, i);
        queries_t *queries = queries_at(a, i);
        int32_t *sums = sums_of(queries, n, head_dim);
        const uint16_t *v_scale = run->v_scale;
        const int8_t *v = run->v;
        uint32_t start = run->first;
        uint32_t end = start + run->n;
        while (start < end) {
            // As many positions as are left of the run and of the block.
            bool anew = start % LLM_ATTENTION_BLOCK == 0;
            bool first = start < LLM_ATTENTION_BLOCK;
            uint32_t block_end = (start | (LLM_ATTENTION_BLOCK - 1)) + 1;
            uint32_t n_positions = (end < block_end ? end : block_end) - start;
            float *scores = scores_of(queries, n, head_dim) + n * start;
            if (n == 2) {
                llm_armv7em_softmax_two(scores, queries->totals, v_scale, n_positions, queries->max, per_weight);
                llm_armv7em_add_two(sums, scores, v, n_positions, head_dim, anew);
            } else {
                queries->totals[0] += llm_armv7em_softmax_one(shared->weights, scores, v_scale, n_positions, queries->max[0], per_weight);
                llm_armv7em_add_one(sums, shared->weights, v, n_positions, head_dim, anew);
            }
            start += n_positions;
            v_scale += n_positions;
            v += n_positions * head_dim;
            float scale[2] = {1.0f, 1.0f};
            if (start == a->n_positions) {
                for (uint32_t j = 0; j < n; j++) {
                    scale[j] = v_bound / llm_sum_float(queries->totals[j] * PER_TOTAL);
                }
                put(out, sums, n, head_dim, first, scale);
            } else if (start == block_end) {
                put(out, sums, n, head_dim, first, scale);
            }
        }
        out += n * head_dim;
    }
}

#endif
