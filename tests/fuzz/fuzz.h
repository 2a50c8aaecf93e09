// What the fuzz targets share. A target's input begins with an image, except that of fuzz_text.
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../cmodules/llm/core/llm.h"

// Unlike assert, never compiled out, and the fuzzer sees it as a crash.
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
            __builtin_trap(); \
        } \
    } while (0)

// libFuzzer's own mutations: changes `size` bytes at `data` in place, returns their new number, at most `max_size`.
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static inline uint32_t get_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline void put_u32(uint8_t *p, uint32_t value) {
    for (int i = 0; i < 4; i++) {
        p[i] = (uint8_t)(value >> (8 * i));
    }
}

// Pseudo-random numbers for mutations and choices.
static inline uint32_t next_random(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

// An exact copy, so that AddressSanitizer sees the first byte read past its end. malloc aligns it to 16 bytes.
static inline uint8_t *exact_copy(const void *data, size_t size) {
    uint8_t *copy = malloc(size);
    CHECK(copy != NULL && (uintptr_t)copy % LLM_ALIGNMENT == 0);
    memcpy(copy, data, size);
    return copy;
}

// Whether a failed call said so as llm.h promises.
static inline void check_error(llm_status_t returned, const llm_error_t *error) {
    CHECK(returned != LLM_OK && error->status == returned);
    CHECK(error->message[0] != '\0' && memchr(error->message, '\0', sizeof(error->message)) != NULL);
    for (const char *c = error->message; *c != '\0'; c++) {
        CHECK(*c >= ' ' && *c <= '~');
    }
}

// Makes memory that a step must not read unreadable under AddressSanitizer: all `size` bytes of an image except
// [keep, keep + keep_size). Undone by `unpoison`.
void poison_except(const uint8_t *image, size_t size, const void *keep, size_t keep_size);
void unpoison(const uint8_t *image, size_t size);

// Where a section of the image lies, by its place in the table, cut to the `size` bytes there are. False if there is none.
bool find_section(uint8_t *image, size_t size, uint32_t i, uint8_t **section, size_t *section_size);

// Changes some bytes, or one number of 32 bits to one that is likely to matter. Their number stays the same.
void mutate_in_place(uint8_t *data, size_t size, uint32_t *random);

// Corrects the CRCs of sections and header, as far as the table makes sense, so that a mutation gets past them.
void reseal(uint8_t *image, size_t size);

#endif
