// SentencePiece BPE with byte fallback (Kudo and Richardson, 2018), over tables that stay in the image.
//
// Text is merged in runs: a word with the spaces before it where no piece goes on past a space, else all of it. In a run,
// a symbol is a span of bytes that starts at its index; neighbours that could be joined wait in a heap, lowest rank first,
// then leftmost. A run of n bytes costs n log n steps and 37 n bytes of scratch.
#include <string.h>

#include "llm.h"

#define NONE 0xFFFFFFFFu

typedef struct {
    uint32_t size; // bytes, 0 if the symbol was joined to the one before it
    uint32_t previous; // index of the symbol before, NONE at the start
    uint32_t next; // index of the symbol after, NONE at the end
} symbol_t;

// A pair of neighbours whose bytes are a piece. Stale when either has changed since: its size tells.
typedef struct {
    uint32_t rank; // of the piece
    uint32_t left; // index of the first symbol
    uint32_t size; // bytes of both
} pair_t;

typedef struct {
    const llm_tokenizer_t *tokenizer;
    symbol_t *symbols; // [size]
    pair_t *heap; // [2 * size]
    uint32_t n_heap; // pairs in it
    uint8_t *text; // [size] with spaces as the pieces have them
    uint32_t size; // bytes of the run
} run_t;

// ---------------------------------------------------------------------------- pieces

// The bytes of piece `id`; nothing if the image's tables are wrong.
static const uint8_t *piece_bytes(const llm_tokenizer_t *t, uint32_t id, uint32_t *size) {
    *size = 0;
    if (id >= t->n_tokens) {
        return t->pieces;
    }
    uint32_t start = t->piece_offsets[id];
    uint32_t end = t->piece_offsets[id + 1];
    if (start > end || end > t->pieces_size) {
        return t->pieces;
    }
    *size = end - start;
    return t->pieces + start;
}

const uint8_t *llm_piece(const llm_tokenizer_t *t, uint32_t id, uint32_t *size) {
    const uint8_t *bytes = piece_bytes(t, id, size);
    if (id < t->n_tokens && t->types[id] == LLM_PIECE_CONTROL) {
        *size = 0;
    }
    if (id < t->n_tokens && t->types[id] == LLM_PIECE_UNKNOWN) {
        static const uint8_t unknown[] = {' ', 0xE2, 0x81, 0x87, ' '}; // " ⁇ ", as SentencePiece writes it
        *size = sizeof(unknown);
        return unknown;
    }
    return bytes;
}

// The id of the normal piece with these bytes, NONE if there is none. Binary search.
static uint32_t find_piece(const llm_tokenizer_t *t, const uint8_t *bytes, uint32_t size) {
    uint32_t low = 0;
    uint32_t high = t->n_sorted;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t id = t->sorted[middle];
        uint32_t piece_size;
        const uint8_t *piece = piece_bytes(t, id, &piece_size);
        int order = memcmp(bytes, piece, size < piece_size ? size : piece_size);
        if (order == 0 && size == piece_size) {
            return id;
        }
        if (order < 0 || (order == 0 && size < piece_size)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return NONE;
}

// ---------------------------------------------------------------------------- the heap

static bool before(const pair_t *a, const pair_t *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->left < b->left;
}

static void heap_push(run_t *run, pair_t pair) {
    uint32_t at = run->n_heap++;
    while (at > 0 && before(&pair, &run->heap[(at - 1) / 2])) {
        run->heap[at] = run->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    run->heap[at] = pair;
}

static pair_t heap_pop(run_t *run) {
    pair_t top = run->heap[0];
    pair_t last = run->heap[--run->n_heap];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= run->n_heap) {
            break;
        }
        if (child + 1 < run->n_heap && before(&run->heap[child + 1], &run->heap[child])) {
            child++;
        }
        if (!before(&run->heap[child], &last)) {
            break;
        }
        run->heap[at] = run->heap[child];
        at = child;
    }
    run->heap[at] = last;
    return top;
}

// ---------------------------------------------------------------------------- a run

// Puts the symbol at `left` and the next one in the heap if they make a piece.
static void propose(run_t *run, uint32_t left) {
    if (left == NONE || run->symbols[left].next == NONE) {
        return;
    }
    uint32_t size = run->symbols[left].size + run->symbols[run->symbols[left].next].size;
    uint32_t id = find_piece(run->tokenizer, run->text + left, size);
    if (id != NONE) {
        heap_push(run, (pair_t){.rank = run->tokenizer->ranks[id], .left = left, .size = size});
    }
}

// Bytes of a character of valid UTF-8 by its first one.
static uint32_t character_size(uint8_t first) {
    if (first < 0x80) {
        return 1;
    }
    if (first < 0xE0) {
        return 2;
    }
    return first < 0xF0 ? 3 : 4;
}

// One symbol a character.
static void split(run_t *run) {
    uint32_t previous = NONE;
    for (uint32_t i = 0; i < run->size;) {
        uint32_t size = character_size(run->text[i]);
        run->symbols[i] = (symbol_t){.size = size, .previous = previous, .next = i + size < run->size ? i + size : NONE};
        previous = i;
        i += size;
    }
    for (uint32_t i = 0; i != NONE; i = run->symbols[i].next) {
        propose(run, i);
    }
}

static void merge(run_t *run) {
    while (run->n_heap > 0) {
        pair_t pair = heap_pop(run);
        symbol_t *left = &run->symbols[pair.left];
        if (left->size == 0 || left->next == NONE || left->size + run->symbols[left->next].size != pair.size) {
            continue; // stale
        }
        symbol_t *right = &run->symbols[left->next];
        left->size = pair.size;
        left->next = right->next;
        right->size = 0;
        if (left->next != NONE) {
            run->symbols[left->next].previous = pair.left;
        }
        propose(run, left->previous);
        propose(run, pair.left);
    }
}

// ---------------------------------------------------------------------------- encoding

typedef struct {
    uint32_t *tokens; // [max] where ids go
    size_t max; // room
    size_t n; // ids so far
} ids_t;

static bool put(ids_t *ids, uint32_t id) {
    if (ids->n == ids->max) {
        return false;
    }
    ids->tokens[ids->n++] = id;
    return true;
}

// Nothing, in a vocabulary without a token for the unknown.
static bool put_unknown(const llm_tokenizer_t *t, ids_t *ids) {
    return t->unk_id < 0 || put(ids, (uint32_t)t->unk_id);
}

// The ids of one symbol: its piece, else its bytes, else unknown. False if there is no room.
static bool put_symbol(const llm_tokenizer_t *t, ids_t *ids, const uint8_t *bytes, uint32_t size) {
    uint32_t id = find_piece(t, bytes, size);
    if (id != NONE) {
        return put(ids, id);
    }
    if (!t->byte_fallback) {
        return put_unknown(t, ids);
    }
    for (uint32_t i = 0; i < size; i++) {
        id = t->byte_ids[bytes[i]];
        if (id < t->n_tokens ? !put(ids, id) : !put_unknown(t, ids)) {
            return false;
        }
    }
    return true;
}

// Where in the user's text an encoder stands.
typedef struct {
    const uint8_t *text; // the user's
    size_t size; // bytes of it
    size_t at; // first byte not yet taken
    bool prefix; // a space is still to be put before it
} reader_t;

// U+2581, which SentencePiece takes for a space.
static bool is_visible_space(const reader_t *r) {
    return r->size - r->at >= 3 && memcmp(r->text + r->at, "\xE2\x96\x81", 3) == 0;
}

// Takes the next byte of the text, spaces as the pieces have them.
static uint8_t next_byte(reader_t *r) {
    if (r->prefix) {
        r->prefix = false;
        return ' ';
    }
    if (is_visible_space(r)) {
        r->at += 3;
        return ' ';
    }
    return r->text[r->at++];
}

static bool at_space(const reader_t *r) {
    return r->prefix || r->text[r->at] == ' ' || is_visible_space(r);
}

static bool at_end(const reader_t *r) {
    return !r->prefix && r->at == r->size;
}

// Takes the next run: to `out` if it is not NULL. Returns its bytes.
static size_t next_run(const llm_tokenizer_t *t, reader_t *r, uint8_t *out) {
    size_t n = 0;
    bool word = false; // past the spaces
    while (!at_end(r)) {
        bool space = at_space(r);
        if (space && word && t->cut_at_spaces) {
            break;
        }
        word = word || !space;
        uint8_t byte = next_byte(r);
        if (out != NULL) {
            out[n] = byte;
        }
        n++;
    }
    return n;
}

static reader_t start_reading(const llm_tokenizer_t *t, const char *text, size_t size) {
    return (reader_t){.text = (const uint8_t *)text, .size = size, .prefix = t->add_space_prefix && size > 0};
}

static size_t longest_run(const llm_tokenizer_t *t, const char *text, size_t size) {
    reader_t reader = start_reading(t, text, size);
    size_t longest = 0;
    while (!at_end(&reader)) {
        size_t n = next_run(t, &reader, NULL);
        longest = n > longest ? n : longest;
    }
    return longest;
}

size_t llm_encode_scratch(const llm_tokenizer_t *tokenizer, const char *text, size_t size) {
    size_t longest = longest_run(tokenizer, text, size);
    return longest * (sizeof(symbol_t) + 2 * sizeof(pair_t) + 1);
}

llm_status_t llm_encode(const llm_tokenizer_t *t, const char *text, size_t size, bool bos, uint32_t *tokens, size_t max_tokens, size_t *n_tokens, void *scratch, size_t scratch_size, llm_error_t *error) {
    *n_tokens = 0;
    size_t valid = llm_utf8_check(text, size);
    if (valid != size) {
        return llm_fail(error, LLM_ERROR_UTF8, "text: the byte at {} is not UTF-8", valid, 0);
    }
    if (size >= NONE / 64) {
        return llm_fail(error, LLM_ERROR_VALUE, "text: {} bytes are too many, encode it in parts", size, 0);
    }
    size_t longest = longest_run(t, text, size);
    size_t needed = longest * (sizeof(symbol_t) + 2 * sizeof(pair_t) + 1);
    if (scratch_size < needed) {
        return llm_fail(error, LLM_ERROR_MEMORY, "scratch: {} bytes are needed to encode this text, {} are given", needed, scratch_size);
    }
    ids_t ids = {.tokens = tokens, .max = max_tokens};
    bool room = !bos || t->bos_id < 0 || put(&ids, (uint32_t)t->bos_id);
    run_t run = {.tokenizer = t, .symbols = scratch};
    if (longest > 0) {
        run.heap = (pair_t *)(run.symbols + longest);
        run.text = (uint8_t *)(run.heap + 2 * longest);
    }
    reader_t reader = start_reading(t, text, size);
    while (room && !at_end(&reader)) {
        run.size = (uint32_t)next_run(t, &reader, run.text);
        split(&run);
        merge(&run);
        for (uint32_t i = 0; i != NONE && room; i = run.symbols[i].next) {
            room = put_symbol(t, &ids, run.text + i, run.symbols[i].size);
        }
    }
    *n_tokens = ids.n;
    if (!room) {
        return llm_fail(error, LLM_ERROR_VALUE, "max_tokens: the text has more than {} tokens", max_tokens, 0);
    }
    return LLM_OK;
}
