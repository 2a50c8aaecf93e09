// Attention over an int8 cache: ref's, a head or many positions at a time.
#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "ops.h"

#define BLOCK 512 // positions whose weighted values fit a 32-bit sum: 512 * 32767 * 127 < 2^31

// scores[t] = q . k[t] as floats, not yet scaled.
static void products(const llm_attention_t *a, const int8_t *q, float *scores) {
    const int8_t *k = a->k;
    uint32_t n = a->head_dim;
    vint32m1_t zero = __riscv_vmv_s_x_i32m1(0, 1);
    size_t vl = __riscv_vsetvl_e8m4(n);
    vint8m4_t q_codes = __riscv_vle8_v_i8m4(q, vl); // all of the head, in most models
    for (uint32_t t = 0; t < a->n_positions; t++, k += n) {
        vint16m8_t product = __riscv_vwmul(__riscv_vle8_v_i8m4(k, vl), q_codes, vl);
        vint32m1_t sum = __riscv_vwredsum(product, zero, vl);
        for (size_t i = vl, vl_rest; i < n; i += vl_rest) {
            vl_rest = __riscv_vsetvl_e8m4(n - i);
            product = __riscv_vwmul(__riscv_vle8_v_i8m4(k + i, vl_rest), __riscv_vle8_v_i8m4(q + i, vl_rest), vl_rest);
            sum = __riscv_vwredsum(product, sum, vl_rest);
        }
        scores[t] = (float)__riscv_vmv_x(sum);
    }
}

// out[i] += sum over t from `start` to `end` of weights[t] * v[t][i], at most a block of positions.
static void weigh(const llm_attention_t *a, const int16_t *weights, uint32_t start, uint32_t end, float *out) {
    uint32_t n = a->head_dim;
    for (size_t i = 0, vl; i < n; i += vl) {
        vl = __riscv_vsetvl_e32m8(n - i);
        const int8_t *v = (const int8_t *)a->v + (size_t)start * n + i;
        vint32m8_t sums = __riscv_vmv_v_x_i32m8(0, vl);
        for (uint32_t t = start; t < end; t++, v += n) {
            vint16m4_t codes = __riscv_vsext_vf2(__riscv_vle8_v_i8m2(v, vl), vl);
            sums = __riscv_vwmacc(sums, weights[t], codes, vl);
        }
        __riscv_vse32(out + i, __riscv_vfadd(__riscv_vle32_v_f32m8(out + i, vl), __riscv_vfcvt_f(sums, vl), vl), vl);
    }
}

// One query over all positions. `v_bound` is the largest scale of a value times 2^30 / 32767.
static void attend(const llm_attention_t *a, const float *q, float *out, float v_bound) {
    uint32_t n = a->n_positions;
    uint32_t padded_positions = (n + 7) & ~7u;
    float *scores = a->scratch; // [n_positions]
    int16_t *weights = (int16_t *)(scores + padded_positions); // [n_positions]
    int8_t *q_codes = (int8_t *)(weights + padded_positions); // [head_dim]

    // Scores in powers of two.
    float q_scale = llm_rvv_quantize(q_codes, q, a->head_dim) * (llm_rsqrt((float)a->head_dim) * LLM_LOG2_E);
    products(a, q_codes, scores);
    vfloat32m1_t max = __riscv_vfmv_s_f_f32m1(LLM_MINUS_INFINITY, 1);
    for (size_t t = 0, vl; t < n; t += vl) {
        vl = __riscv_vsetvl_e32m4(n - t);
        vfloat32m4_t scale = __riscv_vfmul(load_bf16(a->k_scale + t, vl), q_scale, vl);
        vfloat32m4_t s = __riscv_vfmul(__riscv_vle32_v_f32m4(scores + t, vl), scale, vl);
        __riscv_vse32(scores + t, s, vl);
        max = __riscv_vfredmax(s, max, vl);
    }
    float largest = __riscv_vfmv_f(max);

    // Softmax, and each position's share of the values in 15 bits.
    float per_weight = v_bound > 0.0f ? 1.0f / v_bound : 0.0f;
    vuint64m1_t total = __riscv_vmv_s_x_u64m1(0, 1);
    for (size_t t = 0, vl; t < n; t += vl) {
        vl = __riscv_vsetvl_e32m4(n - t);
        vint32m4_t p = exp2q(__riscv_vfsub(__riscv_vle32_v_f32m4(scores + t, vl), largest, vl), vl);
        total = __riscv_vwredsumu(__riscv_vreinterpret_v_i32m4_u32m4(p), total, vl);
        vfloat32m4_t share = __riscv_vfmul(load_bf16(a->v_scale + t, vl), per_weight, vl);
        vint32m4_t u = round_all(__riscv_vfmul(__riscv_vfcvt_f(p, vl), share, vl), vl);
        __riscv_vse16(weights + t, __riscv_vncvt_x(u, vl), vl);
    }

    // The weighted sum of the values.
    memset(out, 0, a->head_dim * sizeof(*out));
    for (uint32_t start = 0; start < n; start += BLOCK) {
        weigh(a, weights, start, n - start < BLOCK ? n : start + BLOCK, out);
    }
    float scale = v_bound / llm_sum_float(__riscv_vmv_x(total));
    for (uint32_t i = 0; i < a->head_dim; i++) {
        out[i] *= scale;
    }
}

void llm_rvv_attention_int8(const llm_attention_t *a) {
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
