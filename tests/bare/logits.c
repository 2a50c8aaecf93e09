// Computes the logits of 64 tokens, one after the other, and writes them to standard output as they lie in memory; the tokens are
// those of tests/device/digest.py. CACHE is 1 (int8) or 2 (f32), IMAGE a path.
#include <stdio.h>

#include "../../cmodules/llm/core/llm.h"

__asm__(
    ".section .rodata\n"
    ".balign 64\n"
    "image:\n"
    ".incbin \"" IMAGE "\"\n"
    "image_end:\n"
    ".text\n");

extern const unsigned char image[], image_end[];

static uint8_t ram[256 * 1024] __attribute__((aligned(16)));

int main(void) {
    llm_error_t error;
    llm_image_t opened;
    llm_model_t model;
    const llm_options_t options = {.context = 64, .cache = CACHE};
    if (llm_image_open(&opened, image, (size_t)(image_end - image), true, &error) != LLM_OK || llm_model_init(&model, &opened, &options, ram, sizeof(ram), &error) != LLM_OK) {
        printf("%s\n", error.message);
        return 1;
    }
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t token = i == 0 ? 1 : ((i - 1) * 37 + 5) % 285;
        if (llm_model_eval(&model, &token, 1, &error) != LLM_OK) {
            printf("%s\n", error.message);
            return 1;
        }
        fwrite(model.logits, sizeof(float), opened.config.vocab_size, stdout);
    }
    return 0;
}
