// Attention over a float cache: ref's, a head or many positions at a time.
#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "ops.h"

static void attend(const llm_attention_t *a, const llm_run_t *run, const float *q, float *out) {
    uint32_t n = a->head_dim;
    float *scores = a->scratch; // [n_positions], then their powers as floats

    // Scores in powers of two.
    float scale = llm_rsqrt((float)n) * LLM_LOG2_E;
    const float *k = run->k;
    float max = LLM_MINUS_INFINITY;
    for (uint32_t t = 0; t < a->n_positions; t++, k += n) {
        scores[t] = dot(q, k, n) * scale;
        max = scores[t] > max ? scores[t] : max;
    }
    vuint64m1_t total = __riscv_vmv_s_x_u64m1(0, 1);
    for (size_t t = 0, vl; t < a->n_positions; t += vl) {
        vl = __riscv_vsetvl_e32m4(a->n_positions - t);
        vint32m4_t p = exp2q(__riscv_vfsub(__riscv_vle32_v_f32m4(scores + t, vl), max, vl), vl);
        total = __riscv_vwredsumu(__riscv_vreinterpret_v_i32m4_u32m4(p), total, vl);
        __riscv_vse32(scores + t, __riscv_vfcvt_f(p, vl), vl);
    }

    // The weighted sum of the values; each element of the head adds the positions in order.
    float share = 1.0f / llm_sum_float(__riscv_vmv_x(total));
    for (size_t i = 0, vl; i < n; i += vl) {
        vl = __riscv_vsetvl_e32m4(n - i);
        const float *v = (const float *)run->v + i;
        vfloat32m4_t sum = __riscv_vfmv_v_f_f32m4(0.0f, vl);
        for (uint32_t t = 0; t < a->n_positions; t++, v += n) {
            sum = __riscv_vfadd(sum, __riscv_vfmul(__riscv_vle32_v_f32m4(v, vl), scores[t], vl), vl);
        }
        __riscv_vse32(out + i, __riscv_vfmul(sum, share, vl), vl);
    }
}

void llm_rvv_attention_f32(const llm_attention_t *a, const llm_run_t *run) {
    for (uint32_t i = 0; i < a->n_queries; i++) {
        attend(a, run, a->q + i * a->head_dim, a->out + i * a->head_dim);
    }
}

#endif
