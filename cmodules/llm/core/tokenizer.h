// What the parts of the tokenizer share.
#ifndef LLM_TOKENIZER_H
#define LLM_TOKENIZER_H

#include "llm.h"

#define LLM_NO_TOKEN 0xFFFFFFFFu

// Where ids go.
typedef struct {
    uint32_t *tokens; // [max]
    size_t max; // room
    size_t n; // ids so far
} llm_ids_t;

// Appends an id. False if there is no room.
static inline bool llm_put(llm_ids_t *ids, uint32_t id) {
    if (ids->n == ids->max) {
        return false;
    }
    ids->tokens[ids->n++] = id;
    return true;
}

// The bytes of piece `id` as the image has them, whatever its type. Nothing if the image's tables are wrong.
const uint8_t *llm_piece_bytes(const llm_tokenizer_t *tokenizer, uint32_t id, uint32_t *size);

// The id of the piece in `sorted` with these bytes, LLM_NO_TOKEN if there is none.
uint32_t llm_find_piece(const llm_tokenizer_t *tokenizer, const uint8_t *bytes, uint32_t size);

// Byte pair encoding of `size` bytes (at least 1) as one run: appends its ids. `scratch` is 4-byte aligned and has
// llm_merge_scratch() bytes for each byte of text. False if there is no room for the ids.
bool llm_merge(const llm_tokenizer_t *tokenizer, const uint8_t *text, uint32_t size, void *scratch, llm_ids_t *ids);
size_t llm_merge_scratch(void);

#endif
