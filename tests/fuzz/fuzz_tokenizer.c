// The tokenizer: any tables in an image that opens, any text.
//
// Input: an image, then one byte of choices, then the text.
#include "../../cmodules/llm/core/normalize.h"
#include "../../cmodules/llm/core/split.h"
#include "fuzz.h"

#define MAX_NAIVE 400 // bytes of text up to which the naive encoder is asked too

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    uint32_t random = seed;
    uint8_t *section;
    size_t section_size;
    if (!find_section(data, size, 1, &section, &section_size) || get_u32(data + 12) > size) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    size_t image_size = get_u32(data + 12);
    if (next_random(&random) % 2 == 0) {
        mutate_in_place(section, section_size, &random);
        return size;
    }
    return image_size + LLVMFuzzerMutate(data + image_size, size - image_size, max_size - image_size);
}

static int compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

// Whether piece `id` is as the format defines it, and where it is.
static bool get_piece(const llm_tokenizer_t *t, uint32_t id, const uint8_t **piece, uint32_t *size) {
    if (id >= t->n_tokens || t->piece_offsets[id] > t->piece_offsets[id + 1] || t->piece_offsets[id + 1] > t->pieces_size) {
        return false;
    }
    *piece = t->pieces + t->piece_offsets[id];
    *size = t->piece_offsets[id + 1] - t->piece_offsets[id];
    return true;
}

// Whether ids ascend by the bytes of their pieces, without repetition.
static bool ascend(const llm_tokenizer_t *t, const uint32_t *ids, uint32_t n) {
    const uint8_t *previous = NULL;
    uint32_t previous_size = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *piece;
        uint32_t size;
        if (!get_piece(t, ids[i], &piece, &size) || (i > 0 && compare(previous, previous_size, piece, size) >= 0)) {
            return false;
        }
        previous = piece;
        previous_size = size;
    }
    return true;
}

static bool has_type(const llm_tokenizer_t *t, const uint32_t *ids, uint32_t n, llm_piece_type_t type, llm_piece_type_t or_type) {
    for (uint32_t i = 0; i < n; i++) {
        if (t->types[ids[i]] != type && t->types[ids[i]] != or_type) {
            return false;
        }
    }
    return true;
}

static bool spaces_cut(const llm_tokenizer_t *t) {
    for (uint32_t i = 0; i < t->n_sorted; i++) {
        const uint8_t *piece;
        uint32_t size;
        get_piece(t, t->sorted[i], &piece, &size);
        for (uint32_t k = 1; k < size; k++) {
            if (piece[k] == ' ' && piece[k - 1] != ' ') {
                return false;
            }
        }
    }
    return true;
}

// The parts of an entry of `merges`.
typedef struct {
    uint32_t left;
    uint32_t right;
    uint32_t joined;
    uint32_t rank;
} merge_t;

static merge_t get_merge(const llm_tokenizer_t *t, uint32_t left, uint32_t i) {
    uint64_t entry = t->merges[i];
    return (merge_t){left, (uint32_t)(entry >> 44), (uint32_t)(entry >> 24) % (1u << 20), (uint32_t)entry % (1u << 24)};
}

static bool merges_agree(const llm_tokenizer_t *t) {
    for (uint32_t left = 0; left < t->n_tokens; left++) {
        if (t->merge_starts[left] > t->merge_starts[left + 1] || t->merge_starts[left + 1] > t->n_merges) {
            return false;
        }
        for (uint32_t i = t->merge_starts[left]; i < t->merge_starts[left + 1]; i++) {
            merge_t merge = get_merge(t, left, i);
            const uint8_t *piece;
            uint32_t sizes[3];
            if (!get_piece(t, left, &piece, &sizes[0]) || !get_piece(t, merge.right, &piece, &sizes[1])
                || !get_piece(t, merge.joined, &piece, &sizes[2]) || sizes[0] + sizes[1] != sizes[2]
                || (i > t->merge_starts[left] && merge.right <= get_merge(t, left, i - 1).right)) {
                return false;
            }
        }
    }
    return true;
}

// Whether the tables are as docs/image-format.md says, so that text becomes the tokens that it defines.
static bool well_formed(const llm_tokenizer_t *t) {
    bool bpe = t->kind == LLM_TOKENIZER_BPE;
    for (uint32_t i = 0; i < 256; i++) {
        const uint8_t *piece;
        uint32_t size;
        if (!get_piece(t, t->byte_ids[i], &piece, &size) || size != 1 || *piece != i
            || t->types[t->byte_ids[i]] != (bpe ? LLM_PIECE_NORMAL : LLM_PIECE_BYTE)) {
            return false;
        }
    }
    return ascend(t, t->sorted, t->n_sorted) && has_type(t, t->sorted, t->n_sorted, LLM_PIECE_NORMAL, LLM_PIECE_NORMAL)
        && ascend(t, t->specials, t->n_specials) && has_type(t, t->specials, t->n_specials, LLM_PIECE_CONTROL, LLM_PIECE_USER)
        && (bpe ? merges_agree(t) : t->byte_fallback && (!t->cut_at_spaces || spaces_cut(t)));
}

// What text is to SentencePiece: U+2581 is a space, a space is put before it. Returns its bytes.
static size_t normalize(const uint8_t *text, size_t size, bool prefix, uint8_t *out) {
    size_t n = 0;
    if (prefix) {
        out[n++] = ' ';
    }
    for (size_t i = 0; i < size;) {
        bool visible_space = size - i >= 3 && memcmp(text + i, "\xE2\x96\x81", 3) == 0;
        out[n++] = visible_space ? ' ' : text[i];
        i += visible_space ? 3 : 1;
    }
    return n;
}

// The id of the normal piece with these bytes, by looking at all of them. -1 if there is none.
static int64_t look_up(const llm_tokenizer_t *t, const uint8_t *bytes, size_t size) {
    for (uint32_t i = 0; i < t->n_sorted; i++) {
        const uint8_t *piece;
        uint32_t piece_size;
        if (get_piece(t, t->sorted[i], &piece, &piece_size) && compare(bytes, size, piece, piece_size) == 0) {
            return t->sorted[i];
        }
    }
    return -1;
}

// Byte pair encoding as its definition has it: join the best pair, look at all of them again.
static size_t encode_sentencepiece(const llm_tokenizer_t *t, const uint8_t *text, size_t size, uint32_t *tokens) {
    size_t starts[MAX_NAIVE + 2]; // of each symbol, and the end
    size_t n_symbols = 0;
    for (size_t i = 0; i < size; i++) {
        if ((text[i] & 0xC0) != 0x80) {
            starts[n_symbols++] = i;
        }
    }
    starts[n_symbols] = size;
    for (;;) {
        size_t best = n_symbols;
        uint32_t best_rank = 0;
        for (size_t i = 0; i + 1 < n_symbols; i++) {
            int64_t id = look_up(t, text + starts[i], starts[i + 2] - starts[i]);
            if (id >= 0 && (best == n_symbols || t->ranks[id] < best_rank)) {
                best = i;
                best_rank = t->ranks[id];
            }
        }
        if (best == n_symbols) {
            break;
        }
        memmove(starts + best + 1, starts + best + 2, (n_symbols - best - 1) * sizeof(*starts));
        n_symbols--;
    }
    size_t n = 0;
    for (size_t i = 0; i < n_symbols; i++) {
        int64_t id = look_up(t, text + starts[i], starts[i + 1] - starts[i]);
        if (id >= 0) {
            tokens[n++] = (uint32_t)id;
            continue;
        }
        for (size_t k = starts[i]; k < starts[i + 1]; k++) {
            tokens[n++] = t->byte_ids[text[k]];
        }
    }
    return n;
}

// The same for one part of the split of byte-level BPE.
static size_t encode_bytes(const llm_tokenizer_t *t, const uint8_t *text, size_t size, uint32_t *tokens) {
    if (t->ignore_merges && look_up(t, text, size) >= 0) {
        tokens[0] = (uint32_t)look_up(t, text, size);
        return 1;
    }
    for (size_t i = 0; i < size; i++) {
        tokens[i] = t->byte_ids[text[i]];
    }
    for (;;) {
        size_t best = size;
        merge_t best_merge = {.rank = UINT32_MAX};
        for (size_t i = 0; i + 1 < size; i++) {
            for (uint32_t k = t->merge_starts[tokens[i]]; k < t->merge_starts[tokens[i] + 1]; k++) {
                merge_t merge = get_merge(t, tokens[i], k);
                if (merge.right == tokens[i + 1] && merge.rank < best_merge.rank) {
                    best = i;
                    best_merge = merge;
                }
            }
        }
        if (best == size) {
            return size;
        }
        tokens[best] = best_merge.joined;
        memmove(tokens + best + 1, tokens + best + 2, (size - best - 2) * sizeof(*tokens));
        size--;
    }
}

// The longest special token at the beginning of text, of whole characters, -1 if there is none.
static int64_t look_up_special(const llm_tokenizer_t *t, const uint8_t *text, size_t size, bool special, uint32_t *name_size) {
    int64_t found = -1;
    if ((text[0] & 0xC0) == 0x80) {
        return found;
    }
    for (uint32_t i = 0; i < t->n_specials; i++) {
        uint32_t id = t->specials[i];
        const uint8_t *name;
        uint32_t n;
        get_piece(t, id, &name, &n);
        bool user = t->types[id] == LLM_PIECE_USER;
        bool wanted = n >= (user ? 1 : 2) && n <= 255 && (user || special);
        if (wanted && n <= size && memcmp(name, text, n) == 0 && (n == size || (text[n] & 0xC0) != 0x80)) {
            found = id; // a longer name comes later
            *name_size = n;
        }
    }
    return found;
}

static size_t encode_stretch(const llm_tokenizer_t *t, const uint8_t *text, size_t size, bool prefix, uint32_t *tokens) {
    if (t->kind == LLM_TOKENIZER_SENTENCEPIECE) {
        uint8_t normal[MAX_NAIVE + 1];
        return encode_sentencepiece(t, normal, normalize(text, size, prefix, normal), tokens);
    }
    size_t n = 0;
    size_t most;
    uint8_t *normal = malloc(llm_normalize_scratch(text, size, &most));
    CHECK(normal != NULL);
    if (t->normalize) { // the whole, where the engine goes word by word
        bool is_normal = llm_is_normal(text, size);
        size_t normal_size = llm_normalize(text, size, normal);
        CHECK(normal_size <= most && (!is_normal || (normal_size == size && memcmp(normal, text, size) == 0)));
        text = normal;
        size = normal_size;
    }
    for (size_t at = 0; at < size;) {
        size_t part = llm_split(t->split, text + at, size - at);
        CHECK(part > 0 && part <= size - at);
        n += encode_bytes(t, text + at, part, tokens + n);
        at += part;
    }
    free(normal);
    return n;
}

// The whole text, by the definition.
static size_t encode_naively(const llm_tokenizer_t *t, const uint8_t *text, size_t size, bool special, uint32_t *tokens) {
    size_t n = 0;
    size_t at = 0;
    bool fresh = true;
    while (at < size) {
        size_t end = at;
        int64_t id = -1;
        uint32_t name_size = 0;
        while (end < size && (id = look_up_special(t, text + end, size - end, special, &name_size)) < 0) {
            end++;
        }
        bool user = id >= 0 && t->types[id] == LLM_PIECE_USER;
        n += encode_stretch(t, text + at, end - at, fresh && t->add_space_prefix && (end > at || user), tokens + n);
        if (id >= 0) {
            tokens[n++] = (uint32_t)id;
        }
        fresh = !user;
        at = end + name_size;
    }
    return n;
}

static void check_tokens(const llm_tokenizer_t *t, const uint8_t *text, size_t size, bool special, const uint32_t *tokens, size_t n_tokens) {
    if (size > MAX_NAIVE || t->n_sorted > 1000 || t->kind == LLM_TOKENIZER_WORDPIECE) {
        return;
    }
    uint32_t naive[3 * MAX_NAIVE + 2];
    size_t n = encode_naively(t, text, size, special, naive);
    CHECK(n == n_tokens && memcmp(naive, tokens, n_tokens * sizeof(*tokens)) == 0);
}

static void encode(const llm_tokenizer_t *t, const uint8_t *bytes, size_t size, bool bos, bool special) {
    llm_error_t error;
    const char *text = (const char *)bytes;
    size_t scratch_size = llm_encode_scratch(t, text, size, special);
    if (t->kind != LLM_TOKENIZER_WORDPIECE) {
        CHECK(scratch_size <= (37 * t->tokens_per_byte + (t->normalize ? 12 : 0)) * (size + 1));
    }
    void *scratch = malloc(scratch_size);
    size_t max_tokens = t->tokens_per_byte * size + 1 + bos;
    uint32_t *tokens = malloc(max_tokens * sizeof(*tokens));
    CHECK(scratch != NULL && tokens != NULL);
    size_t n;
    llm_status_t status = llm_encode(t, text, size, bos, special, tokens, max_tokens, &n, scratch, scratch_size, &error);
    if (status != LLM_OK) {
        // WordPiece whose pieces are parts of characters can make more tokens of small letters than the text has bytes.
        bool many = t->kind == LLM_TOKENIZER_WORDPIECE && status == LLM_ERROR_VALUE;
        CHECK(many || (status == LLM_ERROR_UTF8 && llm_utf8_check(text, size) < size));
        check_error(status, &error);
    } else {
        CHECK(llm_utf8_check(text, size) == size && n <= max_tokens);
        for (size_t i = 0; i < n; i++) {
            CHECK(tokens[i] < t->n_tokens);
        }
        size_t first = bos && t->bos_id >= 0;
        CHECK(first == 0 || tokens[0] == (uint32_t)t->bos_id);
        if (well_formed(t)) {
            check_tokens(t, bytes, size, special, tokens + first, n - first);
        }
        size_t n_again;
        if (n > 0) {
            uint32_t *fewer = malloc((n - 1) * sizeof(*fewer));
            CHECK(llm_encode(t, text, size, bos, special, fewer, n - 1, &n_again, scratch, scratch_size, &error) == LLM_ERROR_VALUE);
            check_error(LLM_ERROR_VALUE, &error);
            free(fewer);
        }
        if (scratch_size > 0) {
            CHECK(llm_encode(t, text, size, bos, special, tokens, max_tokens, &n_again, scratch, scratch_size - 1, &error) == LLM_ERROR_MEMORY);
            check_error(LLM_ERROR_MEMORY, &error);
        }
    }
    free(tokens);
    free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t image_size = size < 64 ? size : get_u32(data + 12);
    if (image_size >= size) {
        return 0;
    }
    uint8_t choices = data[image_size];
    size_t text_size = size - image_size - 1;
    uint8_t *copy = exact_copy(data, image_size);
    uint8_t *text = exact_copy(data + image_size + 1, text_size);
    llm_image_t image;
    if (llm_image_open(&image, copy, image_size, false, NULL) == LLM_OK) {
        uint8_t *section;
        size_t section_size;
        CHECK(find_section(copy, image_size, 1, &section, &section_size));
        poison_except(copy, image_size, section, section_size);
        const llm_tokenizer_t *t = &image.tokenizer;
        uint64_t sum = 0; // reads every byte, so that a piece outside the section is seen
        for (uint32_t id = 0; id < t->n_tokens + 2; id++) {
            uint32_t piece_size;
            const uint8_t *piece = llm_piece(t, id, &piece_size);
            CHECK(id < t->n_tokens || piece_size == 0);
            for (uint32_t i = 0; i < piece_size && i < 64; i++) {
                sum += piece[i];
            }
            sum += piece_size == 0 ? 0 : piece[piece_size - 1];
        }
        CHECK(sum != UINT64_MAX);
        encode(t, text, text_size, (choices & 1) != 0, (choices & 2) != 0);
        unpoison(copy, image_size);
    }
    free(text);
    free(copy);
    return 0;
}
