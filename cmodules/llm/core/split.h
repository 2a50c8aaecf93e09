// Where byte-level tokenizers cut a text before they merge.
#ifndef LLM_SPLIT_H
#define LLM_SPLIT_H

#include "llm.h"

// The size in bytes of the first piece of `text` [size], which is valid UTF-8; at least 1 and at most `size`, which is not 0.
// Called again with the rest, as long as there is one, it does what splitting the text with the pattern does.
size_t llm_split(llm_split_t pattern, const uint8_t *text, size_t size);

#endif
