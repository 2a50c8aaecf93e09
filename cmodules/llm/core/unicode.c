// Sets of characters, as sorted boundaries in flash.
#include <stddef.h>

#include "unicode.h"
#include "unicode_tables.h"

// Whether a set has the character: whether an odd number of its plane's boundaries is at or before it. Binary search.
static bool contains(const uint16_t *set, const uint16_t *planes, uint32_t character) {
    uint32_t plane = character >> 16;
    if (plane >= UNICODE_PLANES) {
        return false;
    }
    uint16_t place = (uint16_t)character;
    uint32_t low = planes[plane];
    uint32_t high = planes[plane + 1];
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (set[middle] <= place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low - planes[plane]) % 2 != 0;
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
