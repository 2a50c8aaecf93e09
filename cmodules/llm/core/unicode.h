// What Unicode says of characters, as far as tokenizers ask. The tables are of the version that unicode_tables.h names.
#ifndef LLM_UNICODE_H
#define LLM_UNICODE_H

#include <stdbool.h>
#include <stdint.h>

// Bytes of a character in UTF-8.
static inline uint32_t llm_utf8_size(uint32_t character) {
    if (character < 0x80) {
        return 1;
    }
    if (character < 0x800) {
        return 2;
    }
    return character < 0x10000 ? 3 : 4;
}

// Writes a character in UTF-8. Returns where the next one goes.
uint8_t *llm_utf8_put(uint8_t *out, uint32_t character);

// The character that begins at `p`, where UTF-8 is valid. Sets `*size` to its bytes.
static inline uint32_t llm_utf8_decode(const uint8_t *p, uint32_t *size) {
    if (p[0] < 0x80) {
        *size = 1;
        return p[0];
    }
    if (p[0] < 0xE0) {
        *size = 2;
        return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    }
    if (p[0] < 0xF0) {
        *size = 3;
        return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *size = 4;
    return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

// General category L, `\p{L}`.
bool llm_is_letter(uint32_t character);

// General category N, `\p{N}`: digits, letters for numbers (Roman ones), fractions.
bool llm_is_number(uint32_t character);

// White_Space, `\s`.
bool llm_is_space(uint32_t character);

// General category Mn, marks that take no room of their own, as BERT's normalizer knows them.
bool llm_is_mark(uint32_t character);

// General category P and all of ASCII that is printed but letters and digits, as BERT's pre-tokenizer has it.
bool llm_is_punctuation(uint32_t character);

// What BERT's normalizer leaves out of text: U+FFFD and general categories Cc, Cf and Co, but tab, line feed and carriage return.
bool llm_is_ignored(uint32_t character);

// The lower case of a character, itself if it has none or is U+0130, whose lower case is two.
uint32_t llm_lower(uint32_t character);

// Most characters that one is taken apart into.
#define LLM_MAX_PARTS 4

// The full canonical decomposition of a character, itself if it has none. Returns how many characters that is.
uint32_t llm_decompose(uint32_t character, uint32_t parts[LLM_MAX_PARTS]);

// The character that is canonically these two, 0 if there is none or they are not to be joined. It looks at all there are.
uint32_t llm_compose(uint32_t first, uint32_t second);

// Canonical_Combining_Class: 0 for what begins a new character to the eye, else where a mark goes.
uint32_t llm_combining_class(uint32_t character);

// Whether normalization form C may replace the character, or join it to the one before (NFC_Quick_Check is No or Maybe).
bool llm_may_change(uint32_t character);

#endif
