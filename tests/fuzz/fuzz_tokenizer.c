// The tokenizer: any tables in an image that opens, any text.
//
// Input: an image, then one byte of choices, then the text.
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

// Whether the tables are as docs/image-format.md says, so that text must survive.
static bool well_formed(const llm_tokenizer_t *t) {
    const uint8_t *previous = NULL;
    uint32_t previous_size = 0;
    for (uint32_t i = 0; i < t->n_sorted; i++) {
        const uint8_t *piece;
        uint32_t size;
        uint32_t id = t->sorted[i];
        if (!get_piece(t, id, &piece, &size) || t->types[id] != LLM_PIECE_NORMAL
            || (i > 0 && compare(previous, previous_size, piece, size) >= 0)) {
            return false;
        }
        for (uint32_t k = 1; k < size && t->cut_at_spaces; k++) {
            if (piece[k] == ' ' && piece[k - 1] != ' ') {
                return false;
            }
        }
        previous = piece;
        previous_size = size;
    }
    for (uint32_t i = 0; i < 256; i++) {
        const uint8_t *piece;
        uint32_t size;
        if (!get_piece(t, t->byte_ids[i], &piece, &size) || t->types[t->byte_ids[i]] != LLM_PIECE_BYTE || size != 1 || *piece != i) {
            return false;
        }
    }
    return t->byte_fallback;
}

// What the text is to the tokenizer: U+2581 is a space, a space is put before it. Returns its bytes.
static size_t normalize(const llm_tokenizer_t *t, const uint8_t *text, size_t size, uint8_t *out) {
    size_t n = 0;
    if (t->add_space_prefix && size > 0) {
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
static size_t encode_naively(const llm_tokenizer_t *t, const uint8_t *text, size_t size, uint32_t *tokens) {
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

// A text that is encoded must come back, and in the tokens that the definition gives.
static void check_tokens(const llm_tokenizer_t *t, const uint8_t *text, size_t size, const uint32_t *tokens, size_t n_tokens) {
    uint8_t *wanted = malloc(size + 1);
    CHECK(wanted != NULL);
    size_t wanted_size = normalize(t, text, size, wanted);
    size_t at = 0;
    for (size_t i = 0; i < n_tokens; i++) {
        uint32_t piece_size;
        const uint8_t *piece = llm_piece(t, tokens[i], &piece_size);
        CHECK(piece_size <= wanted_size - at && memcmp(piece, wanted + at, piece_size) == 0);
        at += piece_size;
    }
    CHECK(at == wanted_size);
    if (wanted_size <= MAX_NAIVE && t->n_sorted <= 1000) {
        uint32_t naive[MAX_NAIVE];
        size_t n_naive = encode_naively(t, wanted, wanted_size, naive);
        CHECK(n_naive == n_tokens && memcmp(naive, tokens, n_tokens * sizeof(*tokens)) == 0);
    }
    free(wanted);
}

static void encode(const llm_tokenizer_t *t, const uint8_t *bytes, size_t size, bool bos) {
    llm_error_t error;
    const char *text = (const char *)bytes;
    size_t scratch_size = llm_encode_scratch(t, text, size);
    CHECK(scratch_size <= 37 * (size + 1));
    void *scratch = malloc(scratch_size);
    size_t max_tokens = size + 1 + bos;
    uint32_t *tokens = malloc(max_tokens * sizeof(*tokens));
    CHECK(scratch != NULL && tokens != NULL);
    size_t n;
    llm_status_t status = llm_encode(t, text, size, bos, tokens, max_tokens, &n, scratch, scratch_size, &error);
    if (status != LLM_OK) {
        CHECK(status == LLM_ERROR_UTF8 && llm_utf8_check(text, size) < size);
        check_error(status, &error);
    } else {
        CHECK(llm_utf8_check(text, size) == size && n <= max_tokens);
        for (size_t i = 0; i < n; i++) {
            CHECK(tokens[i] < t->n_tokens);
        }
        size_t first = bos && t->bos_id >= 0;
        CHECK(first == 0 || tokens[0] == (uint32_t)t->bos_id);
        if (well_formed(t)) {
            check_tokens(t, bytes, size, tokens + first, n - first);
        }
        size_t n_again;
        if (n > 0) {
            uint32_t *fewer = malloc((n - 1) * sizeof(*fewer));
            CHECK(llm_encode(t, text, size, bos, fewer, n - 1, &n_again, scratch, scratch_size, &error) == LLM_ERROR_VALUE);
            check_error(LLM_ERROR_VALUE, &error);
            free(fewer);
        }
        if (scratch_size > 0) {
            CHECK(llm_encode(t, text, size, bos, tokens, max_tokens, &n_again, scratch, scratch_size - 1, &error) == LLM_ERROR_MEMORY);
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
        encode(t, text, text_size, choices & 1);
        unpoison(copy, image_size);
    }
    free(text);
    free(copy);
    return 0;
}
