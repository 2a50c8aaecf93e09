// Normalization form C (Unicode Standard Annex 15) of pieces of text.
#ifndef LLM_NORMALIZE_H
#define LLM_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Whether `text` [size], valid UTF-8, is in form C for sure. Most text is.
bool llm_is_normal(const uint8_t *text, size_t size);

// Bytes of scratch that llm_normalize needs for `text`. Sets `*most` to the most bytes that its result can have.
size_t llm_normalize_scratch(const uint8_t *text, size_t size, size_t *most);

// Writes form C of `text` to `scratch`, which is 4-byte aligned, as UTF-8. Returns its bytes. Time n log n in the longest run of marks.
size_t llm_normalize(const uint8_t *text, size_t size, void *scratch);

#endif
