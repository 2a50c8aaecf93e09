// Properties of characters, as sorted tables in flash.
#include <stddef.h>

#include "unicode.h"
#include "unicode_tables.h"

// Hangul syllables are composed by arithmetic (The Unicode Standard, 3.12).
#define L_FIRST 0x1100u
#define L_COUNT 19u
#define V_FIRST 0x1161u
#define V_COUNT 21u
#define T_FIRST 0x11A7u // none: T is 1 to 27
#define T_COUNT 28u
#define S_FIRST 0xAC00u
#define S_COUNT (L_COUNT * V_COUNT * T_COUNT)

uint8_t *llm_utf8_put(uint8_t *out, uint32_t c) {
    uint32_t size = llm_utf8_size(c);
    if (size == 1) {
        *out = (uint8_t)c;
        return out + 1;
    }
    for (uint32_t i = size - 1; i > 0; i--) {
        out[i] = (uint8_t)(0x80 | (c & 0x3F));
        c >>= 6;
    }
    out[0] = (uint8_t)(0xF00 >> size | c);
    return out + size;
}

// How many entries of a table come up to the end of the character's plane and are not above it. Binary search.
static uint32_t entries_up_to(const uint16_t *table, const uint16_t *planes, uint32_t character) {
    uint16_t place = (uint16_t)character;
    uint32_t low = planes[character >> 16];
    uint32_t high = planes[(character >> 16) + 1];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (table[middle] <= place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has_plane(uint32_t character) {
    return character >> 16 < UNICODE_PLANES;
}

// Whether a set has the character: whether an odd number of boundaries is at or before it (planes begin at even ones).
static bool contains(const uint16_t *set, const uint16_t *planes, uint32_t character) {
    return has_plane(character) && entries_up_to(set, planes, character) % 2 != 0;
}

bool llm_is_letter(uint32_t c) {
    if (c < 0x80) {
        return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
    }
    return contains(letters, letters_planes, c);
}

bool llm_is_number(uint32_t c) {
    if (c < 0x80) {
        return c >= '0' && c <= '9';
    }
    return contains(numbers, numbers_planes, c);
}

bool llm_is_space(uint32_t c) {
    if (c < 0x80) {
        return c == ' ' || (c >= '\t' && c <= '\r');
    }
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F
        || c == 0x205F || c == 0x3000;
}

// ---------------------------------------------------------------------------- what BERT asks

bool llm_is_mark(uint32_t c) {
    return c >= 0x300 && (contains(marks, marks_planes, c) || (c >= 0xE0100 && c < 0xE01F0)); // variation selectors
}

bool llm_is_punctuation(uint32_t c) {
    if (c < 0x80) {
        return c > ' ' && c < 0x7F && !llm_is_letter(c) && !llm_is_number(c);
    }
    return contains(punctuation, punctuation_planes, c);
}

bool llm_is_ignored(uint32_t c) {
    if (c >> 16 >= 14) { // tags, private use
        return c == 0xE0001 || (c >= 0xE0020 && c < 0xE0080) || (c >= 0xF0000 && (c & 0xFFFF) < 0xFFFE);
    }
    return contains(ignored, ignored_planes, c);
}

uint32_t llm_lower(uint32_t c) {
    if (c < 0x80) {
        return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
    }
    if (!has_plane(c)) {
        return c;
    }
    uint32_t n = entries_up_to(upper_firsts, uppers_planes, c);
    if (n == uppers_planes[c >> 16] || (uint16_t)c > upper_lasts[n - 1]) {
        return c;
    }
    uint32_t offset = (uint16_t)c - upper_firsts[n - 1];
    bool alternate = (upper_alternate[(n - 1) / 8] >> (n - 1) % 8 & 1) != 0;
    return alternate && offset % 2 != 0 ? c : (c & 0x30000) | (upper_targets[n - 1] + offset);
}

// ---------------------------------------------------------------------------- normal forms

// Where the character stands among the wholes of pairs, UINT32_MAX if it is none.
static uint32_t find_pair(uint32_t c) {
    uint32_t n = entries_up_to(pair_wholes, pairs_planes, c);
    return n > pairs_planes[c >> 16] && pair_wholes[n - 1] == (uint16_t)c ? n - 1 : UINT32_MAX;
}

// The number of a character among the seconds of pairs, UINT32_MAX if it is none.
static uint32_t find_second(uint32_t c) {
    uint32_t low = 0;
    uint32_t high = sizeof(seconds) / sizeof(seconds[0]);
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (seconds[middle] == c) {
            return middle;
        }
        if (seconds[middle] < c) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return UINT32_MAX;
}

// The other character that this one is, itself if none.
static uint32_t single(uint32_t c) {
    uint32_t n = entries_up_to(singles, singles_planes, c);
    if (n % 2 == 0) {
        return c;
    }
    uint32_t i = single_starts[n / 2] + (uint16_t)c - singles[n - 1];
    return single_targets[i] | (uint32_t)(single_upper[i / 8] >> i % 8 & 1) << 17;
}

uint32_t llm_decompose(uint32_t c, uint32_t parts[LLM_MAX_PARTS]) {
    if (c - S_FIRST < S_COUNT) {
        uint32_t s = c - S_FIRST;
        parts[0] = L_FIRST + s / (V_COUNT * T_COUNT);
        parts[1] = V_FIRST + s / T_COUNT % V_COUNT;
        parts[2] = T_FIRST + s % T_COUNT;
        return s % T_COUNT == 0 ? 2 : 3;
    }
    // What is taken off the end is not composed itself; parts stand backwards until all are there.
    uint32_t n = 0;
    if (c >= 0xC0 && has_plane(c)) {
        c = single(c);
        uint32_t pair;
        while (n < LLM_MAX_PARTS - 1 && (pair = find_pair(c)) != UINT32_MAX) {
            parts[n++] = seconds[pair_seconds[pair] & 127];
            c = single((c & 0x30000) | pair_firsts[pair]);
        }
    }
    parts[n++] = c;
    for (uint32_t i = 0; i < n / 2; i++) {
        uint32_t part = parts[i];
        parts[i] = parts[n - 1 - i];
        parts[n - 1 - i] = part;
    }
    return n;
}

uint32_t llm_compose(uint32_t first, uint32_t second) {
    if (first - L_FIRST < L_COUNT && second - V_FIRST < V_COUNT) {
        return S_FIRST + ((first - L_FIRST) * V_COUNT + second - V_FIRST) * T_COUNT;
    }
    if (first - S_FIRST < S_COUNT && (first - S_FIRST) % T_COUNT == 0 && second > T_FIRST && second - T_FIRST < T_COUNT) {
        return first + second - T_FIRST;
    }
    uint32_t number = find_second(second);
    if (number == UINT32_MAX || !has_plane(first)) {
        return 0;
    }
    for (uint32_t i = pairs_planes[first >> 16]; i < pairs_planes[(first >> 16) + 1]; i++) {
        if (pair_firsts[i] == (uint16_t)first && pair_seconds[i] == number) {
            return (first & 0x30000) | pair_wholes[i];
        }
    }
    return 0;
}

uint32_t llm_combining_class(uint32_t c) {
    if (c < 0x300 || !has_plane(c)) {
        return 0;
    }
    uint32_t n = entries_up_to(class_firsts, classes_planes, c);
    if (n == classes_planes[c >> 16] || (uint16_t)c - class_firsts[n - 1] >= class_sizes[n - 1]) {
        return 0;
    }
    return class_values[n - 1];
}

bool llm_may_change(uint32_t c) {
    // Most of what is above: CJK and Hangul syllables.
    if (c < 0x300 || (c >= 0x3400 && c < 0xA000) || c - S_FIRST < S_COUNT || !has_plane(c)) {
        return false;
    }
    if (c - V_FIRST < V_COUNT || (c > T_FIRST && c - T_FIRST < T_COUNT) || single(c) != c || find_second(c) != UINT32_MAX) {
        return true;
    }
    uint32_t pair = find_pair(c);
    return pair != UINT32_MAX && pair_seconds[pair] >= 128;
}
