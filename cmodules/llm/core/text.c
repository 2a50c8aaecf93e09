// UTF-8, escape sequences, and what of both tokens split.
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

// ---------------------------------------------------------------------------- escape sequences

// Where in a sequence the next character stands: llm_text_t.state.
enum {
    TEXT = 0, // in none
    ESCAPE, // after ESC
    INTERMEDIATE, // after ESC and characters from 0x20 to 0x2F
    CONTROL, // in a control sequence, after CSI
    STRING, // in a control string, after OSC, DCS, SOS, PM or APC
    STRING_ESCAPE, // after ESC in a control string
};

// Control characters (ECMA-48, 8.3).
enum {
    BEL = 0x07,
    CAN = 0x18,
    SUB = 0x1A,
    ESC = 0x1B,
    DEL = 0x7F,
    DCS = 0x90,
    SOS = 0x98,
    CSI = 0x9B,
    OSC = 0x9D,
    PM = 0x9E,
    APC = 0x9F,
    PRINTABLE = 0xA0, // here: every character from U+00A0 on
};

static uint8_t code_of(const uint8_t *character) {
    if (character[0] < 0x80) {
        return character[0];
    }
    return character[0] == 0xC2 && character[1] < 0xA0 ? character[1] : PRINTABLE;
}

static bool is_c1(uint8_t code) {
    return code > DEL && code < PRINTABLE;
}

// The state after C1 control `code`, which ends whatever there was.
static uint8_t state_after_c1(uint8_t code) {
    switch (code) {
        case CSI:
            return CONTROL;
        case DCS:
        case SOS:
        case OSC:
        case PM:
        case APC:
            return STRING;
        default: // ST among them
            return TEXT;
    }
}

// The state after `code`. Control characters within a sequence are obeyed by terminals and do not end it, as the VT500 did.
static uint8_t next_state(uint8_t state, uint8_t code) {
    if (code == ESC) {
        return state == STRING ? STRING_ESCAPE : ESCAPE;
    }
    if (is_c1(code)) {
        return state_after_c1(code);
    }
    if (state == TEXT || code == CAN || code == SUB) {
        return TEXT;
    }
    if (state == STRING) {
        return code == BEL ? TEXT : STRING;
    }
    if (code < 0x20 || code == DEL) {
        return state == STRING_ESCAPE ? ESCAPE : state;
    }
    if (code == PRINTABLE) {
        return TEXT;
    }
    switch (state) {
        case CONTROL:
            return code < 0x40 ? CONTROL : TEXT;
        case INTERMEDIATE:
            return code < 0x30 ? INTERMEDIATE : TEXT;
        default: // after ESC the character for C1 control `code + 0x40`, an intermediate, or the whole of a sequence
            if (code < 0x30) {
                return INTERMEDIATE;
            }
            return code >= 0x40 && code < 0x60 ? state_after_c1(code + 0x40) : TEXT;
    }
}

// Whether a terminal that is told nothing but text shows `code`, or goes on to the next line or tab.
static bool is_shown(uint8_t state, uint8_t code) {
    if (code == '\n' || code == '\t' || code == PRINTABLE) {
        return state != STRING;
    }
    return state == TEXT && code >= 0x20 && code < DEL;
}

// Writes the first `n` bytes that are held.
static size_t release(llm_text_t *text, size_t n, uint8_t *out) {
    memcpy(out, text->held, n);
    text->n_held -= n;
    memmove(text->held, text->held + n, text->n_held);
    return n;
}

// A character when everything passes.
static size_t take_raw(llm_text_t *text, uint8_t next, const uint8_t *character, size_t length, uint8_t *out) {
    uint8_t code = code_of(character);
    size_t n = 0;
    if (text->state == STRING_ESCAPE && code != '\\') {
        n += release(text, text->n_held - 1, out); // the string ends here, that ESC begins another sequence
    }
    bool begins = code == ESC ? text->state != STRING : is_c1(code) && next != TEXT;
    if (begins || text->n_held + length > LLM_SEQUENCE_HELD) {
        n += release(text, text->n_held, out + n);
    }
    memcpy(text->held + text->n_held, character, length);
    text->n_held += length;
    return next == TEXT ? n + release(text, text->n_held, out + n) : n;
}

// Whether what is held is SGR, ECMA-48 8.3.117; sets whether it leaves anything but the terminal's own colours and style.
static bool is_sgr(const llm_text_t *text, bool *opens) {
    *opens = false;
    if (text->n_held < 3 || text->held[1] != '[' || text->held[text->n_held - 1] != 'm') {
        return false;
    }
    for (size_t i = 2; i + 1 < text->n_held; i++) {
        uint8_t byte = text->held[i];
        if (!(byte >= '0' && byte <= '9') && byte != ';' && byte != ':') {
            return false;
        }
        *opens |= byte != '0' && byte != ';';
    }
    return true;
}

// A character of a sequence when SGR passes.
static size_t take_color(llm_text_t *text, uint8_t next, uint8_t code, uint8_t *out) {
    if (code == ESC || code == CSI) {
        memcpy(text->held, "\x1B[", 2); // CSI in two characters, which every terminal knows
        text->n_held = code == ESC ? 1 : 2;
    } else if (text->n_held == 0 || text->n_held == LLM_SEQUENCE_HELD || code > DEL) {
        text->n_held = 0; // no SGR, or too long
    } else if (code >= 0x20 && code < DEL) {
        text->held[text->n_held++] = code;
    }
    bool opens;
    if (next != TEXT) {
        return 0;
    }
    if (!is_sgr(text, &opens)) {
        text->n_held = 0;
        return 0;
    }
    text->color_open = opens;
    return release(text, text->n_held, out);
}

// Writes what a character, one that is read where `out` may write, lets pass.
static size_t take(llm_text_t *text, const uint8_t *from, size_t length, uint8_t *out) {
    uint8_t character[4];
    memcpy(character, from, length);
    uint8_t code = code_of(character);
    uint8_t state = text->state;
    uint8_t next = next_state(state, code);
    size_t n = 0;
    if (text->ansi == LLM_ANSI_RAW) {
        n = take_raw(text, next, character, length, out);
    } else if (is_shown(state, code)) {
        memcpy(out, character, length);
        n = length;
        text->n_held = next == TEXT ? 0 : text->n_held;
    } else if (text->ansi == LLM_ANSI_COLOR) {
        n = take_color(text, next, code, out);
    }
    text->n_sequence = state == TEXT || next == TEXT || code == ESC || is_c1(code) ? length : text->n_sequence + length;
    if (text->n_sequence >= LLM_SEQUENCE_LIMIT) {
        next = TEXT;
    }
    text->state = next;
    return n;
}

size_t llm_text_feed(llm_text_t *text, const uint8_t *bytes, size_t size, uint8_t *out) {
    // The characters lie behind all that can be written before they are read.
    const uint8_t *characters = out + LLM_SEQUENCE_HELD;
    size_t n_characters = llm_utf8_feed(&text->utf8, bytes, size, out + LLM_SEQUENCE_HELD);
    size_t n = 0;
    for (size_t i = 0; i < n_characters;) {
        size_t length = sequence_length(characters[i]);
        n += take(text, characters + i, length, out + n);
        i += length;
    }
    return n;
}

size_t llm_text_finish(llm_text_t *text, uint8_t *out) {
    uint8_t last[3];
    size_t n_last = llm_utf8_finish(&text->utf8, last);
    size_t n = n_last > 0 ? take(text, last, n_last, out) : 0;
    if (text->ansi == LLM_ANSI_RAW) {
        n += release(text, text->n_held, out + n);
    } else if (text->color_open) {
        memcpy(out + n, "\x1B[0m", 4);
        n += 4;
    }
    *text = (llm_text_t){.ansi = text->ansi};
    return n;
}
