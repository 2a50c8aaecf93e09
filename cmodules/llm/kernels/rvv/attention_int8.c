// Attention over an int8 cache: ref's, a head or many positions at a time.
#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "../attention.h"
#include "ops.h"

// scores[t] = q . k[t] as floats, not yet scaled, for t < n.
static void multiply(float *scores, const int8_t *q, const int8_t *k, uint32_t n, uint32_t head_dim) {
    vint32m1_t zero = __riscv_vmv_s_x_i32m1(0, 1);
    size_t vl = __riscv_vsetvl_e8m4(head_dim);
    vint8m4_t q_codes = __riscv_vle8_v_i8m4(q, vl); // all of the head, in most models
    for (uint32_t t = 0; t < n; t++, k += head_dim) {
        vint16m8_t product = __riscv_vwmul(__riscv_vle8_v_i8m4(k, vl), q_codes, vl);
        vint32m1_t sum = __riscv_vwredsum(product, zero, vl);
        for (size_t i = vl, vl_rest; i < head_dim; i += vl_rest) {
            vl_rest = __riscv_vsetvl_e8m4(head_dim - i);
            product = __riscv_vwmul(__riscv_vle8_v_i8m4(k + i, vl_rest), __riscv_vle8_v_i8m4(q + i, vl_rest), vl_rest);
            sum = __riscv_vwredsum(product, sum, vl_rest);
        }
        scores[t] = (float)__riscv_vmv_x(sum);
    }
}

static float score(float *scores, const int8_t *q, float q_scale, const llm_run_t *run, uint32_t head_dim, float max) {
    multiply(scores, q, run->k, run->n, head_dim);
    vfloat32m1_t most = __riscv_vfmv_s_f_f32m1(max, 1);
    for (size_t t = 0, vl; t < run->n; t += vl) {
        vl = __riscv_vsetvl_e32m4(run->n - t);
        vfloat32m4_t scale = __riscv_vfmul(load_bf16(run->k_scale + t, vl), q_scale, vl);
        vfloat32m4_t s = __riscv_vfmul(__riscv_vle32_v_f32m4(scores + t, vl), scale, vl);
        __riscv_vse32(scores + t, s, vl);
        most = __riscv_vfredmax(s, most, vl);
    }
    return __riscv_vfmv_f(most);
}

static uint64_t weigh(int16_t *weights, const float *scores, const uint16_t *v_scale, uint32_t n, float max, float per_weight) {
    vuint64m1_t total = __riscv_vmv_s_x_u64m1(0, 1);
    for (size_t t = 0, vl; t < n; t += vl) {
        vl = __riscv_vsetvl_e32m4(n - t);
        vint32m4_t p = exp2q(__riscv_vfsub(__riscv_vle32_v_f32m4(scores + t, vl), max, vl), vl);
        total = __riscv_vwredsumu(__riscv_vreinterpret_v_i32m4_u32m4(p), total, vl);
        vfloat32m4_t share = __riscv_vfmul(load_bf16(v_scale + t, vl), per_weight, vl);
        vint32m4_t u = round_all(__riscv_vfmul(__riscv_vfcvt_f(p, vl), share, vl), vl);
        __riscv_vse16(weights + t, __riscv_vncvt_x(u, vl), vl);
    }
    return __riscv_vmv_x(total);
}

static void add(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t head_dim) {
    for (size_t i = 0, vl; i < head_dim; i += vl) {
        vl = __riscv_vsetvl_e32m8(head_dim - i);
        const int8_t *row = v + i;
        vint32m8_t part = __riscv_vle32_v_i32m8(sums + i, vl);
        for (uint32_t t = 0; t < n; t++, row += head_dim) {
            vint16m4_t codes = __riscv_vsext_vf2(__riscv_vle8_v_i8m2(row, vl), vl);
            part = __riscv_vwmacc(part, weights[t], codes, vl);
        }
        __riscv_vse32(sums + i, part, vl);
    }
}

void llm_rvv_attention_query(const llm_attention_t *a) {
    llm_attention_query(a, llm_rvv_quantize);
}

void llm_rvv_attention_scores(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_scores(a, run, score);
}

void llm_rvv_attention_values(const llm_attention_t *a, const llm_run_t *run) {
    llm_attention_values(a, run, weigh, add);
}

#endif
