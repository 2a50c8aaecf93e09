// The cache of keys and values: a pool of equal units, pages in it, and sequences of tokens that hold pages.
//
// A page holds the keys and values of `page` positions, all layers and KV heads. It takes two units (keys, values) as it is
// computed and one once it is compressed to 4 bits. Units are alike, so nothing can fragment; taking and giving one back is a
// step on a list. Pages are shared between sequences and copied when one of them writes (fork). A static cache is the same with one
// page of the whole context a sequence.
//
// llm.h includes this; its functions are the engine's own, the tests' and nobody else's.
#ifndef LLM_CACHE_H
#define LLM_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LLM_PAGE 64 // positions of a page, unless the cache is static
#define LLM_SINKS 4 // first tokens that stay when the window slides (Xiao et al., 2023); fewer in contexts below 8
#define LLM_NONE 65535 // no unit, no page, no row
#define LLM_REGIONS 2 // RAM, and the slower region that pages spill to

typedef enum {
    LLM_IO_OK = 0, // all bytes were read or written
    LLM_IO_END, // there are fewer to be read
    LLM_IO_FAILED, // the storage failed
} llm_io_t;

// Reads and writes a file or block device. The functions may also not return at all (a Python exception): the cache is then as if
// the call that needed them had not begun.
typedef struct {
    void *context; // the first argument
    llm_io_t (*read)(void *context, uint64_t offset, void *data, size_t size);
    llm_io_t (*write)(void *context, uint64_t offset, const void *data, size_t size);
} llm_store_t;

typedef enum {
    LLM_PAGE_FREE = 0, // nobody holds it
    LLM_PAGE_FULL, // keys and values as they were computed: int8, or f32
    LLM_PAGE_INT4, // both in the unit of the keys
} llm_page_kind_t;

typedef struct {
    uint16_t keys; // unit of the keys; of a free page the next free one
    uint16_t values; // unit of the values, LLM_NONE if compressed
    uint16_t refs; // sequences that hold it
    uint16_t kind; // llm_page_kind_t
} llm_page_t;

// Tokens, and the pages of their keys and values. Token i of a paged cache lies in page i / LLM_PAGE; when the window has slid,
// the first `sinks` tokens are still there and those from `first` on.
typedef struct {
    uint32_t n_tokens; // evaluated since the start: position of the next one
    uint32_t n_valid; // of these, have keys and values; the others are evaluated again before the next
    uint32_t first; // oldest token after the sinks that is still there
    uint32_t n_pages; // pages taken since the start
    uint16_t *pages; // [table] page 0 first, the others in turn
    void *tokens; // [context] ids, uint16_t or uint32_t: the sinks, the others in turn
    uint16_t row; // of the logits, LLM_NONE if there are none of its last token
    bool open; // in use
} llm_sequence_t;

// The cache of one model. Fields up to `sequences` are set by who makes it, the others by llm_kv_clear.
typedef struct {
    uint32_t context; // positions that a token sees at most, itself included
    uint32_t sinks; // of these, the first ones
    uint32_t page; // positions of a page
    uint32_t head_dim; // elements of a key or value
    uint32_t n_parts; // n_layers * n_kv_heads: a unit has one part for each
    uint32_t part; // bytes of one: rows [page][head_dim] int8 or float, then scales [page] bfloat16 if int8
    uint32_t part4; // bytes of one of a compressed page: keys [page][head_dim] and values in 4 bits, scales of values [page] and of
                    // the keys' channels [head_dim], bfloat16
    size_t unit_size; // bytes
    bool paged; // a sequence has as many pages as it needs, not one of the whole context
    bool wide; // ids are uint32_t, since the vocabulary is larger than 65536
    bool f32; // rows are float
    bool int4; // pages are compressed once they are full
    bool compresses; // pages are compressed when the pool runs low
    uint8_t *memory[LLM_REGIONS]; // of the units, in RAM and in the slower region: NULL if that is a store
    uint32_t n_units[LLM_REGIONS]; // at most 65534 together
    llm_store_t store; // what the slower region is kept in if not in memory
    uint16_t *links; // [n_units[0] + n_units[1]] of a free unit the next free one
    llm_page_t *pages; // [n_pages]
    uint32_t n_pages; // n_sequences * table, at most 65534
    uint32_t table; // pages of a sequence
    uint32_t n_sequences; // the first is the main one
    llm_sequence_t *sequences; // [n_sequences]
    void *scratch; // LLM_KV_SCRATCH bytes, used within a call only

    uint32_t n_free[LLM_REGIONS]; // free units
    uint16_t free[LLM_REGIONS]; // the first of them
    uint16_t free_page; // the first free page
    uint32_t slid; // tokens that fell out of a window since it was asked
    uint32_t compressed; // pages compressed for want of room, the same
    uint32_t spilled; // pages moved to the slower region, the same
} llm_kv_t;

// Rows of one part, their scales twice, and the scales of its channels.
#define LLM_KV_SCRATCH(page, head_dim) (((size_t)(page) * ((head_dim) + 4) + 2 * (head_dim) + 15) & ~(size_t)15)

// Forgets everything: all units free, only the main sequence open.
void llm_kv_clear(llm_kv_t *kv);

// Takes a free unit of `region`, LLM_NONE if there is none; gives one back.
uint32_t llm_kv_take(llm_kv_t *kv, uint32_t region);
void llm_kv_give(llm_kv_t *kv, uint32_t unit);

// Makes room for `n` more tokens of a sequence after its n_valid: pages of its own, taken, copied, or freed by moving, compressing or
// letting go others. In a paged cache the tokens must end within one page. False if the pool is exhausted or a store failed
// (`*failed`); pages may then have moved, but no token has lost its keys and values.
bool llm_kv_reserve(llm_kv_t *kv, llm_sequence_t *s, uint32_t n, bool *failed);

// After tokens were added: compresses the page that they filled if all are.
void llm_kv_settle(llm_kv_t *kv, llm_sequence_t *s);

// Keeps the first `n` tokens. Where keys and values are lost with the rest (compressed pages), n_valid is less and the tokens
// are evaluated again. False if `n` tokens are not there: they have fallen out.
bool llm_kv_rewind(llm_kv_t *kv, llm_sequence_t *s, uint32_t n);

// Makes `s`, which is empty, a copy of `from` that shares its pages.
void llm_kv_fork(llm_kv_t *kv, llm_sequence_t *s, const llm_sequence_t *from);

// Where token `i` of a sequence lies: its page (index into kv->pages) and `*slot`, its position in there.
uint32_t llm_kv_page(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t i, uint32_t *slot);

// The id of token `i` of a sequence; sets it.
uint32_t llm_kv_id(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t i);
void llm_kv_set_id(const llm_kv_t *kv, llm_sequence_t *s, uint32_t i, uint32_t id);

// One part of a page, as the kernels read it; in place if that can be, else in the scratch, until the next call.
typedef struct {
    const void *rows; // [page][head_dim] keys or values, int8 or float
    const uint16_t *k_scale; // [page] bfloat16; keys only, NULL if f32
    const uint16_t *v_scale; // [page]; always, NULL if f32
    const uint16_t *channels; // [head_dim] bfloat16 that each key's elements are to be multiplied by, NULL if there are none
} llm_view_t;

// Shows the keys or `values` of part `part` of a page. False if the store failed.
bool llm_kv_view(llm_kv_t *kv, uint32_t page, uint32_t part, bool values, llm_view_t *view);

// The bytes of part `part` of a compressed page: in place, or read into the scratch. NULL if the store failed.
void *llm_kv_part4(const llm_kv_t *kv, uint32_t page, uint32_t part);

// Makes the page of token `i`, which is in RAM and not shared, a compressed one without contents.
void llm_kv_halve(llm_kv_t *kv, const llm_sequence_t *s, uint32_t i);

// The keys or values of part `part` of a page that is being written: always in RAM and as computed.
void *llm_kv_rows(const llm_kv_t *kv, uint32_t page, uint32_t part, bool values);

#endif
