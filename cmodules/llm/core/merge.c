// Byte pair encoding (Sennrich et al., 2016) of one run of text, over tables that stay in the image.
//
// A symbol is a span of the run that is known by the index where it starts; it goes on to where the next one starts. Neighbours that
// could be joined wait in a heap, lowest rank first, then leftmost. A run of n bytes costs n log n steps and 36 n bytes of scratch.
//
// SentencePiece starts from characters and joins those whose bytes are a piece. Byte-level BPE starts from bytes and joins pairs
// of tokens that a table lists.
#include "tokenizer.h"

#define NONE 0xFFFFFFFFu
#define GONE 0xFFFFFFFEu

typedef struct {
    uint32_t id; // its token, NONE for a character of SentencePiece's that is not yet looked up
    uint32_t previous; // the symbol before, NONE at the start
    uint32_t next; // the symbol after, NONE at the end, GONE if this one was joined to the one before it
} symbol_t;

// A pair of neighbours that can be joined. Stale when either has changed since: they are not of the token's size then.
typedef struct {
    uint32_t rank; // lowest first
    uint32_t left; // the first symbol
    uint32_t id; // the token that they make
} pair_t;

typedef struct {
    const llm_tokenizer_t *tokenizer;
    const uint8_t *text; // [size]
    uint32_t size; // bytes that have a symbol
    symbol_t *symbols; // [size]
    pair_t *heap; // [2 * size]
    uint32_t n_heap; // pairs in it
} run_t;

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

// ---------------------------------------------------------------------------- pairs

// The merge of two tokens in the table. Binary search among those with `left` on the left, which is below n_tokens.
static bool find_merge(const llm_tokenizer_t *t, uint32_t left, uint32_t right, pair_t *pair) {
    uint32_t low = t->merge_starts[left];
    uint32_t high = t->merge_starts[left + 1];
    if (high > t->n_merges) {
        return false;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint64_t merge = t->merges[middle];
        uint32_t found = (uint32_t)(merge >> 44);
        if (found == right) {
            pair->id = (uint32_t)(merge >> 24) & 0xFFFFF;
            pair->rank = (uint32_t)merge & 0xFFFFFF;
            return pair->id < t->n_tokens;
        }
        if (found < right) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

static uint32_t symbol_end(const run_t *run, uint32_t symbol) {
    uint32_t next = run->symbols[symbol].next;
    return next == NONE ? run->size : next;
}

// Puts the symbol at `left` and the next one in the heap if they can be joined.
static void propose(run_t *run, uint32_t left) {
    if (left == NONE || run->symbols[left].next == NONE) {
        return;
    }
    const llm_tokenizer_t *t = run->tokenizer;
    uint32_t right = run->symbols[left].next;
    pair_t pair = {.left = left};
    if (LLM_WITH_BPE && t->kind == LLM_TOKENIZER_BPE) {
        if (!find_merge(t, run->symbols[left].id, run->symbols[right].id, &pair)) {
            return;
        }
    } else {
        pair.id = llm_find_piece(t, run->text + left, symbol_end(run, right) - left);
        if (pair.id == LLM_NO_TOKEN) {
            return;
        }
        pair.rank = t->ranks[pair.id];
    }
    heap_push(run, pair);
}

static bool is_stale(const run_t *run, const pair_t *pair) {
    uint32_t right = run->symbols[pair->left].next;
    if (right == NONE || right == GONE) {
        return true;
    }
    uint32_t size;
    llm_piece_bytes(run->tokenizer, pair->id, &size);
    return symbol_end(run, right) - pair->left != size;
}

static void join_pairs(run_t *run) {
    for (uint32_t i = 0; i != NONE; i = run->symbols[i].next) {
        propose(run, i);
    }
    while (run->n_heap > 0) {
        pair_t pair = heap_pop(run);
        if (is_stale(run, &pair)) {
            continue;
        }
        symbol_t *left = &run->symbols[pair.left];
        symbol_t *right = &run->symbols[left->next];
        left->id = pair.id;
        left->next = right->next;
        right->next = GONE;
        if (left->next != NONE) {
            run->symbols[left->next].previous = pair.left;
        }
        propose(run, left->previous);
        propose(run, pair.left);
    }
}

// ---------------------------------------------------------------------------- a run

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
static void start_with_characters(run_t *run) {
    uint32_t previous = NONE;
    for (uint32_t i = 0; i < run->size;) {
        uint32_t size = character_size(run->text[i]);
        run->symbols[i] = (symbol_t){.id = NONE, .previous = previous, .next = i + size < run->size ? i + size : NONE};
        previous = i;
        i += size;
    }
}

// One symbol a byte; none for a byte that has no token, where there is none for the unknown either.
static void start_with_bytes(run_t *run) {
    const llm_tokenizer_t *t = run->tokenizer;
    uint32_t n = 0;
    for (uint32_t i = 0; i < run->size; i++) {
        uint32_t id = t->byte_ids[run->text[i]];
        if (id >= t->n_tokens) {
            if (t->unk_id < 0) {
                continue;
            }
            id = (uint32_t)t->unk_id;
        }
        run->symbols[n] = (symbol_t){.id = id, .previous = n > 0 ? n - 1 : NONE, .next = n + 1};
        n++;
    }
    run->size = n;
    if (n > 0) {
        run->symbols[n - 1].next = NONE;
    }
}

// The ids of a character that was joined to nothing: its piece, else its bytes, else unknown. False if there is no room.
static bool put_character(const llm_tokenizer_t *t, const uint8_t *bytes, uint32_t size, llm_ids_t *ids) {
    uint32_t id = llm_find_piece(t, bytes, size);
    if (id != LLM_NO_TOKEN) {
        return llm_put(ids, id);
    }
    if (!t->byte_fallback) {
        return llm_put_unknown(t, ids);
    }
    for (uint32_t i = 0; i < size; i++) {
        id = t->byte_ids[bytes[i]];
        if (id < t->n_tokens ? !llm_put(ids, id) : !llm_put_unknown(t, ids)) {
            return false;
        }
    }
    return true;
}

size_t llm_merge_scratch(void) {
    return sizeof(symbol_t) + 2 * sizeof(pair_t);
}

bool llm_merge(const llm_tokenizer_t *t, const uint8_t *text, uint32_t size, void *scratch, llm_ids_t *ids) {
    if (t->ignore_merges) {
        uint32_t id = llm_find_piece(t, text, size);
        if (id != LLM_NO_TOKEN) {
            return llm_put(ids, id);
        }
    }
    run_t run = {.tokenizer = t, .text = text, .size = size, .symbols = scratch};
    run.heap = (pair_t *)(run.symbols + size);
    if (LLM_WITH_BPE && t->kind == LLM_TOKENIZER_BPE) {
        start_with_bytes(&run);
        if (run.size == 0) {
            return true;
        }
    } else {
        start_with_characters(&run);
    }
    join_pairs(&run);
    for (uint32_t i = 0; i != NONE; i = run.symbols[i].next) {
        uint32_t id = run.symbols[i].id;
        if (id != NONE ? !llm_put(ids, id) : !put_character(t, text + i, symbol_end(&run, i) - i, ids)) {
            return false;
        }
    }
    return true;
}
