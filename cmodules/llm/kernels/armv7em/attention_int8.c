// Attention over an int8 cache: each key and value is widened once for two queries that share it.
#include "armv7em.h"

#if LLM_KERNELS_ARMV7EM
#include <arm_acle.h>

#include "../ref/ref.h"
#include "fpu.h"

// Bytes 0 and 2, and 1 and 3, of a word as two int16.
static inline int32_t even_bytes(uint32_t word) {
    int32_t result;
    __asm__("sxtb16 %0, %1" : "=r"(result) : "r"(word));
    return result;
}

static inline int32_t odd_bytes(uint32_t word) {
    int32_t result;
    __asm__("sxtb16 %0, %1, ror #8" : "=r"(result) : "r"(word));
    return result;
}

// Two int16 in a word.
static inline int32_t pair(int32_t low, int32_t high) {
    int32_t result;
    __asm__("pkhbt %0, %1, %2, lsl #16" : "=r"(result) : "r"(low), "r"(high));
    return result;
}

static inline uint32_t load_word(const void *p) {
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

// A query as int16 codes [head_dim]: even, then odd elements of each four. Returns their scale.
static float quantize_query(int32_t *codes, const float *q, uint32_t head_dim) {
    float max0 = 0.0f;
    float max1 = 0.0f;
    for (uint32_t i = 0; i < head_dim; i += 4) {
        max0 = llm_armv7em_max(max0, llm_armv7em_abs(q[i]));
        max1 = llm_armv7em_max(max1, llm_armv7em_abs(q[i + 1]));
        max0 = llm_armv7em_max(max0, llm_armv7em_abs(q[i + 2]));
        max1 = llm_armv7em_max(max1, llm_armv7em_abs(q[i + 3]));
    }
    float max = llm_armv7em_max(max0, max1);
    float k = max < LLM_SMALLEST ? 0.0f : 127.0f / max;
    for (uint32_t i = 0; i < head_dim; i += 4, codes += 2) {
        codes[0] = pair(llm_armv7em_round(q[i] * k), llm_armv7em_round(q[i + 2] * k));
        codes[1] = pair(llm_armv7em_round(q[i + 1] * k), llm_armv7em_round(q[i + 3] * k));
    }
    return max < LLM_SMALLEST ? 0.0f : max / 127.0f;
}

// What all queries of a KV head share.
typedef struct {
    uint32_t v_largest; // bits of the largest scale of a value so far
    float v_bound; // that scale times 2^30 / 32767
    float per_weight; // 1 / v_bound, 0 if there is nothing to weigh
} shared_t;

// What lies in scratch. Two queries at a time go together where their head has a loop in attention_values.S.
typedef struct {
    shared_t *shared;
    uint64_t *totals; // [n_queries] of the probabilities so far
    float *max; // [n_queries] of the scores so far
    float *scale; // [n_queries] of the codes, times log2(e) / sqrt(head_dim): scores are powers of two
    int32_t *codes; // [n_queries][head_dim / 2]
    int32_t *sums; // [n_queries][head_dim] of the block under way; of two together [head_dim / 4][8], as the assembly has them
    int16_t *weights; // [LLM_ATTENTION_BLOCK] of a query that goes alone
    float *scores; // [n_queries][padded]; of two together [padded][2], then weights in their place
    uint32_t padded; // n_positions rounded up to 8
} state_t;

static state_t state_of(const llm_attention_t *a) {
    state_t s;
    s.shared = a->scratch;
    s.totals = (uint64_t *)((uint8_t *)a->scratch + 16);
    s.max = (float *)(s.totals + a->n_queries);
    s.scale = s.max + a->n_queries;
    s.codes = (int32_t *)(s.scale + a->n_queries);
    s.sums = s.codes + a->n_queries * a->head_dim / 2;
    s.weights = (int16_t *)(s.sums + a->n_queries * a->head_dim);
    s.scores = (float *)(s.weights + LLM_ATTENTION_BLOCK);
    s.padded = (a->n_positions + 7) & ~7u;
    return s;
}

// ---------------------------------------------------------------------------- two queries

// Widths of a head that attention_values.S has a loop for.
typedef void values_t(const int8_t *v, const int32_t *weights, uint32_t n_positions, int32_t sums[8]);
values_t llm_armv7em_values_8;
values_t llm_armv7em_values_16;
values_t llm_armv7em_values_32;
values_t llm_armv7em_values_48;
values_t llm_armv7em_values_64;
values_t llm_armv7em_values_96;
values_t llm_armv7em_values_128;
void llm_armv7em_score8(float *scores, float max[2], const int32_t codes[8], const int8_t *k, const uint16_t *k_scale, uint32_t n_pairs, float scale0, float scale1);
void llm_armv7em_softmax(float *scores, uint64_t totals[2], const uint16_t *v_scale, uint32_t n_positions, const float max[2], float per_weight);

static values_t *find_values(uint32_t head_dim) {
    switch (head_dim) {
        case 8:
            return llm_armv7em_values_8;
        case 16:
            return llm_armv7em_values_16;
        case 32:
            return llm_armv7em_values_32;
        case 48:
            return llm_armv7em_values_48;
        case 64:
            return llm_armv7em_values_64;
        case 96:
            return llm_armv7em_values_96;
        case 128:
            return llm_armv7em_values_128;
        default:
            return NULL;
    }
}

// scores [n][2] of a run from position `t` on; max[2] takes them in.
static void score_two(const llm_run_t *run, float *scores, float max[2], const int32_t *codes, const float scale[2], uint32_t head_dim, uint32_t t) {
    uint32_t n_words = head_dim / 4;
    const int8_t *k = (const int8_t *)run->k + (size_t)t * head_dim;
    for (; t < run->n; t++) {
        int32_t sum0 = 0;
        int32_t sum1 = 0;
        for (uint32_t i = 0; i < n_words; i++, k += 4) {
            const int32_t *code = codes + 2 * i;
            uint32_t word = load_word(k);
            int32_t even = even_bytes(word);
            int32_t odd = odd_bytes(word);
            sum0 = __smlad(even, code[0], sum0);
            sum1 = __smlad(even, code[2 * n_words], sum1);
            sum0 = __smlad(odd, code[1], sum0);
            sum1 = __smlad(odd, code[2 * n_words + 1], sum1);
        }
        float k_scale = llm_bf16_float(run->k_scale[t]);
        scores[2 * t] = (float)sum0 * (k_scale * scale[0]);
        scores[2 * t + 1] = (float)sum1 * (k_scale * scale[1]);
        max[0] = llm_armv7em_max(max[0], scores[2 * t]);
        max[1] = llm_armv7em_max(max[1], scores[2 * t + 1]);
    }
}

// Scores become weights.
static void weigh_two(float *scores, uint64_t totals[2], const llm_run_t *run, const float max[2], float per_weight) {
    if (run->n % 2 == 0) {
        llm_armv7em_softmax(scores, totals, run->v_scale, run->n, max, per_weight);
        return;
    }
    float *past = scores + 2 * run->n; // another run's, or nobody's
    float kept[2] = {past[0], past[1]};
    past[0] = past[1] = LLM_MINUS_INFINITY;
    llm_armv7em_softmax(scores, totals, run->v_scale, run->n, max, per_weight);
    past[0] = kept[0];
    past[1] = kept[1];
}

// Adds four sums to four elements, and clears them.
static inline void put(float *out, int32_t *sums) {
    out[0] += (float)sums[0];
    out[2] += (float)sums[1];
    out[1] += (float)sums[2];
    out[3] += (float)sums[3];
    sums[0] = sums[1] = sums[2] = sums[3] = 0;
}

static void put_two(float *out, int32_t *sums, uint32_t head_dim) {
    for (uint32_t i = 0; i < head_dim; i += 4, sums += 8) {
        put(out + i, sums);
        put(out + head_dim + i, sums + 4);
    }
}

// ---------------------------------------------------------------------------- one query

static float score_one(const llm_run_t *run, float *scores, float max, const int32_t *codes, float scale, uint32_t head_dim) {
    const int8_t *k = run->k;
    for (uint32_t t = 0; t < run->n; t++) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < head_dim / 2; i += 2, k += 4) {
            uint32_t word = load_word(k);
            sum = __smlad(even_bytes(word), codes[i], sum);
            sum = __smlad(odd_bytes(word), codes[i + 1], sum);
        }
        scores[t] = (float)sum * (llm_bf16_float(run->k_scale[t]) * scale);
        max = llm_armv7em_max(max, scores[t]);
    }
    return max;
}

static uint64_t weigh_one(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max, float per_weight) {
    uint64_t total = 0;
    for (uint32_t t = 0; t < n; t++) {
        int32_t p = llm_armv7em_exp2q(scores[t] - max);
        total += (uint32_t)p;
        weights[t] = (int16_t)llm_armv7em_round((float)p * (llm_bf16_float(v_scale[t]) * per_weight));
    }
    return total;
}

static void add_one(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim) {
    for (uint32_t i = 0; i < head_dim; i += 4, v += 4, sums += 4) {
        int32_t sum0 = sums[0];
        int32_t sum1 = sums[1];
        int32_t sum2 = sums[2];
        int32_t sum3 = sums[3];
        const int8_t *row = v;
        for (uint32_t t = 0; t < n; t++, row += head_dim) {
            uint32_t word = load_word(row);
            int32_t even = even_bytes(word);
            int32_t odd = odd_bytes(word);
            sum0 = __smlabb(even, weights[t], sum0);
            sum1 = __smlatb(even, weights[t], sum1);
            sum2 = __smlabb(odd, weights[t], sum2);
            sum3 = __smlatb(odd, weights[t], sum3);
        }
        sums[0] = sum0;
        sums[1] = sum1;
        sums[2] = sum2;
        sums[3] = sum3;
    }
}

// ---------------------------------------------------------------------------- all of them

// Scales are not negative, so their bits compare as they do: two at a time.
static uint32_t largest_of(const uint16_t *scales, uint32_t n) {
    uint32_t largest = 0;
    uint32_t t = 0;
    for (; t + 8 <= n; t += 8) {
        for (uint32_t i = 0; i < 8; i += 2) {
            uint32_t two = load_word(scales + t + i);
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

void llm_armv7em_attention_query(const llm_attention_t *a) {
    if (a->head_dim % 4 != 0) {
        llm_ref_attention_query(a);
        return;
    }
    state_t s = state_of(a);
    float to_powers_of_two = llm_rsqrt((float)a->head_dim) * LLM_LOG2_E;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        s.scale[i] = quantize_query(s.codes + i * a->head_dim / 2, a->q + i * a->head_dim, a->head_dim) * to_powers_of_two;
    }
}

void llm_armv7em_attention_scores(const llm_attention_t *a, const llm_run_t *run) {
    uint32_t head_dim = a->head_dim;
    if (head_dim % 4 != 0) {
        llm_ref_attention_scores(a, run);
        return;
    }
    state_t s = state_of(a);
    if (run->first == 0) {
        s.shared->v_largest = 0;
        for (uint32_t i = 0; i < a->n_queries; i++) {
            s.totals[i] = 0;
            s.max[i] = LLM_MINUS_INFINITY;
        }
    }
    uint32_t largest = largest_of(run->v_scale, run->n);
    s.shared->v_largest = largest > s.shared->v_largest ? largest : s.shared->v_largest;
    values_t *values = find_values(head_dim);
    for (uint32_t i = 0; i < a->n_queries; i++) {
        const int32_t *codes = s.codes + i * head_dim / 2;
        float *scores = s.scores + (size_t)i * s.padded;
        if (values == NULL || i + 1 == a->n_queries) {
            s.max[i] = score_one(run, scores + run->first, s.max[i], codes, s.scale[i], head_dim);
            continue;
        }
        scores += 2 * run->first;
        uint32_t done = 0;
        if (head_dim == 8 && run->n >= 2 && (uintptr_t)run->k % sizeof(uint32_t) == 0) { // its LDRD takes no other address
            done = run->n & ~1u;
            llm_armv7em_score8(scores, s.max + i, codes, run->k, run->k_scale, run->n / 2, s.scale[i], s.scale[i + 1]);
        }
        score_two(run, scores, s.max + i, codes, s.scale + i, head_dim, done);
        i++;
    }
}

void llm_armv7em_attention_values(const llm_attention_t *a, const llm_run_t *run) {
    uint32_t head_dim = a->head_dim;
    if (head_dim % 4 != 0) {
        llm_ref_attention_values(a, run);
        return;
    }
    state_t s = state_of(a);
    shared_t *shared = s.shared;
    if (run->first == 0) {
        shared->v_bound = llm_bf16_float((uint16_t)shared->v_largest) * 32769.0f;
        shared->per_weight = shared->v_bound > 0.0f ? 1.0f / shared->v_bound : 0.0f;
        memset(s.sums, 0, a->n_queries * head_dim * sizeof(*s.sums));
        memset(a->out, 0, a->n_queries * head_dim * sizeof(*a->out));
    }
    values_t *values = find_values(head_dim);
    for (uint32_t i = 0; i < a->n_queries; i++) {
        float *scores = s.scores + (size_t)i * s.padded;
        int32_t *sums = s.sums + i * head_dim;
        float *out = a->out + i * head_dim;
        bool two = values != NULL && i + 1 < a->n_queries;
        if (two) {
            weigh_two(scores + 2 * run->first, s.totals + i, run, s.max + i, shared->per_weight);
        }
        for (uint32_t done = 0, n; done < run->n; done += n) {
            // As many positions as are left of the run and of the block.
            uint32_t start = run->first + done;
            n = LLM_ATTENTION_BLOCK - start % LLM_ATTENTION_BLOCK;
            n = run->n - done < n ? run->n - done : n;
            bool complete = (start + n) % LLM_ATTENTION_BLOCK == 0 || start + n == a->n_positions;
            const int8_t *v = (const int8_t *)run->v + (size_t)done * head_dim;
            if (two) {
                for (uint32_t j = 0; j < head_dim; j += 4) {
                    values(v + j, (const int32_t *)scores + 2 * start, n, sums + 2 * j);
                }
                if (complete) {
                    put_two(out, sums, head_dim);
                }
            } else {
                s.totals[i] += weigh_one(s.weights, scores + start, run->v_scale + done, n, s.max[i], shared->per_weight);
                add_one(sums, s.weights, v, n, head_dim);
                for (uint32_t j = 0; complete && j < head_dim; j += 4) {
                    put(out + j, sums + j);
                }
            }
        }
        i += two;
    }
    if (run->first + run->n == a->n_positions) {
        for (uint32_t i = 0; i < a->n_queries; i++) {
            float scale = shared->v_bound / llm_sum_float(s.totals[i]);
            for (uint32_t j = 0; j < head_dim; j++) {
                a->out[i * head_dim + j] *= scale;
            }
        }
    }
}

#endif
