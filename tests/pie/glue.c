// What the C of kernels/esp32s3 calls on a host: each assembly function hands its arguments to Python (bridge.py).
#include "../../cmodules/llm/core/llm.h"
#include "../../cmodules/llm/kernels/esp32s3/esp32s3.h"

#include <string.h>

typedef struct {
    void (*matmul)(const char *name, const llm_esp32s3_matmul_t *m);
    void (*scores)(int32_t *out, const int8_t *q, const int8_t *k, uint32_t n, uint32_t stride, uint32_t n_blocks);
    void (*values)(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t stride);
} hooks_t;

hooks_t pie_hooks;

void llm_esp32s3_tiles_int4(const llm_esp32s3_matmul_t *m) {
    pie_hooks.matmul("tiles_int4", m);
}

void llm_esp32s3_pairs_int4(const llm_esp32s3_matmul_t *m) {
    pie_hooks.matmul("pairs_int4", m);
}

void llm_esp32s3_tiles_int8(const llm_esp32s3_matmul_t *m) {
    pie_hooks.matmul("tiles_int8", m);
}

void llm_esp32s3_scores(int32_t *out, const int8_t *q, const int8_t *k, uint32_t n, uint32_t stride, uint32_t n_blocks) {
    pie_hooks.scores(out, q, k, n, stride, n_blocks);
}

void llm_esp32s3_values(int32_t *sums, const int16_t *weights, const int8_t *v, uint32_t n, uint32_t stride) {
    pie_hooks.values(sums, weights, v, n, stride);
}

// The logits of `n` tokens, one after the other, to out [n][vocab_size]; the tokens are those of tests/device/digest.py. Memory is the
// caller's, aligned to 16. Returns 0, or -1 if the model cannot be opened.
int pie_logits(const void *data, size_t size, const char *kernels, int cache, void *ram, size_t ram_size, uint32_t n, float *out) {
    llm_image_t image;
    llm_model_t model;
    const llm_options_t options = {.context = 64, .cache = (llm_cache_t)cache, .kernels = llm_kernels_find(kernels)};
    if (options.kernels == NULL || llm_image_open(&image, data, size, true, NULL) != LLM_OK
        || llm_model_init(&model, &image, &options, ram, ram_size, NULL) != LLM_OK) {
        return -1;
    }
    for (uint32_t i = 0; i < n; i++, out += image.config.vocab_size) {
        uint32_t token = i == 0 ? 1 : ((i - 1) * 37 + 5) % 285;
        if (llm_model_eval(&model, &token, 1, NULL) != LLM_OK) {
            return -1;
        }
        memcpy(out, model.logits, image.config.vocab_size * sizeof(*out));
    }
    return 0;
}
