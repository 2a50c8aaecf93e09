// The kernel sets, best first. A new one is a folder of functions and a row here.
#include "armv7em/armv7em.h"
#include "esp32s3/esp32s3.h"
#include "host/host.h"
#include "ref/ref.h"
#include "rvv/rvv.h"
#include "sets.h"

static const llm_kernels_t table[] = {
#if LLM_KERNELS_ARMV7EM
    {
        .name = "armv7em",
        .code_size = sizeof(int16_t),
        .matmul_int4 = llm_armv7em_matmul_int4,
        .matmul_int8 = llm_armv7em_matmul_int8,
        .matmul_f32 = llm_ref_matmul_f32,
        .quantize = llm_armv7em_quantize,
        .quantize_kv = llm_armv7em_quantize_kv,
        .rmsnorm = llm_ref_rmsnorm,
        .rmsnorm_quantize = llm_armv7em_rmsnorm_quantize,
        .rope = llm_armv7em_rope,
        .attention_query = llm_armv7em_attention_query,
        .attention_scores = llm_armv7em_attention_scores,
        .attention_values = llm_armv7em_attention_values,
        .attention_scores_f32 = llm_ref_attention_scores_f32,
        .attention_values_f32 = llm_ref_attention_values_f32,
        .silu_mul = llm_ref_silu_mul,
        .silu_mul_quantize = llm_armv7em_silu_mul_quantize,
        .add = llm_armv7em_add,
    },
#endif
#if LLM_KERNELS_ESP32S3
    {
        .name = "esp32s3",
        .code_size = sizeof(int8_t),
        .matmul_int4 = llm_esp32s3_matmul_int4,
        .matmul_int8 = llm_esp32s3_matmul_int8,
        .matmul_f32 = llm_ref_matmul_f32,
        .quantize = llm_ref_quantize,
        .quantize_kv = llm_ref_quantize_kv,
        .rmsnorm = llm_ref_rmsnorm,
        .rmsnorm_quantize = llm_ref_rmsnorm_quantize,
        .rope = llm_ref_rope,
        .attention_query = llm_ref_attention_query,
        .attention_scores = llm_esp32s3_attention_scores,
        .attention_values = llm_esp32s3_attention_values,
        .attention_scores_f32 = llm_ref_attention_scores_f32,
        .attention_values_f32 = llm_ref_attention_values_f32,
        .silu_mul = llm_ref_silu_mul,
        .silu_mul_quantize = llm_ref_silu_mul_quantize,
        .add = llm_ref_add,
    },
#endif
#if LLM_KERNELS_HOST
    {
        .name = LLM_HOST_NAME,
        .available = llm_host_available,
        .code_size = LLM_HOST_CODE_SIZE,
        .matmul_int4 = llm_host_matmul_int4,
        .matmul_int8 = llm_host_matmul_int8,
        .matmul_f32 = llm_host_matmul_f32,
        .quantize = llm_host_quantize,
        .quantize_kv = llm_host_quantize_kv,
        .rmsnorm = llm_host_rmsnorm,
        .rmsnorm_quantize = llm_host_rmsnorm_quantize,
        .rope = llm_ref_rope,
        .attention_query = llm_host_attention_query,
        .attention_scores = llm_host_attention_scores,
        .attention_values = llm_host_attention_values,
        .attention_scores_f32 = llm_host_attention_scores_f32,
        .attention_values_f32 = llm_host_attention_values_f32,
        .silu_mul = llm_host_silu_mul,
        .silu_mul_quantize = llm_host_silu_mul_quantize,
        .add = llm_host_add,
    },
#endif
#if LLM_KERNELS_RVV
    {
        .name = "rvv",
        .code_size = sizeof(int8_t),
        .matmul_int4 = llm_rvv_matmul_int4,
        .matmul_int8 = llm_rvv_matmul_int8,
        .rope = llm_ref_rope,
#if defined(__riscv_xtheadvector)
        .matmul_f32 = llm_ref_matmul_f32,
        .quantize = llm_ref_quantize,
        .quantize_kv = llm_ref_quantize_kv,
        .rmsnorm = llm_ref_rmsnorm,
        .rmsnorm_quantize = llm_ref_rmsnorm_quantize,
        .attention_query = llm_ref_attention_query,
        .attention_scores = llm_ref_attention_scores,
        .attention_values = llm_ref_attention_values,
        .attention_scores_f32 = llm_ref_attention_scores_f32,
        .attention_values_f32 = llm_ref_attention_values_f32,
        .silu_mul = llm_ref_silu_mul,
        .silu_mul_quantize = llm_ref_silu_mul_quantize,
        .add = llm_ref_add,
#else
        .matmul_f32 = llm_rvv_matmul_f32,
        .quantize = llm_rvv_quantize,
        .quantize_kv = llm_rvv_quantize_kv,
        .rmsnorm = llm_rvv_rmsnorm,
        .rmsnorm_quantize = llm_rvv_rmsnorm_quantize,
        .attention_query = llm_rvv_attention_query,
        .attention_scores = llm_rvv_attention_scores,
        .attention_values = llm_rvv_attention_values,
        .attention_scores_f32 = llm_rvv_attention_scores_f32,
        .attention_values_f32 = llm_rvv_attention_values_f32,
        .silu_mul = llm_rvv_silu_mul,
        .silu_mul_quantize = llm_rvv_silu_mul_quantize,
        .add = llm_rvv_add,
#endif
    },
#endif
    {
        .name = "ref",
        .code_size = sizeof(int8_t),
        .matmul_int4 = llm_ref_matmul_int4,
        .matmul_int8 = llm_ref_matmul_int8,
        .matmul_f32 = llm_ref_matmul_f32,
        .quantize = llm_ref_quantize,
        .quantize_kv = llm_ref_quantize_kv,
        .rmsnorm = llm_ref_rmsnorm,
        .rmsnorm_quantize = llm_ref_rmsnorm_quantize,
        .rope = llm_ref_rope,
        .attention_query = llm_ref_attention_query,
        .attention_scores = llm_ref_attention_scores,
        .attention_values = llm_ref_attention_values,
        .attention_scores_f32 = llm_ref_attention_scores_f32,
        .attention_values_f32 = llm_ref_attention_values_f32,
        .silu_mul = llm_ref_silu_mul,
        .silu_mul_quantize = llm_ref_silu_mul_quantize,
        .add = llm_ref_add,
    },
};

const llm_kernels_t *llm_kernels_at(size_t i) {
    for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
        if (table[row].available == NULL || table[row].available()) {
            if (i == 0) {
                return &table[row];
            }
            i--;
        }
    }
    return NULL;
}

const llm_kernels_t *llm_kernels_find(const char *name) {
    const llm_kernels_t *kernels;
    for (size_t i = 0; (kernels = llm_kernels_at(i)) != NULL; i++) {
        if (name == NULL || strcmp(name, kernels->name) == 0) {
            return kernels;
        }
    }
    return NULL;
}

const char *llm_kernels_name(const llm_kernels_t *kernels) {
    return kernels->name;
}
