// UTF-8 and escape sequences that arrive in pieces, against a slow reading of their definitions.
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

// ---------------------------------------------------------------------------- escape sequences

#define END 0xFFFFFFFFu

// What is read: the whole text at once, as ECMA-48 writes it down, sequence by sequence.
typedef struct {
    const uint8_t *text; // well-formed
    size_t size;
    llm_ansi_t ansi; // LLM_ANSI_NONE or LLM_ANSI_COLOR
    uint8_t *out; // what passes
    size_t n_out;
    size_t start; // of the sequence that is being read
    bool *divides; // [size + 1] whether a piece that ends there divides a sequence that must be whole
} reader_t;

static uint32_t code_at(const reader_t *r, size_t at, size_t *length) {
    if (at >= r->size) {
        return END;
    }
    *length = 1;
    while (!is_character(r->text + at, *length)) {
        ++*length;
    }
    uint32_t code = *length == 1 ? r->text[at] : r->text[at] & (0xFF >> (*length + 1));
    for (size_t i = 1; i < *length; i++) {
        code = code << 6 | (r->text[at + i] & 0x3F);
    }
    return code;
}

static void put(reader_t *r, const void *bytes, size_t n) {
    memcpy(r->out + r->n_out, bytes, n);
    r->n_out += n;
}

static bool is_c0(uint32_t code) {
    return code < 0x20 || code == 0x7F;
}

// The code at `*at`, past control characters that are obeyed within a sequence; END if the sequence is over, whyever.
static uint32_t within(reader_t *r, size_t *at) {
    for (;;) {
        size_t length;
        uint32_t code = code_at(r, *at, &length);
        if (*at - r->start >= LLM_SEQUENCE_LIMIT || code == 0x1B || code == 0x18 || code == 0x1A || code >= 0x80) {
            return END;
        }
        if (!is_c0(code)) {
            return code;
        }
        if (code == '\n' || code == '\t') {
            put(r, r->text + *at, 1);
        }
        *at += 1;
    }
}

static void must_be_whole(reader_t *r, size_t end) {
    for (size_t i = r->start + 1; i < end && end - r->start <= LLM_SEQUENCE_HELD; i++) {
        r->divides[i] = true;
    }
}

// Returns the offset after a control sequence of which the introducer ends at `at`.
static size_t read_control_sequence(reader_t *r, size_t at) {
    uint8_t sgr[LLM_SEQUENCE_HELD + LLM_SEQUENCE_LIMIT] = "\x1B[";
    size_t n = 2;
    bool is_sgr = true;
    for (;;) {
        uint32_t code = within(r, &at);
        if (code == END) {
            return at;
        }
        at++;
        sgr[n++] = (uint8_t)code;
        if (code >= 0x40) {
            must_be_whole(r, at);
            if (code == 'm' && is_sgr && n <= LLM_SEQUENCE_HELD && r->ansi == LLM_ANSI_COLOR) {
                put(r, sgr, n);
            }
            return at;
        }
        is_sgr = is_sgr && strchr("0123456789:;", (int)code) != NULL;
    }
}

static size_t read_string(reader_t *r, size_t at) {
    for (;;) {
        size_t length;
        uint32_t code = code_at(r, at, &length);
        bool ends = code == 0x07 || code == 0x9C;
        if (code == 0x1B && at + 1 < r->size && r->text[at + 1] == '\\') {
            ends = true;
            length = 2;
        } else if (at - r->start >= LLM_SEQUENCE_LIMIT || code == END || code == 0x1B || code == 0x18 || code == 0x1A || (code >= 0x80 && code <= 0x9F && !ends)) {
            return at;
        }
        at += length;
        if (ends) {
            must_be_whole(r, at);
            return at;
        }
    }
}

// Returns the offset after the sequence at `at`, or of what breaks it off.
static size_t read_sequence(reader_t *r, size_t at) {
    r->start = at;
    size_t length;
    uint32_t introducer = code_at(r, at, &length);
    at += length;
    if (introducer == 0x1B) {
        uint32_t code = within(r, &at);
        if (code == END) {
            return at;
        }
        at++;
        if (code >= 0x20 && code <= 0x2F) {
            while (code != END && code <= 0x2F) {
                code = within(r, &at);
                at += code != END;
            }
            if (code != END) {
                must_be_whole(r, at);
            }
            return at;
        }
        if (strchr("[PX]^_", (int)code) == NULL) {
            must_be_whole(r, at);
            return at;
        }
        introducer = code + 0x40;
    }
    return introducer == 0x9B ? read_control_sequence(r, at) : read_string(r, at);
}

static void read_text(reader_t *r) {
    memset(r->divides, 0, (r->size + 1) * sizeof(bool));
    r->n_out = 0;
    for (size_t at = 0; at < r->size;) {
        size_t length;
        uint32_t code = code_at(r, at, &length);
        if (code == 0x1B || code == 0x90 || code == 0x98 || code == 0x9B || code == 0x9D || code == 0x9E || code == 0x9F) {
            at = read_sequence(r, at);
            continue;
        }
        if (code == '\n' || code == '\t' || (!is_c0(code) && (code < 0x80 || code > 0x9F))) {
            put(r, r->text + at, length);
        }
        at += length;
    }
}

// ---------------------------------------------------------------------------- feeding

// What a terminal could make of a piece of text: nothing but printing, and with colour nothing but SGR in whole sequences.
static void check_harmless(const uint8_t *piece, size_t size, llm_ansi_t ansi) {
    for (size_t i = 0; i < size; i++) {
        if (piece[i] == 0x1B && ansi == LLM_ANSI_COLOR) {
            size_t end = i + 2;
            CHECK(end < size && piece[i + 1] == '[');
            while (end < size && piece[end] != 'm') {
                CHECK((piece[end] >= '0' && piece[end] <= '9') || piece[end] == ';' || piece[end] == ':');
                end++;
            }
            CHECK(end < size);
            i = end;
        }
        CHECK(piece[i] >= 0x20 || piece[i] == '\n' || piece[i] == '\t');
        CHECK(piece[i] != 0x7F);
        CHECK(!(piece[i] == 0xC2 && i + 1 < size && piece[i + 1] < 0xA0));
    }
}

// Feeds the text in pieces of 0 to `most` bytes, each into a buffer of the stated size. Returns the bytes put together,
// without the reset of colour that is open. `divides` says of each offset of what comes out whether no piece may end there.
static size_t feed(const uint8_t *bytes, size_t size, llm_ansi_t ansi, uint32_t most, uint32_t random, const bool *divides, uint8_t *out) {
    llm_text_t text = {.ansi = ansi};
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        size_t piece_size = next_random(&random) % (most + 1);
        piece_size = piece_size < size - i ? piece_size : size - i;
        uint8_t *piece = exact_copy(bytes + i, piece_size);
        uint8_t *room = malloc(LLM_TEXT_MAX(piece_size));
        CHECK(room != NULL);
        size_t n_piece = llm_text_feed(&text, piece, piece_size, room);
        CHECK(n_piece <= LLM_TEXT_MAX(piece_size));
        CHECK(llm_utf8_check((const char *)room, n_piece) == n_piece); // whole characters only
        if (ansi != LLM_ANSI_RAW) {
            check_harmless(room, n_piece, ansi);
        }
        memcpy(out + n, room, n_piece);
        n += n_piece;
        CHECK(divides == NULL || !divides[n]);
        i += piece_size;
        free(room);
        free(piece);
    }
    uint8_t *room = malloc(LLM_TEXT_MAX(0));
    CHECK(room != NULL);
    size_t n_last = llm_text_finish(&text, room);
    if (ansi == LLM_ANSI_RAW) {
        CHECK(n_last <= LLM_TEXT_MAX(0));
    } else {
        check_harmless(room, n_last, ansi);
    }
    if (n_last >= 4 && ansi == LLM_ANSI_COLOR && memcmp(room + n_last - 4, "\x1B[0m", 4) == 0) {
        n_last -= 4;
    }
    memcpy(out + n, room, n_last);
    CHECK(llm_text_finish(&text, room) == 0);
    free(room);
    return n + n_last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    uint8_t splitting = data[0];
    size--;
    uint8_t *text = exact_copy(data + 1, size);
    uint8_t *repaired = malloc(3 * size + 1);
    uint8_t *wanted = malloc(3 * size + 1);
    uint8_t *got = malloc(3 * size + 1 + LLM_TEXT_MAX(0));
    bool *divides = malloc((3 * size + 1) * sizeof(bool));
    CHECK(repaired != NULL && wanted != NULL && got != NULL && divides != NULL);
    size_t bad;
    size_t n_repaired = repair(text, size, repaired, &bad);
    CHECK(llm_utf8_check((const char *)text, size) == bad);
    CHECK(llm_utf8_check((const char *)repaired, n_repaired) == n_repaired);
    reader_t reader = {.text = repaired, .size = n_repaired, .out = wanted, .divides = divides};
    uint32_t all = (uint32_t)size;
    uint32_t most[] = {1, 4, 16, 64, all};
    for (size_t i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
        for (reader.ansi = LLM_ANSI_NONE; reader.ansi <= LLM_ANSI_COLOR; reader.ansi++) {
            read_text(&reader);
            CHECK(feed(text, size, reader.ansi, most[i], splitting, NULL, got) == reader.n_out);
            CHECK(memcmp(got, wanted, reader.n_out) == 0);
        }
        CHECK(feed(text, size, LLM_ANSI_RAW, most[i], splitting, divides, got) == n_repaired);
        CHECK(memcmp(got, repaired, n_repaired) == 0);
    }
    free(divides);
    free(got);
    free(wanted);
    free(repaired);
    free(text);
    return 0;
}
