// Attention over an int8 cache: ref's, eight positions or sixteen elements of a head at a time.
#include "host.h"

#if LLM_KERNELS_HOST

#include "../attention.h"
#include "ops.h"

#define WIDTH 16 // codes that are read together

// Of n rows those that can be read in whole widths, into the rows after them, without leaving the n.
static uint32_t n_readable(uint32_t n, uint32_t head_dim) {
    uint32_t past = (0u - head_dim) % WIDTH; // elements read past the end of a row
    uint32_t n_last = (past + head_dim - 1) / head_dim;
    return n > n_last ? n - n_last : 0;
}

LLM_OPERATION i32x8_t dot8(const int8_t *a, const int8_t *b, uint32_t n) {
    i32x8_t sum = i_zero();
    for (uint32_t i = 0; i < n; i += WIDTH) {
        sum = i_mac16(sum, a + i, b + i);
    }
    return sum;
}

// products[t] = q . k[t] as floats, for t < n.
LLM_OPERATION void multiply(float *products, const int8_t *q, const int8_t *k, uint32_t n, uint32_t head_dim) {
    uint32_t readable = n_readable(n, head_dim);
    uint32_t t = 0;
    for (; t + 4 <= readable; t += 4, k += (size_t)4 * head_dim) {
        i32x8_t first = dot8(q, k, head_dim);
        i32x8_t second = dot8(q, k + head_dim, head_dim);
        i32x8_t third = dot8(q, k + (size_t)2 * head_dim, head_dim);
        i_store_folded(products + t, first, second, third, dot8(q, k + (size_t)3 * head_dim, head_dim));
    }
    for (; t < n; t++, k += head_dim) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < head_dim; i++) {
            sum += q[i] * k[i];
        }
        products[t] = (float)sum;
    }
}

// n < 8 bfloat16, then zeros.
LLM_OPERATION f32x8_t f_load_bf16_part(const uint16_t *p, uint32_t n) {
    uint16_t eight[8] = {0};
    memcpy(eight, p, n * sizeof(*p));
    return f_load_bf16(eight);
}

// n < 8 floats, then minus infinities: scores that count nothing.
LLM_OPERATION f32x8_t f_load_scores(const float *p, uint32_t n) {
    float eight[8];
    f_store(eight, f_set(LLM_MINUS_INFINITY));
    memcpy(eight, p, n * sizeof(*p));
    return f_load(eight);
}

LLM_VECTOR static float score(float *scores, const int8_t *q, float q_scale, const llm_run_t *run, uint32_t head_dim, float max) {
    multiply(scores, q, run->k, run->n, head_dim);
    f32x8_t most = f_set(max);
    uint32_t t = 0;
    for (; t + 8 <= run->n; t += 8) {
        f32x8_t s = f_mul(f_load(scores + t), f_mul(f_load_bf16(run->k_scale + t), f_set(q_scale)));
        f_store(scores + t, s);
        most = f_max(s, most);
    }
    if (t < run->n) {
        uint32_t rest = run->n - t;
        f32x8_t scale = f_mul(f_load_bf16_part(run->k_scale + t, rest), f_set(q_scale));
        f_store_part(scores + t, f_mul(f_load_part(scores + t, rest), scale), rest);
        most = f_max(f_load_scores(scores + t, rest), most);
    }
    return f_largest(most);
}

// Eight positions of `weigh`; returns their p.
LLM_OPERATION i32x8_t weigh8(int16_t *weights, f32x8_t scores, f32x8_t v_scale, float max, float per_weight) {
    i32x8_t p = i_exp2q(f_sub(scores, f_set(max)));
    i_store_i16(weights, i_round(f_mul(f_of(p), f_mul(v_scale, f_set(per_weight)))));
    return p;
}

LLM_VECTOR static uint64_t weigh(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max, float per_weight) {
    uint64_t total = 0;
    uint32_t t = 0;
    for (; t + 8 <= n; t += 8) {
        total += i_fold(weigh8(weights + t, f_load(scores + t), f_load_bf16(v_scale + t), max, per_weight));
    }
    if (t < n) {
        total += i_fold(weigh8(weights + t, f_load_scores(scores + t, n - t), f_load_bf16_part(v_scale + t, n - t), max, per_weight));
    }
    return total;
}

LLM_VECTOR static void add(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim) {
    uint32_t readable = n_readable(n, head_dim);
    for (uint32_t i = 0; i < head_dim; i += WIDTH, v += WIDTH, sums += WIDTH) {
        const int8_t *row = v;
        i32x8_t vectors[2] = {i_load(sums), i_load(sums + 8)};
        uint32_t t = 0;
        for (; t + 2 <= readable; t += 2, row += (size_t)2 * head_dim) {
            i_weigh16(vectors, weights + t, row, row + head_dim);
        }
        i_store(sums, vectors[0]);
        i_store(sums + 8, vectors[1]);
        uint32_t width = head_dim - i < WIDTH ? head_dim - i : WIDTH;
        for (; t < n; t++, row += head_dim) {
            for (uint32_t j = 0; j < width; j++) {
                sums[j] += weights[t] * row[j];
            }
        }
    }
}

LLM_VECTOR static float quantize(void *codes, const float *x, uint32_t n) {
    return f_quantize(codes, LLM_GROUP, x, n); // without what the matrices add to a group
}

void llm_host_attention_query(const llm_attention_t *a) {
    llm_attention_query(a, quantize);
}

void llm_host_attention_scores(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_scores(a, run, score);
}

void llm_host_attention_values(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_values(a, run, weigh, add);
}

#endif
