// The split patterns of byte-level tokenizers, by hand: no regular expression is run. `\s`, `\p{L}` and `\p{N}` are those of unicode.h.
//
// gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// qwen2   the same with \p{N} for \p{N}{1,3}
// smollm  each number is a text of its own, what is between them is split as gpt2 does
//
// Every character fits one of the alternatives, so that pieces lie end to end.
#include "split.h"
#include "unicode.h"

typedef enum {
    END, // of the text
    LETTER,
    NUMBER,
    BREAK, // line feed or carriage return
    SPACE, // any other
    OTHER,
} class_t;

typedef struct {
    const uint8_t *text; // UTF-8
    size_t size; // bytes
    bool digits; // numbers are texts of their own: one ends this text
} scanner_t;

// The class of the character at `at`, and its bytes.
static class_t class_at(const scanner_t *s, size_t at, uint32_t *size) {
    *size = 0;
    if (at == s->size) {
        return END;
    }
    uint32_t c = llm_utf8_decode(s->text + at, size);
    if (llm_is_letter(c)) {
        return LETTER;
    }
    if (llm_is_number(c)) {
        return s->digits ? END : NUMBER;
    }
    // Numbers since Unicode 17. What cuts at digits in Hugging Face's tokenizers knows them, its patterns do not.
    if (s->digits && ((c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6))) {
        return END;
    }
    if (c == '\n' || c == '\r') {
        return BREAK;
    }
    return llm_is_space(c) ? SPACE : OTHER;
}

// The end of the characters of one class that begin at `at`; of `most` of them at most.
static size_t span(const scanner_t *s, size_t at, class_t kind, size_t most) {
    uint32_t size;
    while (most > 0 && class_at(s, at, &size) == kind) {
        at += size;
        most--;
    }
    return at;
}

// Bytes of the contraction that the text begins with ('s, 't, 're, 've, 'm, 'll, 'd), 0 if it does not.
static size_t contraction(const scanner_t *s, bool any_case) {
    if (s->size < 2 || s->text[0] != '\'') {
        return 0;
    }
    uint8_t fold = any_case ? 0x20 : 0;
    uint8_t a = s->text[1] | fold;
    if (a == 's' || a == 't' || a == 'm' || a == 'd') {
        return 2;
    }
    if (s->size < 3) {
        return 0;
    }
    if (any_case && s->text[1] == 0xC5 && s->text[2] == 0xBF) {
        return 3; // U+017F, the long s, which is an s where case does not count
    }
    uint8_t b = s->text[2] | fold;
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

// Spaces at the beginning: up to the last line break if those count; else all, or all but the last where something follows.
static size_t spaces(const scanner_t *s, bool breaks) {
    size_t end = 0;
    size_t last = 0; // where the last space begins
    size_t last_break = 0; // where the last line break ends
    for (;;) {
        uint32_t size;
        class_t kind = class_at(s, end, &size);
        if (kind != SPACE && kind != BREAK) {
            if (breaks && last_break > 0) {
                return last_break;
            }
            return kind == END || last == 0 ? end : last;
        }
        last = end;
        end += size;
        if (kind == BREAK) {
            last_break = end;
        }
    }
}

size_t llm_split(llm_split_t pattern, const uint8_t *text, size_t size) {
    bool gpt2 = pattern == LLM_SPLIT_GPT2 || pattern == LLM_SPLIT_SMOLLM;
    scanner_t s = {.text = text, .size = size, .digits = pattern == LLM_SPLIT_SMOLLM};
    size_t n = contraction(&s, !gpt2);
    if (n > 0) {
        return n;
    }
    uint32_t first_size;
    uint32_t second_size;
    class_t first = class_at(&s, 0, &first_size);
    if (first == END) {
        return first_size; // a number, a text of its own
    }
    class_t second = class_at(&s, first_size, &second_size);
    if (!gpt2 && second == LETTER && (first == SPACE || first == OTHER)) {
        return span(&s, first_size, LETTER, SIZE_MAX);
    }
    size_t start = 0;
    class_t kind = first;
    if (text[0] == ' ' && (second == OTHER || (gpt2 && (second == LETTER || second == NUMBER)))) {
        start = first_size;
        kind = second;
    }
    switch (kind) {
        case LETTER:
            return span(&s, start, LETTER, SIZE_MAX);
        case NUMBER:
            return span(&s, start, NUMBER, gpt2 ? SIZE_MAX : pattern == LLM_SPLIT_LLAMA3 ? 3
                                                                                         : 1);
        case OTHER:
            n = span(&s, start, OTHER, SIZE_MAX);
            return gpt2 ? n : span(&s, n, BREAK, SIZE_MAX);
        default:
            return spaces(&s, !gpt2);
    }
}
