// From text to ids and back, over tables that stay in the image.
//
// The names of special tokens part the text into stretches. A stretch is taken in runs that are encoded by themselves (merge.c). With
// SentencePiece (Kudo and Richardson, 2018) that is a word with the spaces before it where no piece goes on past a space, else all of
// it; with byte-level BPE it is what the split pattern says (split.c); WordPiece takes a whole stretch (wordpiece.c). A tokenizer that normalizes does so word by word, and only with
// words that need it (normalize.c).
#include <string.h>

#include "normalize.h"
#include "split.h"
#include "tokenizer.h"
#include "unicode.h"

// Names of special tokens that are longer are not looked for in text.
#define MAX_NAME 255

// ---------------------------------------------------------------------------- pieces

const uint8_t *llm_piece_bytes(const llm_tokenizer_t *t, uint32_t id, uint32_t *size) {
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
    const uint8_t *bytes = llm_piece_bytes(t, id, size);
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

// Binary search.
uint32_t llm_find_piece(const llm_tokenizer_t *t, const uint8_t *bytes, uint32_t size) {
    uint32_t low = 0;
    uint32_t high = t->n_sorted;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t id = t->sorted[middle];
        uint32_t piece_size;
        const uint8_t *piece = llm_piece_bytes(t, id, &piece_size);
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
    return LLM_NO_TOKEN;
}

// In ids[low..high), whose pieces agree up to byte `depth` and ascend, the first whose byte there is at least `byte`.
// A piece that ends before is less than any.
static uint32_t first_at_least(const llm_tokenizer_t *t, const uint32_t *ids, uint32_t low, uint32_t high, uint32_t depth, uint32_t byte) {
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t size;
        const uint8_t *piece = llm_piece_bytes(t, ids[middle], &size);
        if (size > depth && piece[depth] >= byte) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

uint32_t llm_find_prefix(const llm_tokenizer_t *t, const uint32_t *ids, uint32_t n, const uint8_t *text, size_t size, uint32_t *piece_size) {
    uint32_t found = LLM_NO_TOKEN;
    uint32_t low = 0;
    uint32_t high = n;
    for (uint32_t depth = 0; depth < size; depth++) {
        low = first_at_least(t, ids, low, high, depth, text[depth]);
        high = first_at_least(t, ids, low, high, depth, text[depth] + 1u);
        if (low == high) {
            break;
        }
        uint32_t whole;
        llm_piece_bytes(t, ids[low], &whole);
        if (whole == depth + 1) {
            found = ids[low];
            *piece_size = whole;
        }
    }
    return found;
}

// ---------------------------------------------------------------------------- special tokens

// Where in the user's text an encoder stands.
typedef struct {
    const llm_tokenizer_t *tokenizer;
    const uint8_t *text; // the user's
    size_t size; // bytes of it
    bool special; // control tokens are looked for
    uint32_t firsts[8]; // a bit for each byte that the name of a special token begins with
    size_t at; // first byte not yet taken
    bool prefix; // a space is still to be put before it
    size_t end; // of the stretch: where a special token begins, or the text ends
    uint32_t token; // that token, LLM_NO_TOKEN at the end of the text
    uint32_t token_size; // bytes of its name
    const uint8_t *word; // BPE: where the next run begins: in the text, or in a word that was normalized
    size_t word_size; // bytes left there
} reader_t;

// Finds what the names of special tokens begin with, so that most bytes of a text need one look.
static void find_firsts(reader_t *r) {
    const llm_tokenizer_t *t = r->tokenizer;
    for (uint32_t i = 0; i < t->n_specials;) {
        uint32_t size;
        const uint8_t *name = llm_piece_bytes(t, t->specials[i], &size);
        i++;
        if (size > 0) {
            r->firsts[name[0] / 32] |= 1u << name[0] % 32;
            i = first_at_least(t, t->specials, i, t->n_specials, 0, name[0] + 1u);
        }
    }
}

// Whether a character begins at `at`, or the text ends there.
static bool is_boundary(const reader_t *r, size_t at) {
    return at == r->size || (r->text[at] & 0xC0) != 0x80;
}

// The special token with the longest name that stands at `at`, LLM_NO_TOKEN if there is none. A name that is part of a character
// does not count: what is before and after it must stay UTF-8.
static uint32_t special_at(const reader_t *r, size_t at, uint32_t *size) {
    const llm_tokenizer_t *t = r->tokenizer;
    if (!is_boundary(r, at)) {
        return LLM_NO_TOKEN;
    }
    size_t most = r->size - at < MAX_NAME ? r->size - at : MAX_NAME;
    while (most > 0) {
        uint32_t id = llm_find_prefix(t, t->specials, t->n_specials, r->text + at, most, size);
        if (id == LLM_NO_TOKEN) {
            break;
        }
        bool wanted = t->types[id] == LLM_PIECE_USER || (t->types[id] == LLM_PIECE_CONTROL && r->special && *size > 1);
        if (wanted && is_boundary(r, at + *size)) {
            return id;
        }
        most = *size - 1;
    }
    return LLM_NO_TOKEN;
}

// ---------------------------------------------------------------------------- reading

// Begins the stretch at `at`. `fresh`: what comes before it is no text, so that the tokenizer's own space goes first.
static void open_stretch(reader_t *r, bool fresh) {
    r->token = LLM_NO_TOKEN;
    r->end = r->at;
    while (r->end < r->size) {
        uint8_t byte = r->text[r->end];
        if ((r->firsts[byte / 32] >> byte % 32 & 1) != 0) {
            r->token = special_at(r, r->end, &r->token_size);
            if (r->token != LLM_NO_TOKEN) {
                break;
            }
        }
        r->end++;
    }
    bool text = r->end > r->at || (r->token != LLM_NO_TOKEN && r->tokenizer->types[r->token] == LLM_PIECE_USER);
    r->prefix = fresh && text && r->tokenizer->kind == LLM_TOKENIZER_SENTENCEPIECE && r->tokenizer->add_space_prefix;
}

static reader_t start_reading(const llm_tokenizer_t *t, const char *text, size_t size, bool special) {
    reader_t reader = {.tokenizer = t, .text = (const uint8_t *)text, .size = size, .special = special};
    find_firsts(&reader);
    open_stretch(&reader, true);
    return reader;
}

static bool at_end(const reader_t *r) {
    return !r->prefix && r->at == r->end && r->word_size == 0;
}

// Takes the special token at the end of the stretch and begins the next one.
static void pass_special(reader_t *r) {
    r->at = r->end + r->token_size;
    open_stretch(r, r->tokenizer->types[r->token] == LLM_PIECE_CONTROL);
}

// U+2581, which SentencePiece takes for a space.
static bool is_visible_space(const reader_t *r) {
    return r->end - r->at >= 3 && memcmp(r->text + r->at, "\xE2\x96\x81", 3) == 0;
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

// Takes the next run of SentencePiece's: as much of it as there is room for to `out`. Returns its bytes.
static size_t next_word(reader_t *r, uint8_t *out, size_t room) {
    size_t n = 0;
    bool word = false; // past the spaces
    while (!at_end(r)) {
        bool space = at_space(r);
        if (space && word && r->tokenizer->cut_at_spaces) {
            break;
        }
        word = word || !space;
        uint8_t byte = next_byte(r);
        if (n < room) {
            out[n] = byte;
        }
        n++;
    }
    return n;
}

// Where to cut off what can be normalized and split by itself: before a space that follows no space. Every pattern cuts there, whatever
// comes after, and no character joins a space.
static size_t word_end(const reader_t *r) {
    bool word = false; // past the spaces
    for (size_t at = r->at; at < r->end;) {
        if (word && r->text[at] == ' ') {
            return at;
        }
        if (r->text[at] < 0x80) {
            word = r->text[at++] > ' ';
            continue;
        }
        uint32_t size;
        word = !llm_is_space(llm_utf8_decode(r->text + at, &size));
        at += size;
    }
    return r->end;
}

// ---------------------------------------------------------------------------- runs

// Memory for one run at a time: at the beginning what llm_merge needs, at the end the text, if it is changed.
typedef struct {
    uint8_t *bytes; // 4-byte aligned; NULL to find out how many are needed
    size_t size; // how many there are
    size_t needed; // the most that a run needed so far
} scratch_t;

typedef struct {
    const uint8_t *text; // in the user's or in scratch; NULL if there is no room
    size_t size; // bytes
} run_t;

static bool have_room(scratch_t *scratch, size_t merged, size_t changed) {
    size_t needed = merged * llm_merge_scratch() + changed;
    scratch->needed = needed > scratch->needed ? needed : scratch->needed;
    return needed <= scratch->size;
}

// Takes a run of SentencePiece's.
static run_t next_word_run(reader_t *r, scratch_t *scratch) {
    size_t room = scratch->size / (llm_merge_scratch() + 1);
    uint8_t *copy = room > 0 ? scratch->bytes + room * llm_merge_scratch() : NULL;
    size_t n = next_word(r, copy, room);
    return (run_t){have_room(scratch, n, n) ? copy : NULL, n};
}

// Begins a word of byte-level BPE. False if there is no room to change it.
static bool open_word(reader_t *r, scratch_t *scratch) {
    bool normalize = LLM_WITH_NFC && r->tokenizer->normalize;
    r->word = r->text + r->at;
    r->word_size = (normalize ? word_end(r) : r->end) - r->at;
    r->at += r->word_size;
    if (!normalize || llm_is_normal(r->word, r->word_size)) {
        return true;
    }
    size_t most;
    size_t changed = llm_normalize_scratch(r->word, r->word_size, &most);
    if (!have_room(scratch, most, changed)) {
        r->word_size = 0;
        return false;
    }
    uint8_t *place = scratch->bytes + (scratch->size & ~(size_t)3) - changed;
    r->word_size = llm_normalize(r->word, r->word_size, place);
    r->word = place;
    return true;
}

// Takes the next run, of a stretch that is not at its end.
static run_t next_run(reader_t *r, scratch_t *scratch) {
    if (LLM_WITH_WORDPIECE && r->tokenizer->kind == LLM_TOKENIZER_WORDPIECE) { // the stretch, which it takes word by word
        run_t run = {have_room(scratch, 0, llm_wordpiece_scratch()) ? r->text + r->at : NULL, r->end - r->at};
        r->at = r->end;
        return run;
    }
    if (!LLM_WITH_BPE || r->tokenizer->kind == LLM_TOKENIZER_SENTENCEPIECE) {
        return next_word_run(r, scratch);
    }
    if (r->word_size == 0 && !open_word(r, scratch)) {
        return (run_t){NULL, 0};
    }
    size_t n = llm_split(r->tokenizer->split, r->word, r->word_size);
    run_t run = {have_room(scratch, n, 0) ? r->word : NULL, n};
    r->word += n;
    r->word_size -= n;
    return run;
}

// ---------------------------------------------------------------------------- encoding

size_t llm_encode_scratch(const llm_tokenizer_t *t, const char *text, size_t size, bool special) {
    if (llm_utf8_check(text, size) != size) {
        return 0;
    }
    reader_t reader = start_reading(t, text, size, special);
    scratch_t none = {.bytes = NULL};
    for (;;) {
        while (!at_end(&reader)) {
            next_run(&reader, &none);
        }
        if (reader.token == LLM_NO_TOKEN) {
            return none.needed;
        }
        pass_special(&reader);
    }
}

llm_status_t llm_encode(const llm_tokenizer_t *t, const char *text, size_t size, bool bos, bool special, uint32_t *tokens, size_t max_tokens, size_t *n_tokens, void *scratch, size_t scratch_size, llm_error_t *error) {
    *n_tokens = 0;
    size_t valid = llm_utf8_check(text, size);
    if (valid != size) {
        return llm_fail(error, LLM_ERROR_UTF8, "text: the byte at {} is not UTF-8", valid, 0);
    }
    if (size >= UINT32_MAX / 64) {
        return llm_fail(error, LLM_ERROR_VALUE, "text: {} bytes are too many, encode it in parts", size, 0);
    }
    llm_ids_t ids = {.tokens = tokens, .max = max_tokens};
    bool room = !bos || t->bos_id < 0 || llm_put(&ids, (uint32_t)t->bos_id);
    scratch_t memory = {.bytes = scratch, .size = scratch_size};
    reader_t reader = start_reading(t, text, size, special);
    while (room) {
        while (room && !at_end(&reader)) {
            run_t run = next_run(&reader, &memory);
            if (run.text == NULL) {
                size_t needed = llm_encode_scratch(t, text, size, special);
                return llm_fail(error, LLM_ERROR_MEMORY, "scratch: {} bytes are needed to encode this text, {} are given", needed, scratch_size);
            }
            if (LLM_WITH_WORDPIECE && t->kind == LLM_TOKENIZER_WORDPIECE) {
                room = llm_wordpiece(t, run.text, run.size, scratch, &ids);
            } else {
                room = llm_merge(t, run.text, (uint32_t)run.size, scratch, &ids);
            }
        }
        if (!room || reader.token == LLM_NO_TOKEN) {
            break;
        }
        room = llm_put(&ids, reader.token);
        pass_special(&reader);
    }
    *n_tokens = ids.n;
    if (!room) {
        return llm_fail(error, LLM_ERROR_VALUE, "max_tokens: the text has more than {} tokens", max_tokens, 0);
    }
    return LLM_OK;
}
