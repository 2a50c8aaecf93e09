// Attention over a float cache: ref's, a head or many positions at a time.
#include "../attention.h"
#include "rvv.h"

#if LLM_KERNELS_RVV && !defined(__riscv_xtheadvector)

#include "ops.h"

void llm_rvv_attention_scores_f32(const llm_attention_t *a, const llm_run_t *run) {
    uint32_t n = a->head_dim;
    for (uint32_t i = 0; i < a->n_queries; i++) {
        llm_attention_sum_t *sum = &llm_attention_sums(a)[i];
        float *scores = llm_attention_scores_of(a, i, run);
        const float *k = run->k;
        float max = run->first == 0 ? LLM_MINUS_INFINITY : sum->max;
        for (uint32_t t = 0; t < run->n; t++, k += n) {
            scores[t] = dot(a->q + i * n, k, n) * a->scale;
            max = scores[t] > max ? scores[t] : max;
        }
        sum->max = max;
    }
}

// scores [n] become their powers as floats. Returns the sum of the powers.
static uint64_t weigh(float *scores, uint32_t n, float max) {
    vuint64m1_t total = __riscv_vmv_s_x_u64m1(0, 1);
    for (size_t t = 0, vl; t < n; t += vl) {
        vl = __riscv_vsetvl_e32m4(n - t);
        vint32m4_t p = exp2q(__riscv_vfsub(__riscv_vle32_v_f32m4(scores + t, vl), max, vl), vl);
        total = __riscv_vwredsumu(__riscv_vreinterpret_v_i32m4_u32m4(p), total, vl);
        __riscv_vse32(scores + t, __riscv_vfcvt_f(p, vl), vl);
    }
    return __riscv_vmv_x(total);
}

void llm_rvv_attention_values_f32(const llm_attention_t *a, const llm_run_t *run) {
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
        for (size_t i = 0, vl; i < n; i += vl) {
            vl = __riscv_vsetvl_e32m4(n - i);
            const float *v = (const float *)run->v + i;
            vfloat32m4_t sum = __riscv_vle32_v_f32m4(out + i, vl);
            for (uint32_t t = 0; t < run->n; t++, v += n) {
                sum = __riscv_vfadd(sum, __riscv_vfmul(__riscv_vle32_v_f32m4(v, vl), scores[t], vl), vl);
            }
            __riscv_vse32(out + i, __riscv_vfmul(sum, share, vl), vl);
        }
    }
}

#endif
