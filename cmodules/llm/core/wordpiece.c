// WordPiece (Schuster and Nakajima, 2012) with the normalization of BERT (Devlin et al., 2018).
//
// A character at a time: what is no text is left out; spaces, punctuation and ideographs end a word, the latter two are words; accents
// go and capitals become small letters if the model wants that. A word is the longest piece that it begins with, then the longest that
// the rest begins with, and so on; or unknown, if it is too long or no piece fits somewhere.
#include "tokenizer.h"
#include "unicode.h"

#define MAX_CHARACTERS 100 // of a word that is not unknown

// A word as it is read: characters, with their combining class in the upper eight bits.
typedef struct {
    const llm_tokenizer_t *tokenizer;
    llm_ids_t *ids;
    uint32_t *characters; // [MAX_CHARACTERS]
    uint8_t *text; // room for them as UTF-8, with a space before
    uint32_t n; // characters, with those beyond MAX_CHARACTERS
    uint32_t marks; // where the last run of characters with a class begins
    bool room; // for the ids so far
} word_t;

size_t llm_wordpiece_scratch(void) {
    return MAX_CHARACTERS * (sizeof(uint32_t) + 4) + 1;
}

// The ids of the word's pieces, of which the first begins with a space. False if no piece fits somewhere.
static bool put_pieces(word_t *w) {
    const llm_tokenizer_t *t = w->tokenizer;
    uint8_t *end = w->text;
    *end++ = ' ';
    for (uint32_t i = 0; i < w->n; i++) {
        end = llm_utf8_put(end, w->characters[i] & 0x1FFFFF);
    }
    for (const uint8_t *at = w->text; at < end && w->room;) {
        uint32_t size;
        uint32_t id = llm_find_prefix(t, t->sorted, t->n_sorted, at, (size_t)(end - at), &size);
        if (id == LLM_NO_TOKEN || (at == w->text && size == 1)) {
            return false;
        }
        w->room = llm_put(w->ids, id);
        at += size;
    }
    return true;
}

static void end_word(word_t *w) {
    size_t before = w->ids->n;
    if (w->n > 0 && w->room && (w->n > MAX_CHARACTERS || !put_pieces(w))) {
        w->ids->n = before;
        w->room = llm_put_unknown(w->tokenizer, w->ids);
    }
    w->n = 0;
    w->marks = 0;
}

// Appends a character to the word; marks stand in the order of their classes, those of one class as they came.
static void append(word_t *w, uint32_t c, uint32_t class) {
    if (w->n < MAX_CHARACTERS) {
        uint32_t at = w->n;
        while (class != 0 && at > w->marks && w->characters[at - 1] >> 24 > class) {
            w->characters[at] = w->characters[at - 1];
            at--;
        }
        w->characters[at] = class << 24 | c;
    }
    w->n++;
    if (class == 0) {
        w->marks = w->n;
    }
}

// A character that is a word.
static void put_alone(word_t *w, uint32_t c) {
    end_word(w);
    append(w, c, 0);
    end_word(w);
}

static bool is_ideograph(uint32_t c) {
    return (c >= 0x3400 && c < 0x4DC0) || (c >= 0x4E00 && c < 0xA000) || (c >= 0xF900 && c < 0xFB00) || (c >= 0x20000 && c < 0x2A6E0)
        || (c >= 0x2A700 && c < 0x2B820) || (c >= 0x2B920 && c < 0x2CEB0) || (c >= 0x2F800 && c < 0x2FA20);
}

// A character after decomposition.
static void take_part(word_t *w, uint32_t c) {
    uint32_t class = 0;
    if (w->tokenizer->strip_accents) {
        class = llm_combining_class(c);
        if (llm_is_mark(c)) {
            if (class == 0) {
                w->marks = w->n; // no mark moves past it, although it is gone
            }
            return;
        }
    }
    if (w->tokenizer->lowercase) {
        if (c == 0x130) {
            append(w, 'i', 0);
            c = 0x307;
        }
        c = llm_lower(c);
    }
    if (llm_is_space(c)) {
        end_word(w);
    } else if (llm_is_punctuation(c)) {
        put_alone(w, c);
    } else {
        append(w, c, class);
    }
}

bool llm_wordpiece(const llm_tokenizer_t *t, const uint8_t *text, size_t size, void *scratch, llm_ids_t *ids) {
    word_t word = {.tokenizer = t, .ids = ids, .characters = scratch, .room = true};
    word.text = (uint8_t *)(word.characters + MAX_CHARACTERS);
    for (size_t at = 0; at < size && word.room;) {
        uint32_t n;
        uint32_t c = llm_utf8_decode(text + at, &n);
        at += n;
        if (llm_is_ignored(c)) {
            continue;
        }
        bool ideograph = is_ideograph(c);
        if (ideograph) {
            end_word(&word);
        }
        uint32_t parts[LLM_MAX_PARTS] = {c};
        uint32_t n_parts = t->strip_accents ? llm_decompose(c, parts) : 1;
        for (uint32_t i = 0; i < n_parts; i++) {
            take_part(&word, parts[i]);
        }
        if (ideograph) {
            end_word(&word);
        }
    }
    end_word(&word);
    return word.room;
}
