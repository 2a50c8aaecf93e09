// Reads an image in place. docs/image-format.md is the definition; nothing is used before it is checked.
#include <float.h>
#include <string.h>

#include "../kernels/kernels.h"
#include "image.h"
#include "tokenizer.h"

#define HEADER_SIZE 64
#define SECTION_SIZE 16
#define MAX_HEAD_SIZE (HEADER_SIZE + MAX_SECTIONS * SECTION_SIZE)
#define MIN_SECTIONS 6
#define MAX_SECTIONS 16
#define CONFIG_SIZE 128
#define TOKENIZER_SIZE 64
#define BPE_SIZE 96 // of the header with what BPE has more
#define TENSOR_SIZE 32
#define HASH_SIZE 32
#define MAX_VOCAB (1u << 20)
#define MAX_WIDTH 16384
#define MAX_LAYERS 256
#define MAX_HEADS 256
#define MAX_HEAD_DIM 512
#define MAX_CONTEXT (1u << 20)

static const uint8_t magic[8] = {0x89, 'L', 'L', 'M', '\r', '\n', 0x1A, '\n'};

// The sections that every image has, in this order.
enum {
    CONF,
    TOKN,
    TDIR,
    DATA,
    CARD,
    HASH,
    N_REQUIRED,
};
static const char required_types[N_REQUIRED][5] = {"CONF", "TOKN", "TDIR", "DATA", "CARD", "HASH"};

typedef struct {
    const uint8_t *data; // first byte, NULL while it is not in memory
    uint32_t offset; // of it in the image
    uint32_t size; // bytes, without padding
} section_t;

// ---------------------------------------------------------------------------- plain reading

static uint32_t read_u16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t read_u32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float read_f32(const uint8_t *p) {
    uint32_t bits = read_u32(p);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static bool all_zero(const uint8_t *p, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (p[i] != 0) {
            return false;
        }
    }
    return true;
}

// Joins two strings into a message, cut to fit. (strncat is not in every port's C library.)
static void join(char out[LLM_MESSAGE_SIZE], const char *a, const char *b) {
    size_t at = 0;
    while (*a != '\0' && at < LLM_MESSAGE_SIZE - 1) {
        out[at++] = *a++;
    }
    while (*b != '\0' && at < LLM_MESSAGE_SIZE - 1) {
        out[at++] = *b++;
    }
    out[at] = '\0';
}

static llm_status_t bad(llm_error_t *error, const char *what, uint64_t a, uint64_t b) {
    return llm_fail(error, LLM_ERROR_IMAGE, what, a, b);
}

// ---------------------------------------------------------------------------- CRC32C

// One entry for each value of four bits: 64 bytes of table, two steps a byte.
static const uint32_t crc_table[16] = {0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75};

uint32_t llm_crc32c(uint32_t crc, const void *data, size_t size) {
    const uint8_t *p = data;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc_table[crc & 15] ^ (crc >> 4);
        crc = crc_table[crc & 15] ^ (crc >> 4);
    }
    return ~crc;
}

// ---------------------------------------------------------------------------- header and sections

static llm_status_t check_header(const uint8_t *data, size_t size, llm_error_t *error) {
    if (size < HEADER_SIZE) {
        return bad(error, "header: {} bytes are too few for an image, it needs {}", size, HEADER_SIZE);
    }
    if (memcmp(data, magic, sizeof(magic)) != 0) {
        return bad(error, "magic: this is not an image of edge-llm (make one with 'edge-llm convert')", 0, 0);
    }
    if (read_u16(data + 8) != 1) {
        return bad(error, "version: the image is of version {}, this firmware reads version 1", read_u16(data + 8), 0);
    }
    if (read_u16(data + 10) != HEADER_SIZE) {
        return bad(error, "header_size: is {}, must be {}", read_u16(data + 10), HEADER_SIZE);
    }
    uint32_t total_size = read_u32(data + 12);
    if (total_size % 64 != 0) {
        return bad(error, "total_size: {} is not a multiple of 64", total_size, 0);
    }
    if (total_size > size) {
        return bad(error, "total_size: the image is truncated, it has {} bytes and only {} are here", total_size, size);
    }
    uint32_t n_sections = read_u32(data + 16);
    if (n_sections < MIN_SECTIONS || n_sections > MAX_SECTIONS) {
        return bad(error, "n_sections: is {}, must be 6 to 16", n_sections, 0);
    }
    if (read_u32(data + 20) != HEADER_SIZE) {
        return bad(error, "section_table: is {}, must be {}", read_u32(data + 20), HEADER_SIZE);
    }
    if (read_u32(data + 24) != 0) {
        return bad(error, "flags: {} needs a later version of this firmware", read_u32(data + 24), 0);
    }
    if (!all_zero(data + 28, 32)) {
        return bad(error, "header: reserved bytes are not zero (a later version's?)", 0, 0);
    }
    uint32_t table_size = n_sections * SECTION_SIZE;
    if (HEADER_SIZE + table_size > total_size) {
        return bad(error, "total_size: {} bytes do not hold the section table", total_size, 0);
    }
    uint32_t crc = llm_crc32c(llm_crc32c(0, data, 60), data + HEADER_SIZE, table_size);
    if (crc != read_u32(data + 60)) {
        return bad(error, "header_crc: the header or the section table is damaged", 0, 0);
    }
    return LLM_OK;
}

static bool is_letter(uint8_t byte) {
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z');
}

// A message that names the section by its type, the first four bytes of `entry`.
static llm_status_t bad_section(llm_error_t *error, const uint8_t *entry, const char *what, uint64_t a, uint64_t b) {
    char name[] = "section ????: ";
    for (size_t i = 0; i < 4; i++) {
        name[8 + i] = is_letter(entry[i]) ? (char)entry[i] : '?';
    }
    char text[LLM_MESSAGE_SIZE];
    join(text, name, what);
    return bad(error, text, a, b);
}

static llm_status_t find_sections(const uint8_t *data, section_t sections[N_REQUIRED], llm_error_t *error) {
    uint32_t total_size = read_u32(data + 12);
    uint32_t n_sections = read_u32(data + 16);
    uint32_t n_found = 0;
    uint64_t end = HEADER_SIZE + n_sections * SECTION_SIZE;
    for (uint32_t i = 0; i < n_sections; i++) {
        const uint8_t *entry = data + HEADER_SIZE + i * SECTION_SIZE;
        uint32_t offset = read_u32(entry + 4);
        uint32_t size = read_u32(entry + 8);
        if (offset % 64 != 0) {
            return bad_section(error, entry, "offset: {} is not a multiple of 64", offset, 0);
        }
        if (offset < end) {
            return bad_section(error, entry, "offset: {} overlaps what stands before it, which ends at {}", offset, end);
        }
        end = (uint64_t)offset + size;
        if (end > total_size) {
            return bad_section(error, entry, "size: it ends at {}, past total_size {}", end, total_size);
        }
        for (uint32_t k = 0; k < 4; k++) {
            if (!is_letter(entry[k])) {
                return bad_section(error, entry, "type: must be four letters", 0, 0);
            }
        }
        if (entry[0] >= 'a') {
            continue; // whoever knows it may use it
        }
        if (n_found == N_REQUIRED || memcmp(entry, required_types[n_found], 4) != 0) {
            return bad_section(error, entry, "type: unknown, repeated or out of order", 0, 0);
        }
        if (n_found == HASH && read_u32(entry + 12) != 0) {
            return bad_section(error, entry, "crc: is {}, must be 0", read_u32(entry + 12), 0);
        }
        sections[n_found++] = (section_t){.offset = offset, .size = size};
    }
    if (n_found != N_REQUIRED) {
        return bad_section(error, (const uint8_t *)required_types[n_found], "type: the section is missing", 0, 0);
    }
    return LLM_OK;
}

// ---------------------------------------------------------------------------- CONF

static llm_status_t read_range(uint32_t *value, const uint8_t *p, uint32_t max, const char *what, llm_error_t *error) {
    *value = read_u32(p);
    if (*value < 1 || *value > max) {
        return bad(error, what, *value, max);
    }
    return LLM_OK;
}

static llm_status_t read_config(llm_config_t *config, const section_t *section, llm_error_t *error) {
    const uint8_t *p = section->data;
    if (section->size != CONFIG_SIZE) {
        return bad(error, "section CONF: size: is {}, must be {}", section->size, CONFIG_SIZE);
    }
    llm_status_t status;
    if ((status = read_range(&config->vocab_size, p, MAX_VOCAB, "vocab_size: is {}, must be 1 to {}", error)) != LLM_OK
        || (status = read_range(&config->dim, p + 4, MAX_WIDTH, "dim: is {}, must be 1 to {}", error)) != LLM_OK
        || (status = read_range(&config->hidden_dim, p + 8, MAX_WIDTH, "hidden_dim: is {}, must be 1 to {}", error)) != LLM_OK
        || (status = read_range(&config->n_layers, p + 12, MAX_LAYERS, "n_layers: is {}, must be 1 to {}", error)) != LLM_OK
        || (status = read_range(&config->n_heads, p + 16, MAX_HEADS, "n_heads: is {}, must be 1 to {}", error)) != LLM_OK
        || (status = read_range(&config->n_kv_heads, p + 20, MAX_HEADS, "n_kv_heads: is {}, must be 1 to {}", error)) != LLM_OK
        || (status = read_range(&config->head_dim, p + 24, MAX_HEAD_DIM, "head_dim: is {}, must be 2 to {}", error)) != LLM_OK
        || (status = read_range(&config->context, p + 28, MAX_CONTEXT, "context: is {}, must be 1 to {}", error)) != LLM_OK) {
        return status;
    }
    if (config->n_heads % config->n_kv_heads != 0) {
        return bad(error, "n_kv_heads: {} does not divide n_heads {}", config->n_kv_heads, config->n_heads);
    }
    if (config->head_dim % 2 != 0) {
        return bad(error, "head_dim: {} is odd", config->head_dim, 0);
    }
    if (config->n_heads * config->head_dim > MAX_WIDTH) {
        return bad(error, "head_dim: {} heads of {} are too wide", config->n_heads, config->head_dim);
    }
    config->norm_eps = read_f32(p + 32);
    if (!(config->norm_eps > 0.0f && config->norm_eps <= 1.0f)) {
        return bad(error, "norm_eps: must be above 0 and at most 1", 0, 0);
    }
    config->rope_theta = read_f32(p + 36);
    if (!(config->rope_theta > 0.0f && config->rope_theta <= FLT_MAX)) {
        return bad(error, "rope_theta: must be above 0 and finite", 0, 0);
    }
    if (p[40] != 1) {
        return bad(error, "norm: kind {} needs a later version of this firmware", p[40], 0);
    }
    if (p[41] != 1) {
        return bad(error, "activation: kind {} needs a later version of this firmware", p[41], 0);
    }
    if (p[42] != 1) {
        return bad(error, "ffn: kind {} needs a later version of this firmware", p[42], 0);
    }
    if (p[43] != LLM_ROPE_NEIGHBOURS && p[43] != LLM_ROPE_HALVES) {
        return bad(error, "rope: kind {} needs a later version of this firmware", p[43], 0);
    }
    config->rope = (llm_rope_t)p[43];
    uint32_t flags = read_u32(p + 44);
    if (flags > 1) {
        return bad(error, "section CONF: flags: {} needs a later version of this firmware", flags, 0);
    }
    config->tied = flags == 1;
    if (!all_zero(p + 48, CONFIG_SIZE - 48)) {
        return bad(error, "section CONF: reserved bytes are not zero (a later version's?)", 0, 0);
    }
    return LLM_OK;
}

// ---------------------------------------------------------------------------- TOKN

// Bounds `count` elements of `width` bytes at the offset in `field` within the section.
static const void *table(const section_t *section, size_t field, uint64_t count, uint32_t width) {
    uint32_t offset = read_u32(section->data + field);
    if (offset % width != 0 || offset + count * width > section->size) {
        return NULL;
    }
    return section->data + offset;
}

static llm_status_t read_special_id(int32_t *id, const uint8_t *p, uint32_t n_tokens, const char *what, llm_error_t *error) {
    uint32_t value = read_u32(p);
    if (value != 0xFFFFFFFF && value >= n_tokens) {
        return bad(error, what, value, n_tokens);
    }
    *id = value == 0xFFFFFFFF ? -1 : (int32_t)value;
    return LLM_OK;
}

// Bits of the tokenizer's flags.
enum {
    ADD_BOS = 1,
    ADD_SPACE_PREFIX = 2,
    BYTE_FALLBACK = 4,
    CUT_AT_SPACES = 8,
    IGNORE_MERGES = 16,
    LOWERCASE = 32,
    STRIP_ACCENTS = 64,
    SENTENCEPIECE_FLAGS = ADD_BOS | ADD_SPACE_PREFIX | BYTE_FALLBACK | CUT_AT_SPACES,
    BPE_FLAGS = ADD_BOS | IGNORE_MERGES,
    WORDPIECE_FLAGS = ADD_BOS | ADD_SPACE_PREFIX | LOWERCASE | STRIP_ACCENTS,
};

// Which of them a kind of tokenizer has, by kind.
static const uint8_t flags_of_kind[] = {0, SENTENCEPIECE_FLAGS, BPE_FLAGS, WORDPIECE_FLAGS};

// What only byte-level BPE has.
static llm_status_t read_bpe(llm_tokenizer_t *t, const section_t *section, llm_error_t *error) {
    const uint8_t *p = section->data;
    if (section->size < BPE_SIZE) {
        return bad(error, "section TOKN: size: is {}, must be at least {}", section->size, BPE_SIZE);
    }
    uint32_t split = read_u32(p + 64);
    if (split < LLM_SPLIT_GPT2 || split > LLM_SPLIT_SMOLLM) {
        return bad(error, "split: pattern {} needs a later version of this firmware", split, 0);
    }
    t->split = (llm_split_t)split;
    if (read_u32(p + 80) > 1) {
        return bad(error, "normalizer: {} needs a later version of this firmware", read_u32(p + 80), 0);
    }
    t->normalize = read_u32(p + 80) == 1;
    if (!LLM_WITH_NFC && t->normalize) {
        return bad(error, "normalizer: form C is left out of this firmware", 0, 0);
    }
    if (t->normalize) {
        t->tokens_per_byte = 3; // U+1D160 has 4 bytes and becomes 12
    }
    if (!all_zero(p + 84, BPE_SIZE - 84)) {
        return bad(error, "section TOKN: reserved bytes are not zero (a later version's?)", 0, 0);
    }
    t->n_merges = read_u32(p + 72);
    if ((t->merges = table(section, 68, t->n_merges, 8)) == NULL) {
        return bad(error, "merges: {} at {} leave the section TOKN, or that is no multiple of 8", t->n_merges, read_u32(p + 68));
    }
    if ((t->merge_starts = table(section, 76, (uint64_t)t->n_tokens + 1, 4)) == NULL) {
        return bad(error, "merge_starts: {} is no multiple of 4 or leaves the section TOKN", read_u32(p + 76), 0);
    }
    return LLM_OK;
}

static llm_status_t read_tokenizer(llm_tokenizer_t *t, const section_t *section, uint32_t vocab_size, llm_error_t *error) {
    const uint8_t *p = section->data;
    if (section->size < TOKENIZER_SIZE) {
        return bad(error, "section TOKN: size: is {}, must be at least {}", section->size, TOKENIZER_SIZE);
    }
    if (read_u32(p) < LLM_TOKENIZER_SENTENCEPIECE || read_u32(p) > LLM_TOKENIZER_WORDPIECE) {
        return bad(error, "section TOKN: kind: {} needs a later version of this firmware", read_u32(p), 0);
    }
    if ((!LLM_WITH_BPE && read_u32(p) == LLM_TOKENIZER_BPE) || (!LLM_WITH_WORDPIECE && read_u32(p) == LLM_TOKENIZER_WORDPIECE)) {
        return bad(error, "section TOKN: kind: {} is left out of this firmware", read_u32(p), 0);
    }
    t->kind = (llm_tokenizer_kind_t)read_u32(p);
    t->size = section->size;
    t->tokens_per_byte = 1;
    t->n_tokens = read_u32(p + 4);
    if (t->n_tokens != vocab_size) {
        return bad(error, "n_tokens: the tokenizer has {} tokens but vocab_size is {}", t->n_tokens, vocab_size);
    }
    llm_status_t status;
    if ((status = read_special_id(&t->bos_id, p + 8, vocab_size, "bos_id: {} is not below vocab_size {}", error)) != LLM_OK
        || (status = read_special_id(&t->eos_id, p + 12, vocab_size, "eos_id: {} is not below vocab_size {}", error)) != LLM_OK
        || (status = read_special_id(&t->unk_id, p + 16, vocab_size, "unk_id: {} is not below vocab_size {}", error)) != LLM_OK) {
        return status;
    }
    uint32_t flags = read_u32(p + 20);
    if ((flags & ~(uint32_t)flags_of_kind[t->kind]) != 0) {
        return bad(error, "section TOKN: flags: {} needs a later version of this firmware", flags, 0);
    }
    t->add_bos = (flags & ADD_BOS) != 0;
    t->add_space_prefix = (flags & ADD_SPACE_PREFIX) != 0;
    t->byte_fallback = (flags & BYTE_FALLBACK) != 0;
    t->cut_at_spaces = (flags & CUT_AT_SPACES) != 0;
    t->ignore_merges = (flags & IGNORE_MERGES) != 0;
    t->lowercase = (flags & LOWERCASE) != 0;
    t->strip_accents = (flags & STRIP_ACCENTS) != 0;
    t->pieces_size = read_u32(p + 28);
    t->n_sorted = read_u32(p + 48);
    if (t->n_sorted > t->n_tokens) {
        return bad(error, "n_sorted: {} is above n_tokens {}", t->n_sorted, t->n_tokens);
    }
    if ((t->pieces = table(section, 24, t->pieces_size, 1)) == NULL) {
        return bad(error, "pieces: {} bytes at {} leave the section TOKN", t->pieces_size, read_u32(p + 24));
    }
    if ((t->piece_offsets = table(section, 32, (uint64_t)t->n_tokens + 1, 4)) == NULL) {
        return bad(error, "piece_offsets: {} is no multiple of 4 or leaves the section TOKN", read_u32(p + 32), 0);
    }
    if ((t->types = table(section, 40, t->n_tokens, 1)) == NULL) {
        return bad(error, "types: {} leaves the section TOKN", read_u32(p + 40), 0);
    }
    if ((t->sorted = table(section, 44, t->n_sorted, 4)) == NULL) {
        return bad(error, "sorted: {} is no multiple of 4 or leaves the section TOKN", read_u32(p + 44), 0);
    }
    if ((t->byte_ids = table(section, 52, 256, 4)) == NULL) {
        return bad(error, "byte_ids: {} is no multiple of 4 or leaves the section TOKN", read_u32(p + 52), 0);
    }
    t->n_specials = read_u32(p + 60);
    if (t->n_specials > t->n_tokens) {
        return bad(error, "n_specials: {} is above n_tokens {}", t->n_specials, t->n_tokens);
    }
    if ((t->specials = table(section, 56, t->n_specials, 4)) == NULL) {
        return bad(error, "specials: {} is no multiple of 4 or leaves the section TOKN", read_u32(p + 56), 0);
    }
    if (t->kind != LLM_TOKENIZER_SENTENCEPIECE && read_u32(p + 36) != 0) {
        return bad(error, "ranks: is {}, must be 0 for tokenizers of kind {}", read_u32(p + 36), t->kind);
    }
    if (t->kind == LLM_TOKENIZER_BPE) {
        return read_bpe(t, section, error);
    }
    if (t->kind == LLM_TOKENIZER_WORDPIECE) {
        return LLM_OK;
    }
    if ((t->ranks = table(section, 36, t->n_tokens, 4)) == NULL) {
        return bad(error, "ranks: {} is no multiple of 4 or leaves the section TOKN", read_u32(p + 36), 0);
    }
    return LLM_OK;
}

// ---------------------------------------------------------------------------- TDIR

// What the directory must hold: role, dtype class and shape, in the order of the format.
typedef struct {
    uint32_t role; // llm_role_t
    const char *name; // for messages
    uint32_t rows; // outputs
    uint32_t cols; // inputs
    llm_dtype_t dtype; // LLM_F32 or LLM_U32, or LLM_INT8 for any type of matrix
} shape_t;

static void layer_shapes(const llm_config_t *c, shape_t shapes[LLM_TENSORS_PER_LAYER]) {
    uint32_t q_dim = c->n_heads * c->head_dim;
    uint32_t kv_dim = c->n_kv_heads * c->head_dim;
    const shape_t all[LLM_TENSORS_PER_LAYER] = {
        {LLM_ATTN_NORM, "attn_norm", 1, c->dim, LLM_F32},
        {LLM_ATTN_Q, "attn_q", q_dim, c->dim, LLM_INT8},
        {LLM_ATTN_K, "attn_k", kv_dim, c->dim, LLM_INT8},
        {LLM_ATTN_V, "attn_v", kv_dim, c->dim, LLM_INT8},
        {LLM_ATTN_OUTPUT, "attn_output", c->dim, q_dim, LLM_INT8},
        {LLM_FFN_NORM, "ffn_norm", 1, c->dim, LLM_F32},
        {LLM_FFN_GATE, "ffn_gate", c->hidden_dim, c->dim, LLM_INT8},
        {LLM_FFN_UP, "ffn_up", c->hidden_dim, c->dim, LLM_INT8},
        {LLM_FFN_DOWN, "ffn_down", c->dim, c->hidden_dim, LLM_INT8},
    };
    memcpy(shapes, all, sizeof(all));
}

// Returns how many of the four there are.
static uint32_t model_shapes(const llm_config_t *c, shape_t shapes[4]) {
    uint32_t n = 0;
    shapes[n++] = (shape_t){LLM_TOKEN_EMBD, "token_embd", c->vocab_size, c->dim, LLM_INT8};
    shapes[n++] = (shape_t){LLM_OUTPUT_NORM, "output_norm", 1, c->dim, LLM_F32};
    if (!c->tied) {
        shapes[n++] = (shape_t){LLM_OUTPUT, "output", c->vocab_size, c->dim, LLM_INT8};
    }
    shapes[n++] = (shape_t){LLM_ROPE_PHASE, "rope_phase", 1, c->head_dim / 2, LLM_U32};
    return n;
}

static bool leaves(uint32_t offset, uint64_t size, uint64_t limit) {
    return offset % 64 != 0 || offset + size > limit;
}

// Checks one entry; `what` is what is wrong with it, NULL if nothing is.
static const char *check_tensor(const uint8_t *entry, const shape_t *shape, uint32_t layer, uint32_t data_size) {
    if (read_u16(entry) != shape->role || read_u16(entry + 2) != layer) {
        return "role or layer: missing or out of order";
    }
    uint32_t dtype = entry[4];
    bool matrix = shape->dtype == LLM_INT8;
    bool quantized = dtype == LLM_INT8 || dtype == LLM_INT4;
    if (matrix ? !(quantized || dtype == LLM_F32) : dtype != (uint32_t)shape->dtype) {
        return "dtype: not one that this tensor can have";
    }
    if (entry[5] != 0 || read_u32(entry + 28) != 0) {
        return "reserved bytes are not zero";
    }
    if (read_u16(entry + 6) != (quantized ? LLM_GROUP : 0)) {
        return "group_size: must be 32 for int8 and int4, else 0";
    }
    if (read_u32(entry + 8) != shape->rows || read_u32(entry + 12) != shape->cols) {
        return "rows or cols: not the shape that the configuration gives";
    }
    uint32_t scales = read_u32(entry + 20);
    uint32_t row_scales = read_u32(entry + 24);
    if (quantized) {
        uint64_t rows = (uint64_t)llm_n_tiles(shape->rows) * LLM_TILE;
        uint64_t blocks = rows * llm_n_groups(shape->cols);
        if (leaves(read_u32(entry + 16), blocks * (dtype == LLM_INT4 ? 16 : 32), data_size)) {
            return "data: not a multiple of 64 or past the end of the section DATA";
        }
        if (leaves(scales, blocks, data_size)) {
            return "scales: not a multiple of 64 or past the end of the section DATA";
        }
        if (leaves(row_scales, rows * 4, data_size)) {
            return "row_scales: not a multiple of 64 or past the end of the section DATA";
        }
    } else {
        if (leaves(read_u32(entry + 16), (uint64_t)shape->rows * shape->cols * 4, data_size)) {
            return "data: not a multiple of 64 or past the end of the section DATA";
        }
        if (scales != 0 || row_scales != 0) {
            return "scales or row_scales: must be 0 for f32 and u32";
        }
    }
    return NULL;
}

static llm_status_t bad_tensor(llm_error_t *error, const shape_t *shape, uint32_t layer, const char *what) {
    char name[LLM_MESSAGE_SIZE];
    char place[LLM_MESSAGE_SIZE];
    char text[LLM_MESSAGE_SIZE];
    join(name, "tensor ", shape->name);
    join(place, name, layer == LLM_WHOLE_MODEL ? ": " : " of layer {}: ");
    join(text, place, what);
    return bad(error, text, layer, 0);
}

static llm_status_t check_directory(llm_image_t *image, const section_t *section, llm_error_t *error) {
    shape_t shapes[LLM_TENSORS_PER_LAYER];
    uint32_t n_whole = model_shapes(&image->config, shapes);
    uint32_t n_tensors = image->config.n_layers * LLM_TENSORS_PER_LAYER + n_whole;
    if (section->size != n_tensors * TENSOR_SIZE) {
        return bad(error, "section TDIR: size: is {}, the configuration needs {}", section->size, n_tensors * TENSOR_SIZE);
    }
    image->directory = section->data;
    image->n_tensors = n_tensors;
    const uint8_t *entry = section->data;
    layer_shapes(&image->config, shapes);
    for (uint32_t layer = 0; layer < image->config.n_layers; layer++) {
        for (uint32_t i = 0; i < LLM_TENSORS_PER_LAYER; i++, entry += TENSOR_SIZE) {
            const char *what = check_tensor(entry, &shapes[i], layer, image->tensor_data_size);
            if (what != NULL) {
                return bad_tensor(error, &shapes[i], layer, what);
            }
        }
    }
    model_shapes(&image->config, shapes);
    for (uint32_t i = 0; i < n_whole; i++, entry += TENSOR_SIZE) {
        const char *what = check_tensor(entry, &shapes[i], LLM_WHOLE_MODEL, image->tensor_data_size);
        if (what != NULL) {
            return bad_tensor(error, &shapes[i], LLM_WHOLE_MODEL, what);
        }
    }
    return LLM_OK;
}

uint32_t llm_image_matrix(const llm_image_t *image, uint32_t i) {
    static const uint8_t entries[LLM_MATRICES_PER_LAYER] = {1, 2, 3, 4, 6, 7, 8};
    uint32_t layer = i / LLM_MATRICES_PER_LAYER;
    if (layer < image->config.n_layers) {
        return layer * LLM_TENSORS_PER_LAYER + entries[i % LLM_MATRICES_PER_LAYER];
    }
    return llm_image_embedding(image) + (image->config.tied ? 0 : 2);
}

uint32_t llm_image_embedding(const llm_image_t *image) {
    return image->config.n_layers * LLM_TENSORS_PER_LAYER;
}

llm_planes_t llm_image_planes(const llm_image_t *image, uint32_t i) {
    const uint8_t *entry = image->directory + i * TENSOR_SIZE;
    uint64_t first = image->tensor_data_offset;
    return (llm_planes_t){.data = first + read_u32(entry + 16), .scales = first + read_u32(entry + 20), .row_scales = first + read_u32(entry + 24)};
}

// Where the vectors lie that were read from a source: in the order of the directory, without gaps. NULL if entry `i` is a matrix.
static const void *resident_vector(const llm_image_t *image, uint32_t i) {
    const llm_config_t *c = &image->config;
    uint32_t layer = i / LLM_TENSORS_PER_LAYER;
    uint32_t place = i % LLM_TENSORS_PER_LAYER;
    uint32_t n; // vectors before it
    if (layer < c->n_layers) {
        if (place != 0 && place != 5) {
            return NULL;
        }
        n = 2 * layer + (place == 5);
    } else if (place == 1) {
        n = 2 * c->n_layers;
    } else if (i == image->n_tensors - 1) {
        n = 2 * c->n_layers + 1;
    } else {
        return NULL;
    }
    return image->tensor_data + (size_t)n * c->dim * sizeof(float);
}

llm_tensor_t llm_image_tensor(const llm_image_t *image, uint32_t i) {
    const uint8_t *entry = image->directory + i * TENSOR_SIZE;
    llm_tensor_t tensor = {
        .rows = read_u32(entry + 8),
        .cols = read_u32(entry + 12),
        .dtype = (llm_dtype_t)entry[4],
    };
    if (image->source != NULL) {
        tensor.data = resident_vector(image, i);
        return tensor;
    }
    tensor.data = image->tensor_data + read_u32(entry + 16);
    if (tensor.dtype == LLM_INT8 || tensor.dtype == LLM_INT4) {
        tensor.scales = (const int8_t *)(image->tensor_data + read_u32(entry + 20));
        tensor.row_scales = (const float *)(const void *)(image->tensor_data + read_u32(entry + 24));
    }
    return tensor;
}

// ---------------------------------------------------------------------------- the whole

static llm_status_t check_hash(const section_t *section, llm_error_t *error) {
    if (section->size != HASH_SIZE) {
        return bad(error, "section HASH: size: is {}, must be {}", section->size, HASH_SIZE);
    }
    return LLM_OK;
}

// Reads and checks sections that are all in memory, but for DATA, of which only the size is looked at.
static llm_status_t read_sections(llm_image_t *image, const section_t sections[N_REQUIRED], llm_error_t *error) {
    image->tensor_data_offset = sections[DATA].offset;
    image->tensor_data_size = sections[DATA].size;
    image->card = (const char *)sections[CARD].data;
    image->card_size = sections[CARD].size;
    image->hash = sections[HASH].data;
    llm_status_t status;
    if ((status = check_hash(&sections[HASH], error)) != LLM_OK
        || (status = read_config(&image->config, &sections[CONF], error)) != LLM_OK
        || (status = read_tokenizer(&image->tokenizer, &sections[TOKN], image->config.vocab_size, error)) != LLM_OK) {
        return status;
    }
    return check_directory(image, &sections[TDIR], error);
}

llm_status_t llm_image_open(llm_image_t *image, const void *data, size_t size, bool verify, llm_error_t *error) {
    if ((uintptr_t)data % LLM_ALIGNMENT != 0) {
        return bad(error, "data: the image begins at an address that is not a multiple of {} (pack it with 'edge-llm pack')", LLM_ALIGNMENT, 0);
    }
    section_t sections[N_REQUIRED];
    llm_status_t status;
    if ((status = check_header(data, size, error)) != LLM_OK
        || (status = find_sections(data, sections, error)) != LLM_OK) {
        return status;
    }
    memset(image, 0, sizeof(*image));
    image->data = data;
    image->size = read_u32(image->data + 12);
    if (verify && (status = llm_image_verify(image, NULL, 0, error)) != LLM_OK) {
        return status;
    }
    for (uint32_t i = 0; i < N_REQUIRED; i++) {
        sections[i].data = image->data + sections[i].offset;
    }
    image->tensor_data = sections[DATA].data;
    return read_sections(image, sections, error);
}

// ---------------------------------------------------------------------------- from a source

static llm_status_t read_source(const llm_source_t *source, uint64_t offset, void *data, size_t size, llm_error_t *error) {
    if (!source->read(source->context, offset, data, size)) {
        return llm_fail(error, LLM_ERROR_STORAGE, "image: {} bytes at {} cannot be read", size, offset);
    }
    return LLM_OK;
}

// Reads header and section table to `head`, of MAX_HEAD_SIZE bytes, and checks them.
static llm_status_t read_head(const llm_source_t *source, uint64_t size, uint8_t *head, section_t sections[N_REQUIRED], llm_error_t *error) {
    size_t there = size < MAX_HEAD_SIZE ? (size_t)size : MAX_HEAD_SIZE;
    llm_status_t status;
    if ((status = read_source(source, 0, head, there, error)) != LLM_OK
        || (status = check_header(head, size < SIZE_MAX ? (size_t)size : SIZE_MAX, error)) != LLM_OK) {
        return status;
    }
    return find_sections(head, sections, error);
}

// Bytes of RAM that all but the matrices take: what read_head read, the sections, the vectors.
static uint64_t resident_size(const section_t sections[N_REQUIRED], const llm_config_t *c) {
    uint64_t size = llm_align(MAX_HEAD_SIZE);
    for (uint32_t i = 0; i < N_REQUIRED; i++) {
        size += i == DATA ? 0 : llm_align(sections[i].size);
    }
    return size + llm_align(((2 * (uint64_t)c->n_layers + 1) * c->dim + c->head_dim / 2) * sizeof(float));
}

// Reads section CONF to `memory`, of CONFIG_SIZE bytes, and what it says; and checks the sizes that have no limit of their own.
static llm_status_t read_sizes(const llm_source_t *source, const section_t sections[N_REQUIRED], uint8_t *memory, llm_config_t *config, llm_error_t *error) {
    section_t conf = sections[CONF];
    llm_status_t status = check_hash(&sections[HASH], error);
    if (status == LLM_OK && conf.size == CONFIG_SIZE) {
        status = read_source(source, conf.offset, memory, CONFIG_SIZE, error);
        conf.data = memory;
    }
    return status == LLM_OK ? read_config(config, &conf, error) : status;
}

llm_status_t llm_image_resident(const llm_source_t *source, uint64_t size, size_t *resident, llm_error_t *error) {
    uint8_t head[MAX_HEAD_SIZE];
    section_t sections[N_REQUIRED];
    llm_config_t config;
    llm_status_t status;
    if ((status = read_head(source, size, head, sections, error)) != LLM_OK
        || (status = read_sizes(source, sections, head, &config, error)) != LLM_OK) {
        return status;
    }
    uint64_t needed = resident_size(sections, &config);
    if (needed > SIZE_MAX / 2) {
        return llm_fail(error, LLM_ERROR_MEMORY, "the image's tables need {} bytes of RAM, more than can be addressed", needed, 0);
    }
    *resident = (size_t)needed;
    return LLM_OK;
}

// Reads the vectors to `memory`, which becomes image->tensor_data.
static llm_status_t read_vectors(llm_image_t *image, uint8_t *memory, llm_error_t *error) {
    image->tensor_data = memory;
    for (uint32_t i = 0; i < image->n_tensors; i++) {
        llm_tensor_t vector = llm_image_tensor(image, i);
        if (vector.data != NULL) {
            uint8_t *to = memory + ((const uint8_t *)vector.data - memory);
            llm_status_t status = read_source(image->source, llm_image_planes(image, i).data, to, vector.cols * sizeof(float), error);
            if (status != LLM_OK) {
                return status;
            }
        }
    }
    return LLM_OK;
}

llm_status_t llm_image_open_source(llm_image_t *image, const llm_source_t *source, uint64_t size, bool verify, void *ram, size_t ram_size, llm_error_t *error) {
    if ((uintptr_t)ram % LLM_ALIGNMENT != 0) {
        return llm_fail(error, LLM_ERROR_VALUE, "ram: must begin at a multiple of {}", LLM_ALIGNMENT, 0);
    }
    uint8_t *free = ram;
    section_t sections[N_REQUIRED];
    llm_config_t config;
    llm_status_t status;
    // What is in memory decides, whatever llm_image_resident has seen before.
    uint64_t needed = MAX_HEAD_SIZE + CONFIG_SIZE;
    if (ram_size >= needed) {
        if ((status = read_head(source, size, free, sections, error)) != LLM_OK
            || (status = read_sizes(source, sections, free + MAX_HEAD_SIZE, &config, error)) != LLM_OK) {
            return status;
        }
        needed = resident_size(sections, &config);
    }
    if (ram_size < needed) {
        return llm_fail(error, LLM_ERROR_MEMORY, "the image's tables need {} bytes of RAM, {} are given", needed, ram_size);
    }
    memset(image, 0, sizeof(*image));
    image->data = free;
    image->size = read_u32(image->data + 12);
    image->source = source;
    free += llm_align(MAX_HEAD_SIZE);
    if (verify && (status = llm_image_verify(image, free, ram_size - (size_t)llm_align(MAX_HEAD_SIZE), error)) != LLM_OK) {
        return status;
    }
    for (uint32_t i = 0; i < N_REQUIRED; i++) {
        if (i != DATA) {
            if ((status = read_source(source, sections[i].offset, free, sections[i].size, error)) != LLM_OK) {
                return status;
            }
            sections[i].data = free;
            free += llm_align(sections[i].size);
        }
    }
    status = read_sections(image, sections, error);
    if (status == LLM_OK && resident_size(sections, &image->config) != needed) {
        status = bad(error, "section CONF: changes while it is read", 0, 0);
    }
    return status == LLM_OK ? read_vectors(image, free, error) : status;
}

// ---------------------------------------------------------------------------- verification

// The CRC of `size` bytes at `offset`, wherever they are.
static llm_status_t crc_of(const llm_image_t *image, uint32_t offset, uint32_t size, void *scratch, size_t scratch_size, uint32_t *crc, llm_error_t *error) {
    *crc = 0;
    if (image->source == NULL) {
        *crc = llm_crc32c(0, image->data + offset, size);
        return LLM_OK;
    }
    while (size > 0) {
        uint32_t n = size < scratch_size ? size : (uint32_t)scratch_size;
        llm_status_t status = read_source(image->source, offset, scratch, n, error);
        if (status != LLM_OK) {
            return status;
        }
        *crc = llm_crc32c(*crc, scratch, n);
        offset += n;
        size -= n;
    }
    return LLM_OK;
}

llm_status_t llm_image_verify(const llm_image_t *image, void *scratch, size_t scratch_size, llm_error_t *error) {
    // The image may have changed since it was opened: that is what this is called to find out.
    section_t sections[N_REQUIRED];
    llm_status_t status;
    const uint8_t *head = image->data;
    uint32_t n_sections = read_u32(head + 16);
    if (image->source == NULL) {
        if ((status = check_header(head, image->size, error)) != LLM_OK) {
            return status;
        }
    } else {
        if ((status = read_head(image->source, image->size, scratch, sections, error)) != LLM_OK) {
            return status;
        }
        if (memcmp(scratch, head, HEADER_SIZE + n_sections * SECTION_SIZE) != 0) {
            return bad(error, "header: it is not the image that was opened", 0, 0);
        }
    }
    if ((status = find_sections(head, sections, error)) != LLM_OK) {
        return status;
    }
    n_sections = read_u32(head + 16);
    for (uint32_t i = 0; i < n_sections; i++) {
        const uint8_t *entry = head + HEADER_SIZE + i * SECTION_SIZE;
        uint32_t crc = 0;
        if (memcmp(entry, required_types[HASH], 4) != 0) {
            status = crc_of(image, read_u32(entry + 4), read_u32(entry + 8), scratch, scratch_size, &crc, error);
            if (status != LLM_OK) {
                return status;
            }
        }
        if (crc != read_u32(entry + 12)) {
            return bad_section(error, entry, "crc: the image is damaged (copy it again)", 0, 0);
        }
    }
    return LLM_OK;
}
