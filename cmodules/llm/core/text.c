// UTF-8, and the characters that tokens split.
#include <string.h>

#include "llm.h"

// How many bytes a character has by its first one (The Unicode Standard, table 3-7), 0 if none begins so.
static uint8_t sequence_length(uint8_t first) {
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first <= 0xDF) {
        return 2;
    }
    if (first >= 0xE0 && first <= 0xEF) {
        return 3;
    }
    if (first >= 0xF0 && first <= 0xF4) {
        return 4;
    }
    return 0;
}

// Whether `byte` can be the second byte after `first`: no overlong forms, no surrogates, nothing past U+10FFFF.
static bool second_fits(uint8_t first, uint8_t byte) {
    switch (first) {
        case 0xE0:
            return byte >= 0xA0 && byte <= 0xBF;
        case 0xED:
            return byte >= 0x80 && byte <= 0x9F;
        case 0xF0:
            return byte >= 0x90 && byte <= 0xBF;
        case 0xF4:
            return byte >= 0x80 && byte <= 0x8F;
        default:
            return byte >= 0x80 && byte <= 0xBF;
    }
}

static bool continues(const uint8_t *sequence, size_t n, uint8_t byte) {
    return n == 1 ? second_fits(sequence[0], byte) : (byte & 0xC0) == 0x80;
}

static size_t put_replacement(uint8_t *out) {
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}

size_t llm_utf8_feed(llm_utf8_t *utf8, const uint8_t *bytes, size_t size, uint8_t *out) {
    size_t n_out = 0;
    for (size_t i = 0; i < size; i++) {
        if (utf8->n_pending > 0 && !continues(utf8->pending, utf8->n_pending, bytes[i])) {
            utf8->n_pending = 0;
            n_out += put_replacement(out + n_out);
        }
        if (utf8->n_pending == 0 && sequence_length(bytes[i]) == 0) {
            n_out += put_replacement(out + n_out);
            continue;
        }
        utf8->pending[utf8->n_pending++] = bytes[i];
        if (utf8->n_pending == sequence_length(utf8->pending[0])) {
            memcpy(out + n_out, utf8->pending, utf8->n_pending);
            n_out += utf8->n_pending;
            utf8->n_pending = 0;
        }
    }
    return n_out;
}

size_t llm_utf8_finish(llm_utf8_t *utf8, uint8_t *out) {
    if (utf8->n_pending == 0) {
        return 0;
    }
    utf8->n_pending = 0;
    return put_replacement(out);
}

size_t llm_utf8_check(const char *text, size_t size) {
    const uint8_t *bytes = (const uint8_t *)text;
    size_t i = 0;
    while (i < size) {
        size_t length = sequence_length(bytes[i]);
        if (length == 0 || length > size - i) {
            return i;
        }
        for (size_t n = 1; n < length; n++) {
            if (!continues(bytes + i, n, bytes[i + n])) {
                return i;
            }
        }
        i += length;
    }
    return size;
}
