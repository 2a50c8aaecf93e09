// Computes the logits of 64 tokens, one after the other, and writes them to standard output as they lie in memory; the tokens are
// those of tests/device/digest.py. Linux system calls, as qemu-xtensa takes them. CACHE is 1 (int8) or 2 (f32), IMAGE a path.
#include "../../cmodules/llm/core/llm.h"

#define SYS_WRITE 13
#define SYS_EXIT 118

__asm__(
    ".section .rodata\n"
    ".balign 64\n"
    "image:\n"
    ".incbin \"" IMAGE "\"\n"
    "image_end:\n"
    ".text\n");

extern const unsigned char image[], image_end[];

static long system_call(long number, long a, const void *b, size_t c) {
    register long r2 __asm__("a2") = number;
    register long r6 __asm__("a6") = a;
    register const void *r3 __asm__("a3") = b;
    register size_t r4 __asm__("a4") = c;
    __asm__ volatile("syscall" : "+r"(r2) : "r"(r6), "r"(r3), "r"(r4) : "memory");
    return r2;
}

static void write_all(int file, const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0) {
        long done = system_call(SYS_WRITE, file, at, n);
        if (done <= 0) {
            system_call(SYS_EXIT, 2, NULL, 0);
        }
        at += done;
        n -= (size_t)done;
    }
}

static void check(llm_status_t status, const llm_error_t *error) {
    if (status != LLM_OK) {
        size_t n = 0;
        while (error->message[n] != '\0') {
            n++;
        }
        write_all(2, error->message, n);
        system_call(SYS_EXIT, 1, NULL, 0);
    }
}

static uint8_t ram[256 * 1024] __attribute__((aligned(16)));

void _start(void) {
    llm_error_t error;
    llm_image_t opened;
    llm_model_t model;
    const llm_options_t options = {.context = 64, .cache = CACHE};
    check(llm_image_open(&opened, image, (size_t)(image_end - image), true, &error), &error);
    check(llm_model_init(&model, &opened, &options, ram, sizeof(ram), &error), &error);
    for (uint32_t i = 0; i < 64; i++) {
        uint32_t token = i == 0 ? 1 : ((i - 1) * 37 + 5) % 285;
        check(llm_model_eval(&model, &token, 1, &error), &error);
        write_all(1, model.logits, opened.config.vocab_size * sizeof(float));
    }
    system_call(SYS_EXIT, 0, NULL, 0);
    for (;;) {
    }
}
