// UTF-8 that arrives in pieces, against a slow reading of the definition.
//
// Input: one byte that says how the rest is split, then the bytes.
#include "fuzz.h"

// Whether these bytes are one well-formed character: decoded, and judged by its code point (The Unicode Standard, D92).
static bool is_character(const uint8_t *p, size_t n) {
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000}; // by length: shorter forms are ill-formed
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (n == 1) {
        return p[0] < 0x80;
    }
    uint8_t lead_bits = (uint8_t)(0xFF >> (n + 1));
    if ((p[0] & (uint8_t)~lead_bits) != lead[n]) {
        return false;
    }
    uint32_t code = p[0] & lead_bits;
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0) != 0x80) {
            return false;
        }
        code = code << 6 | (p[i] & 0x3F);
    }
    return code >= smallest[n] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
}

// Whether some character begins with these bytes and is longer.
static bool begins_character(const uint8_t *p, size_t n) {
    for (size_t length = n + 1; length <= 4; length++) {
        uint8_t whole[4];
        memcpy(whole, p, n);
        // The limits of Unicode fall between blocks of sixteen: one of each will do.
        for (unsigned next = 0x80; next <= 0xBF; next += 16) {
            memset(whole + n, 0x80, length - n);
            whole[n] = (uint8_t)next;
            if (is_character(whole, length)) {
                return true;
            }
        }
    }
    return false;
}

// The length of the character at `p`, 0 if none is there; `*maximal` is how many bytes one U+FFFD stands for.
static size_t character_at(const uint8_t *p, size_t size, size_t *maximal) {
    for (size_t n = 1; n <= 4 && n <= size; n++) {
        if (is_character(p, n)) {
            return n;
        }
    }
    *maximal = 1;
    while (*maximal < 4 && *maximal < size && begins_character(p, *maximal) && begins_character(p, *maximal + 1)) {
        ++*maximal;
    }
    return 0;
}

// The whole text with U+FFFD for what is ill-formed. Returns its bytes; `*bad` is the offset of the first such place.
static size_t repair(const uint8_t *text, size_t size, uint8_t *out, size_t *bad) {
    size_t n = 0;
    *bad = size;
    for (size_t i = 0; i < size;) {
        size_t maximal = 0;
        size_t length = character_at(text + i, size - i, &maximal);
        if (length == 0) {
            memcpy(out + n, "\xEF\xBF\xBD", 3);
            n += 3;
            *bad = *bad < i ? *bad : i;
            i += maximal;
        } else {
            memcpy(out + n, text + i, length);
            n += length;
            i += length;
        }
    }
    return n;
}

// Feeds the text in pieces of 0 to `most` bytes, each into a buffer of the stated size. Returns the bytes put together.
static size_t feed(const uint8_t *text, size_t size, uint32_t most, uint32_t random, uint8_t *out) {
    llm_utf8_t utf8 = {0};
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        size_t piece_size = next_random(&random) % (most + 1);
        piece_size = piece_size < size - i ? piece_size : size - i;
        uint8_t *piece = exact_copy(text + i, piece_size);
        uint8_t *room = malloc(LLM_UTF8_MAX(piece_size));
        CHECK(room != NULL);
        size_t n_piece = llm_utf8_feed(&utf8, piece, piece_size, room);
        CHECK(n_piece <= LLM_UTF8_MAX(piece_size));
        CHECK(llm_utf8_check((const char *)room, n_piece) == n_piece); // whole characters only
        memcpy(out + n, room, n_piece);
        n += n_piece;
        i += piece_size;
        free(room);
        free(piece);
    }
    uint8_t *room = malloc(LLM_UTF8_MAX(0));
    CHECK(room != NULL);
    size_t n_last = llm_utf8_finish(&utf8, room);
    CHECK(n_last == 0 || n_last == 3);
    memcpy(out + n, room, n_last);
    free(room);
    CHECK(llm_utf8_finish(&utf8, NULL) == 0);
    return n + n_last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    uint8_t splitting = data[0];
    size--;
    uint8_t *text = exact_copy(data + 1, size);
    uint8_t *wanted = malloc(3 * size + 1);
    uint8_t *got = malloc(3 * size + 6);
    CHECK(wanted != NULL && got != NULL);
    size_t bad;
    size_t n_wanted = repair(text, size, wanted, &bad);
    CHECK(llm_utf8_check((const char *)text, size) == bad);
    CHECK(llm_utf8_check((const char *)wanted, n_wanted) == n_wanted);
    for (uint32_t most = 1; most <= 64; most *= 4) {
        CHECK(feed(text, size, most, splitting, got) == n_wanted);
        CHECK(memcmp(got, wanted, n_wanted) == 0);
    }
    CHECK(feed(text, size, (uint32_t)size, splitting, got) == n_wanted && memcmp(got, wanted, n_wanted) == 0);
    free(got);
    free(wanted);
    free(text);
    return 0;
}
