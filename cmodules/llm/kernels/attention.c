#include "attention.h"
#include "numeric.h"

// One query.
typedef struct {
    uint64_t total; // of its probabilities so far
    float max; // of its scores so far
    float scale; // of its codes, times llm_attention_t.scale
} query_t;

// What lies in scratch.
typedef struct {
    uint32_t *v_largest; // bits of the largest scale of a value so far: scales are not negative, so their bits compare as they do
    query_t *queries; // [n_queries]
    int8_t *codes; // [n_queries][padded_dim]
    int32_t *sums; // [n_queries][padded_dim] weighted values of the block under way
    int16_t *weights; // [LLM_ATTENTION_BLOCK] of one query
    float *scores; // [n_queries][padded_positions]
    uint32_t padded_dim; // head_dim rounded up to 32
    uint32_t padded_positions; // n_positions rounded up to 8
} state_t;

static state_t state_of(const llm_attention_t *a) {
    state_t s;
    s.padded_dim = llm_n_groups(a->head_dim) * LLM_GROUP;
    s.padded_positions = (a->n_positions + 7) & ~7u;
    s.v_largest = a->scratch;
    s.queries = (query_t *)(s.v_largest + 4);
    s.codes = (int8_t *)(s.queries + a->n_queries);
    s.sums = (int32_t *)(s.codes + a->n_queries * s.padded_dim);
    s.weights = (int16_t *)(s.sums + a->n_queries * s.padded_dim);
    s.scores = (float *)(s.weights + LLM_ATTENTION_BLOCK);
    return s;
}

void llm_attention_query(const llm_attention_t *a, llm_attention_quantize_t *quantize) {
    state_t s = state_of(a);
    for (uint32_t i = 0; i < a->n_queries; i++) {
        s.queries[i].scale = quantize(s.codes + i * s.padded_dim, a->q + i * a->head_dim, a->head_dim) * a->scale;
    }
}

void llm_attention_scores(const llm_attention_t *a, const llm_run_t *run, llm_attention_score_t *score) {
    state_t s = state_of(a);
    if (run->first == 0) {
        *s.v_largest = 0;
        for (uint32_t i = 0; i < a->n_queries; i++) {
            s.queries[i].total = 0;
            s.queries[i].max = LLM_MINUS_INFINITY;
        }
    }
    for (uint32_t t = 0; t < run->n; t++) {
        *s.v_largest = run->v_scale[t] > *s.v_largest ? run->v_scale[t] : *s.v_largest;
    }
    for (uint32_t i = 0; i < a->n_queries; i++) {
        float *scores = s.scores + (size_t)i * s.padded_positions + run->first;
        query_t *query = &s.queries[i];
        query->max = score(scores, s.codes + i * s.padded_dim, query->scale, run, a->head_dim, query->max);
    }
}

void llm_attention_values(const llm_attention_t *a, const llm_run_t *run, llm_attention_weigh_t *weigh, llm_attention_add_t *add) {
    state_t s = state_of(a);
    float v_bound = llm_bf16_float((uint16_t)*s.v_largest) * 32769.0f; // the largest scale of a value times 2^30 / 32767
    float per_weight = v_bound > 0.0f ? 1.0f / v_bound : 0.0f;
    if (run->first == 0) {
        memset(a->out, 0, a->n_queries * a->head_dim * sizeof(*a->out));
        memset(s.sums, 0, a->n_queries * s.padded_dim * sizeof(*s.sums));
    }
    for (uint32_t done = 0, n; done < run->n; done += n) {
        // As many positions as are left of the run and of the block.
        uint32_t start = run->first + done;
        n = LLM_ATTENTION_BLOCK - start % LLM_ATTENTION_BLOCK;
        n = run->n - done < n ? run->n - done : n;
        bool complete = (start + n) % LLM_ATTENTION_BLOCK == 0 || start + n == a->n_positions;
        const int8_t *v = (const int8_t *)run->v + (size_t)done * a->head_dim;
        for (uint32_t i = 0; i < a->n_queries; i++) {
            query_t *query = &s.queries[i];
            int32_t *sums = s.sums + i * s.padded_dim;
            query->total += weigh(s.weights, s.scores + (size_t)i * s.padded_positions + start, run->v_scale + done, n, query->max, per_weight);
            add(sums, s.weights, v, n, a->head_dim);
            for (uint32_t j = 0; complete && j < a->head_dim; j++) {
                a->out[i * a->head_dim + j] += (float)sums[j];
                sums[j] = 0;
            }
        }
    }
    if (run->first + run->n == a->n_positions) {
        for (uint32_t i = 0; i < a->n_queries; i++) {
            float scale = v_bound / llm_sum_float(s.queries[i].total);
            for (uint32_t j = 0; j < a->head_dim; j++) {
                a->out[i * a->head_dim + j] *= scale;
            }
        }
    }
}
