// Form C: take every character apart, put marks in order, join what can be joined.
//
// In between, characters are numbers of 32 bits with their combining class in the upper eight.
#include <string.h>

#include "normalize.h"
#include "unicode.h"

static uint32_t class_of(uint32_t entry) {
    return entry >> 24;
}

static uint32_t character_of(uint32_t entry) {
    return entry & 0x1FFFFF;
}

bool llm_is_normal(const uint8_t *text, size_t size) {
    uint32_t last = 0; // class of the character before
    for (size_t at = 0; at < size;) {
        if (text[at] < 0x80) { // most text
            last = 0;
            at++;
            continue;
        }
        uint32_t n;
        uint32_t c = llm_utf8_decode(text + at, &n);
        uint32_t class = llm_combining_class(c);
        if (llm_may_change(c) || (class != 0 && class < last)) {
            return false;
        }
        last = class;
        at += n;
    }
    return true;
}

size_t llm_normalize_scratch(const uint8_t *text, size_t size, size_t *most) {
    size_t n_parts = 0;
    size_t run = 0; // of marks
    size_t longest = 0;
    *most = 0;
    for (size_t at = 0; at < size;) {
        uint32_t n;
        uint32_t parts[LLM_MAX_PARTS];
        uint32_t count = llm_decompose(llm_utf8_decode(text + at, &n), parts);
        at += n;
        n_parts += count;
        for (uint32_t i = 0; i < count; i++) {
            *most += llm_utf8_size(parts[i]);
            run = llm_combining_class(parts[i]) != 0 ? run + 1 : 0;
            longest = run > longest ? run : longest;
        }
    }
    return (n_parts + longest) * sizeof(uint32_t);
}

// Sorts by class, what is equal as it stands. Merge sort, with room for `n` more entries at `spare`.
static void sort_marks(uint32_t *marks, size_t n, uint32_t *spare) {
    for (size_t width = 1; width < n; width *= 2) {
        for (size_t start = 0; start + width < n; start += 2 * width) {
            size_t end = start + 2 * width < n ? start + 2 * width : n;
            memcpy(spare, marks + start, width * sizeof(*marks));
            size_t left = 0; // in spare
            size_t right = start + width;
            for (size_t out = start; left < width; out++) {
                bool take_right = right < end && class_of(marks[right]) < class_of(spare[left]);
                marks[out] = take_right ? marks[right++] : spare[left++];
            }
        }
    }
}

static void order(uint32_t *entries, size_t n) {
    for (size_t at = 0; at < n;) {
        size_t end = at;
        while (end < n && class_of(entries[end]) != 0) {
            end++;
        }
        sort_marks(entries + at, end - at, entries + n);
        at = end + 1;
    }
}

// A character joins the one of class 0 before it unless one between them has the same class, or 0.
static size_t compose(uint32_t *entries, size_t n) {
    size_t out = 0;
    size_t starter = SIZE_MAX; // the last of class 0
    for (size_t i = 0; i < n; i++) {
        uint32_t class = class_of(entries[i]);
        if (starter != SIZE_MAX && (out == starter + 1 || class_of(entries[out - 1]) < class)) {
            uint32_t whole = llm_compose(entries[starter], character_of(entries[i]));
            if (whole != 0) {
                entries[starter] = whole;
                continue;
            }
        }
        if (class == 0) {
            starter = out;
        }
        entries[out++] = entries[i];
    }
    return out;
}

size_t llm_normalize(const uint8_t *text, size_t size, void *scratch) {
    uint32_t *entries = scratch;
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        uint32_t n_bytes;
        uint32_t parts[LLM_MAX_PARTS];
        uint32_t count = llm_decompose(llm_utf8_decode(text + at, &n_bytes), parts);
        at += n_bytes;
        for (uint32_t i = 0; i < count; i++) {
            entries[n++] = llm_combining_class(parts[i]) << 24 | parts[i];
        }
    }
    order(entries, n);
    n = compose(entries, n);
    // UTF-8 takes no more than an entry: what is written has been read.
    uint8_t *out = scratch;
    for (size_t i = 0; i < n; i++) {
        out = llm_utf8_put(out, character_of(entries[i]));
    }
    return (size_t)(out - (uint8_t *)scratch);
}
