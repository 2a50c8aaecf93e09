// Attention over an int8 cache: ref's, eight positions or sixteen elements of a head at a time.
#include "host.h"

#if LLM_KERNELS_HOST

#include "ops.h"

#define WIDTH 16 // codes that are read together
#define BLOCK 512 // positions whose weighted values fit a 32-bit sum: 512 * 32767 * 127 < 2^31

// Positions whose rows can be read in whole widths, into the rows after them, without leaving the cache's rows.
static uint32_t n_readable(const llm_attention_t *a) {
    uint32_t past = (0u - a->head_dim) % WIDTH; // elements read past the end of a row
    uint32_t n_last = (past + a->head_dim - 1) / a->head_dim;
    return a->n_positions > n_last ? a->n_positions - n_last : 0;
}

LLM_OPERATION i32x8_t dot8(const int8_t *a, const int8_t *b, uint32_t n) {
    i32x8_t sum = i_zero();
    for (uint32_t i = 0; i < n; i += WIDTH) {
        sum = i_mac16(sum, a + i, b + i);
    }
    return sum;
}

// scores[t] = q . k[t] as floats, not yet scaled. `q` is padded to 32 with zeros.
LLM_OPERATION void products(const llm_attention_t *a, const int8_t *q, float *scores) {
    const int8_t *k = a->k;
    uint32_t n = a->head_dim;
    uint32_t readable = n_readable(a);
    uint32_t t = 0;
    for (; t + 4 <= readable; t += 4, k += (size_t)4 * n) {
        i_store_folded(scores + t, dot8(q, k, n), dot8(q, k + n, n), dot8(q, k + (size_t)2 * n, n), dot8(q, k + (size_t)3 * n, n));
    }
    for (; t < a->n_positions; t++, k += n) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            sum += q[i] * k[i];
        }
        scores[t] = (float)sum;
    }
}

// Eight scales from `t` on; zeros past the last position.
LLM_OPERATION f32x8_t scales8(const llm_attention_t *a, const uint16_t *scales, uint32_t t) {
    if (t + 8 <= a->n_positions) {
        return f_load_bf16(scales + t);
    }
    uint16_t eight[8] = {0};
    memcpy(eight, scales + t, (a->n_positions - t) * sizeof(*scales));
    return f_load_bf16(eight);
}

// out[i] += sum over t from `start` to `end` of weights[t] * v[t][i], at most a block of positions.
LLM_OPERATION void weigh(const llm_attention_t *a, const int16_t *weights, uint32_t start, uint32_t end, float *out) {
    uint32_t n = a->head_dim;
    uint32_t readable = n_readable(a);
    uint32_t whole = readable < end ? readable : end;
    for (uint32_t i = 0; i < n; i += WIDTH) {
        const int8_t *v = (const int8_t *)a->v + (size_t)start * n + i;
        i32x8_t vectors[2] = {i_zero(), i_zero()};
        uint32_t t = start;
        for (; t + 2 <= whole; t += 2, v += (size_t)2 * n) {
            i_weigh16(vectors, weights + t, v, v + n);
        }
        int32_t sums[WIDTH];
        i_store(sums, vectors[0]);
        i_store(sums + 8, vectors[1]);
        uint32_t width = n - i < WIDTH ? n - i : WIDTH;
        for (; t < end; t++, v += n) {
            for (uint32_t j = 0; j < width; j++) {
                sums[j] += weights[t] * v[j];
            }
        }
        for (uint32_t j = 0; j < width; j++) {
            out[i + j] += (float)sums[j];
        }
    }
}

// One query over all positions. `v_bound` is the largest scale of a value times 2^30 / 32767.
LLM_VECTOR static void attend(const llm_attention_t *a, const float *q, float *out, float v_bound) {
    uint32_t padded_positions = (a->n_positions + 7) & ~7u;
    float *scores = a->scratch; // [padded_positions]
    int16_t *weights = (int16_t *)(scores + padded_positions); // [padded_positions]
    int8_t *q_codes = (int8_t *)(weights + padded_positions); // [head_dim rounded up to 32]

    float q_scale = f_quantize(q_codes, LLM_GROUP, q, a->head_dim) * (llm_rsqrt((float)a->head_dim) * LLM_LOG2_E);
    products(a, q_codes, scores);
    for (uint32_t t = a->n_positions; t < padded_positions; t++) {
        scores[t] = 0.0f;
    }

    // Scores in powers of two; past the last position the least there is.
    f32x8_t max = f_set(LLM_MINUS_INFINITY);
    for (uint32_t t = 0; t < padded_positions; t += 8) {
        f32x8_t s = f_mul(f_load(scores + t), f_mul(scales8(a, a->k_scale, t), f_set(q_scale)));
        f_store(scores + t, s);
        if (t + 8 > a->n_positions) {
            for (uint32_t j = a->n_positions; j < padded_positions; j++) {
                scores[j] = LLM_MINUS_INFINITY;
            }
            s = f_load(scores + t);
        }
        max = f_max(s, max);
    }
    float largest = f_largest(max);

    // Softmax, and each position's share of the values in 15 bits.
    float per_weight = v_bound > 0.0f ? 1.0f / v_bound : 0.0f;
    uint64_t total = 0;
    for (uint32_t t = 0; t < padded_positions; t += 8) {
        i32x8_t p = i_exp2q(f_sub(f_load(scores + t), f_set(largest)));
        total += i_fold(p);
        f32x8_t u = f_mul(f_of(p), f_mul(scales8(a, a->v_scale, t), f_set(per_weight)));
        i_store_i16(weights + t, i_round(u));
    }

    // The weighted sum of the values.
    memset(out, 0, a->head_dim * sizeof(*out));
    for (uint32_t start = 0; start < a->n_positions; start += BLOCK) {
        weigh(a, weights, start, a->n_positions - start < BLOCK ? a->n_positions : start + BLOCK, out);
    }
    float scale = v_bound / llm_sum_float(total);
    for (uint32_t i = 0; i < a->head_dim; i++) {
        out[i] *= scale;
    }
}

void llm_host_attention_int8(const llm_attention_t *a) {
    uint16_t largest = 0; // scales are not negative, so their bits compare as they do
    for (uint32_t t = 0; t < a->n_positions; t++) {
        largest = a->v_scale[t] > largest ? a->v_scale[t] : largest;
    }
    float v_bound = llm_bf16_float(largest) * 32769.0f;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        attend(a, a->q + i * a->head_dim, a->out + i * a->head_dim, v_bound);
    }
}

#endif
