// What the parts of the tokenizer share.
#ifndef LLM_TOKENIZER_H
#define LLM_TOKENIZER_H

#include "llm.h"

// What is compiled in besides SentencePiece. Any can be left out to save flash, with -DLLM_WITH_BPE=0 and so on, where the linker drops
// what nothing calls; images that need it are refused.
#ifndef LLM_WITH_BPE
#define LLM_WITH_BPE 1
#endif
#ifndef LLM_WITH_NFC // normalization form C, for byte-level BPE
#define LLM_WITH_NFC 1
#endif
#ifndef LLM_WITH_WORDPIECE
#define LLM_WITH_WORDPIECE 1
#endif

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

// Appends the id for the unknown; nothing, in a vocabulary without one.
static inline bool llm_put_unknown(const llm_tokenizer_t *tokenizer, llm_ids_t *ids) {
    return tokenizer->unk_id < 0 || llm_put(ids, (uint32_t)tokenizer->unk_id);
}

// The bytes of piece `id` as the image has them, whatever its type. Nothing if the image's tables are wrong.
const uint8_t *llm_piece_bytes(const llm_tokenizer_t *tokenizer, uint32_t id, uint32_t *size);

// The id of the piece in `sorted` with these bytes, LLM_NO_TOKEN if there is none.
uint32_t llm_find_piece(const llm_tokenizer_t *tokenizer, const uint8_t *bytes, uint32_t size);

// The longest piece that `text` [size] begins with, of those whose `ids` [n] ascend by their bytes; at least one byte. Sets `*piece_size`.
// LLM_NO_TOKEN if there is none.
uint32_t llm_find_prefix(const llm_tokenizer_t *tokenizer, const uint32_t *ids, uint32_t n, const uint8_t *text, size_t size, uint32_t *piece_size);

// Byte pair encoding of `size` bytes (at least 1) as one run: appends its ids. `scratch` is 4-byte aligned and has
// llm_merge_scratch() bytes for each byte of text. False if there is no room for the ids.
bool llm_merge(const llm_tokenizer_t *tokenizer, const uint8_t *text, uint32_t size, void *scratch, llm_ids_t *ids);
size_t llm_merge_scratch(void);

// WordPiece of any valid UTF-8: appends its ids. `scratch` is 4-byte aligned and has llm_wordpiece_scratch() bytes. False if there is no
// room for the ids.
bool llm_wordpiece(const llm_tokenizer_t *tokenizer, const uint8_t *text, size_t size, void *scratch, llm_ids_t *ids);
size_t llm_wordpiece_scratch(void);

#endif
