// The cache: its pool of units, pages, sequences, and 4-bit pages.
#include "cache.h"

#include <string.h>

#include "../kernels/numeric.h"

#define PRESSURE_PERCENT 85 // of the units in RAM: above, old pages are compressed

// ---------------------------------------------------------------------------- units

static uint32_t region_of(const llm_kv_t *kv, uint32_t unit) {
    return unit < kv->n_units[0] ? 0 : 1;
}

static uint8_t *address_of(const llm_kv_t *kv, uint32_t unit) {
    uint32_t region = region_of(kv, unit);
    return kv->memory[region] + (unit - region * kv->n_units[0]) * kv->unit_size;
}

uint32_t llm_kv_take(llm_kv_t *kv, uint32_t region) {
    uint16_t unit = kv->free[region];
    if (unit != LLM_NONE) {
        kv->free[region] = kv->links[unit];
        kv->n_free[region]--;
    }
    return unit;
}

void llm_kv_give(llm_kv_t *kv, uint32_t unit) {
    uint32_t region = region_of(kv, unit);
    kv->links[unit] = kv->free[region];
    kv->free[region] = (uint16_t)unit;
    kv->n_free[region]++;
}

// ---------------------------------------------------------------------------- pages

// The entry of a sequence's table for its page number `number`, token / kv->page. A static cache has but one.
static uint16_t *entry_of(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t number) {
    return &s->pages[number == 0 || kv->table == 1 ? 0 : 1 + (number - 1) % (kv->table - 1)];
}

// A page of two units in RAM, which must be free.
static uint16_t take_page(llm_kv_t *kv) {
    uint16_t id = kv->free_page;
    llm_page_t *page = &kv->pages[id];
    kv->free_page = page->keys;
    page->keys = (uint16_t)llm_kv_take(kv, 0);
    page->values = (uint16_t)llm_kv_take(kv, 0);
    page->refs = 1;
    page->kind = LLM_PAGE_FULL;
    return id;
}

static void give_units(llm_kv_t *kv, const llm_page_t *page) {
    llm_kv_give(kv, page->keys);
    if (page->values != LLM_NONE) {
        llm_kv_give(kv, page->values);
    }
}

// Lets go of the page in `entry`, if there is one.
static void drop_page(llm_kv_t *kv, uint16_t *entry) {
    if (*entry != LLM_NONE) {
        llm_page_t *page = &kv->pages[*entry];
        if (--page->refs == 0) {
            give_units(kv, page);
            page->kind = LLM_PAGE_FREE;
            page->keys = kv->free_page;
            kv->free_page = *entry;
        }
        *entry = LLM_NONE;
    }
}

void llm_kv_clear(llm_kv_t *kv) {
    uint32_t unit = 0;
    for (uint32_t region = 0; region < LLM_REGIONS; region++) {
        kv->free[region] = LLM_NONE;
        kv->n_free[region] = 0;
        uint32_t end = unit + kv->n_units[region];
        for (uint32_t i = end; i-- > unit;) {
            llm_kv_give(kv, i);
        }
        unit = end;
    }
    kv->free_page = LLM_NONE;
    for (uint32_t i = kv->n_pages; i-- > 0;) {
        kv->pages[i] = (llm_page_t){.keys = kv->free_page, .values = LLM_NONE};
        kv->free_page = (uint16_t)i;
    }
    for (uint32_t i = 0; i < kv->n_sequences; i++) {
        llm_sequence_t *s = &kv->sequences[i];
        memset(s->pages, 0xFF, kv->table * sizeof(*s->pages));
        s->n_tokens = 0;
        s->n_valid = 0;
        s->first = kv->sinks;
        s->n_pages = 0;
        s->row = LLM_NONE;
        s->open = i == 0;
    }
    kv->slid = 0;
    kv->compressed = 0;
    kv->spilled = 0;
}

// Where token `i` has its place among `context` ones.
static uint32_t slot_of(const llm_kv_t *kv, uint32_t i) {
    return i < kv->context ? i : kv->sinks + (i - kv->sinks) % (kv->context - kv->sinks);
}

uint32_t llm_kv_id(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t i) {
    uint32_t slot = slot_of(kv, i);
    return kv->wide ? ((const uint32_t *)s->tokens)[slot] : ((const uint16_t *)s->tokens)[slot];
}

void llm_kv_set_id(const llm_kv_t *kv, llm_sequence_t *s, uint32_t i, uint32_t id) {
    uint32_t slot = slot_of(kv, i);
    if (kv->wide) {
        ((uint32_t *)s->tokens)[slot] = id;
    } else {
        ((uint16_t *)s->tokens)[slot] = (uint16_t)id;
    }
}

uint32_t llm_kv_page(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t i, uint32_t *slot) {
    if (!kv->paged) {
        *slot = slot_of(kv, i);
        return s->pages[0];
    }
    *slot = i % kv->page;
    return *entry_of(kv, s, i / kv->page);
}

void *llm_kv_rows(const llm_kv_t *kv, uint32_t page, uint32_t part, bool values) {
    const llm_page_t *p = &kv->pages[page];
    return address_of(kv, values ? p->values : p->keys) + (size_t)part * kv->part;
}

// ---------------------------------------------------------------------------- 4 bits

// Bytes of the rows of a part as int8; half of that holds them in 4 bits.
static size_t rows_size(const llm_kv_t *kv) {
    return (size_t)kv->page * kv->head_dim;
}

// `value`, away from zero, as bfloat16.
static uint16_t bf16_away(float value) {
    return (uint16_t)((llm_float_bits(value) + 0xFFFF) >> 16);
}

static int32_t clamp4(int32_t code) {
    return code < -8 ? -8 : code > 7 ? 7
                                     : code;
}

// Puts a code, -8 to 7, at element `i` of `n` packed ones: those of the first half are the low nibbles. `packed` starts as zeros.
static void put4(uint8_t *packed, size_t i, size_t n, int32_t code) {
    packed[i % (n / 2)] |= (uint8_t)((code + 8) << (i < n / 2 ? 0 : 4));
}

// rows [n] = the codes in packed [n / 2], which may be the second half of rows. n is a multiple of 8.
static void expand(int8_t *rows, const uint8_t *packed, size_t n) {
    for (size_t i = 0; i < n / 2; i += 4) {
        uint32_t word, low, high;
        memcpy(&word, packed + i, sizeof(word));
        // Four codes a word: adding 8 less is adding 0x78 and turning the top bit, so that nothing is carried on.
        low = ((word & 0x0F0F0F0Fu) + 0x78787878u) ^ 0x80808080u;
        high = ((word >> 4 & 0x0F0F0F0Fu) + 0x78787878u) ^ 0x80808080u;
        memcpy(rows + i, &low, sizeof(low));
        memcpy(rows + n / 2 + i, &high, sizeof(high));
    }
}

// Keys: a scale for each channel over all positions, signed, so that the largest magnitude becomes -8 (Liu et al., 2024).
static void compress_keys(const llm_kv_t *kv, uint8_t *packed, uint16_t *channels, const int8_t *codes, const uint16_t *scales) {
    memset(packed, 0, rows_size(kv) / 2);
    for (uint32_t i = 0; i < kv->head_dim; i++) {
        float largest = 0.0f;
        float magnitude = 0.0f;
        for (uint32_t t = 0; t < kv->page; t++) {
            float value = (float)codes[t * kv->head_dim + i] * llm_bf16_float(scales[t]);
            float size = value < 0.0f ? -value : value;
            if (size > magnitude) {
                magnitude = size;
                largest = value;
            }
        }
        channels[i] = magnitude < LLM_SMALLEST ? 0 : bf16_away(largest * -0.125f);
        float k = magnitude < LLM_SMALLEST ? 0.0f : 1.0f / llm_bf16_float(channels[i]);
        for (uint32_t t = 0; t < kv->page; t++) {
            uint32_t at = t * kv->head_dim + i;
            float value = (float)codes[at] * llm_bf16_float(scales[t]);
            put4(packed, at, rows_size(kv), clamp4(llm_round(value * k)));
        }
    }
}

// Values: a scale for each position, as in the int8 cache, of which the largest magnitude becomes 7 or -7.
static void compress_values(const llm_kv_t *kv, uint8_t *packed, uint16_t *scales4, const int8_t *codes, const uint16_t *scales) {
    memset(packed, 0, rows_size(kv) / 2);
    for (uint32_t t = 0; t < kv->page; t++) {
        const int8_t *row = codes + t * kv->head_dim;
        float scale = llm_bf16_float(scales[t]);
        int32_t largest = 0;
        for (uint32_t i = 0; i < kv->head_dim; i++) {
            int32_t size = row[i] < 0 ? -row[i] : row[i];
            largest = size > largest ? size : largest;
        }
        float magnitude = (float)largest * scale;
        scales4[t] = magnitude < LLM_SMALLEST ? 0 : bf16_away(magnitude / 7.0f);
        float k = magnitude < LLM_SMALLEST ? 0.0f : 1.0f / llm_bf16_float(scales4[t]);
        for (uint32_t i = 0; i < kv->head_dim; i++) {
            put4(packed, t * kv->head_dim + i, rows_size(kv), clamp4(llm_round(((float)row[i] * scale) * k)));
        }
    }
}

static void halve_page(llm_kv_t *kv, llm_page_t *page) {
    if (page->kind == LLM_PAGE_FULL) {
        llm_kv_give(kv, page->values);
        page->values = LLM_NONE;
        page->kind = LLM_PAGE_INT4;
    }
}

void llm_kv_halve(llm_kv_t *kv, const llm_sequence_t *s, uint32_t i) {
    halve_page(kv, &kv->pages[*entry_of(kv, s, i / kv->page)]);
}

// Compresses a full page in RAM in place and gives the unit of its values back.
static void compress_page(llm_kv_t *kv, llm_page_t *page) {
    const size_t rows = rows_size(kv);
    const uint8_t *values = address_of(kv, page->values);
    uint8_t *unit = address_of(kv, page->keys);
    // From the last part to the first: a compressed part is the larger, and covers keys from its own part on.
    for (uint32_t part = kv->n_parts; part-- > 0;) {
        memcpy(kv->scratch, unit + (size_t)part * kv->part, kv->part);
        const int8_t *keys = kv->scratch;
        const int8_t *value = (const int8_t *)values + (size_t)part * kv->part;
        uint8_t *out = unit + (size_t)part * kv->part4;
        uint16_t *value_scales = (uint16_t *)(out + rows);
        compress_keys(kv, out, value_scales + kv->page, keys, (const uint16_t *)(keys + rows));
        compress_values(kv, out + rows / 2, value_scales, value, (const uint16_t *)(value + rows));
    }
    halve_page(kv, page);
}

// ---------------------------------------------------------------------------- views

// `size` bytes at `offset` of a unit: in place, or read into `buffer`. NULL if the store failed.
static const void *fetch(const llm_kv_t *kv, uint32_t unit, size_t offset, void *buffer, size_t size) {
    uint32_t region = region_of(kv, unit);
    if (kv->memory[region] != NULL) {
        return address_of(kv, unit) + offset;
    }
    uint64_t start = (uint64_t)(unit - kv->n_units[0]) * kv->unit_size + offset;
    return kv->store.read(kv->store.context, start, buffer, size) == LLM_IO_OK ? buffer : NULL;
}

void *llm_kv_part4(const llm_kv_t *kv, uint32_t page, uint32_t part) {
    size_t size = rows_size(kv) + (kv->page + kv->head_dim) * sizeof(uint16_t);
    return (void *)fetch(kv, kv->pages[page].keys, (size_t)part * kv->part4, kv->scratch, size);
}

bool llm_kv_view(llm_kv_t *kv, uint32_t page, uint32_t part, bool values, llm_view_t *view) {
    const llm_page_t *p = &kv->pages[page];
    const size_t rows = rows_size(kv);
    int8_t *scratch = kv->scratch; // rows, scales of keys, scales of values, scales of channels
    uint16_t *k_scale = (uint16_t *)(scratch + rows);
    uint16_t *v_scale = k_scale + kv->page;
    *view = (llm_view_t){.rows = NULL};
    if (p->kind == LLM_PAGE_INT4) {
        size_t start = (size_t)part * kv->part4;
        size_t n_scales = kv->page + (values ? 0 : kv->head_dim);
        const uint8_t *packed = fetch(kv, p->keys, start + (values ? rows / 2 : 0), scratch + rows / 2, rows / 2);
        view->v_scale = fetch(kv, p->keys, start + rows, v_scale, n_scales * sizeof(uint16_t));
        if (packed == NULL || view->v_scale == NULL) {
            return false;
        }
        expand(scratch, packed, rows);
        view->rows = scratch;
        if (!values) {
            view->channels = view->v_scale + kv->page;
            for (uint32_t t = 0; t < kv->page; t++) {
                k_scale[t] = 0x3F80; // 1
            }
            view->k_scale = k_scale;
        }
        return true;
    }
    size_t start = (size_t)part * kv->part;
    view->rows = fetch(kv, values ? p->values : p->keys, start, scratch, kv->part);
    if (kv->f32 || view->rows == NULL) {
        return view->rows != NULL;
    }
    const uint16_t *scales = (const uint16_t *)((const int8_t *)view->rows + rows);
    if (values) {
        view->v_scale = scales;
        return true;
    }
    view->k_scale = scales;
    view->v_scale = fetch(kv, p->values, start + rows, v_scale, kv->page * sizeof(uint16_t));
    return view->v_scale != NULL;
}

// ---------------------------------------------------------------------------- room

// Whether a sequence is in the middle of writing page `id`.
static bool is_written(const llm_kv_t *kv, uint32_t id) {
    for (uint32_t i = 0; i < kv->n_sequences; i++) {
        const llm_sequence_t *s = &kv->sequences[i];
        if (s->n_valid % kv->page != 0 && *entry_of(kv, s, s->n_valid / kv->page) == id) {
            return true;
        }
    }
    return false;
}

// The oldest page in RAM that is full and can move or, if `full`, be compressed; LLM_NONE if there is none.
static uint32_t oldest_page(const llm_kv_t *kv, bool full) {
    uint32_t best = LLM_NONE;
    uint32_t best_number = UINT32_MAX;
    for (uint32_t i = 0; i < kv->n_sequences; i++) {
        const llm_sequence_t *s = &kv->sequences[i];
        uint32_t end = s->n_valid / kv->page; // the page that is being written, if any
        uint32_t number = 0;
        while (number < end && number < best_number) {
            uint32_t id = *entry_of(kv, s, number);
            if (id != LLM_NONE && region_of(kv, kv->pages[id].keys) == 0 && (!full || kv->pages[id].kind == LLM_PAGE_FULL)
                && !is_written(kv, id)) {
                best = id;
                best_number = number;
            }
            // From page 0 to the oldest of the others that the table can hold.
            number = number == 0 && s->n_pages > kv->table ? s->n_pages - (kv->table - 1) : number + 1;
        }
    }
    return best;
}

// Moves a page to the slower region, where there is room. False if the store failed; the page is then where it was.
static bool spill_page(llm_kv_t *kv, llm_page_t *page) {
    uint16_t *units[2] = {&page->keys, &page->values};
    // The units are taken once all is written, since the store may not return.
    uint16_t target = kv->free[1];
    for (uint32_t i = 0; i < 2 && *units[i] != LLM_NONE; i++) {
        const uint8_t *data = address_of(kv, *units[i]);
        if (kv->memory[1] != NULL) {
            memcpy(address_of(kv, target), data, kv->unit_size);
        } else if (kv->store.write(kv->store.context, (uint64_t)(target - kv->n_units[0]) * kv->unit_size, data, kv->unit_size) != LLM_IO_OK) {
            return false;
        }
        target = kv->links[target];
    }
    for (uint32_t i = 0; i < 2 && *units[i] != LLM_NONE; i++) {
        llm_kv_give(kv, *units[i]);
        *units[i] = (uint16_t)llm_kv_take(kv, 1);
    }
    kv->spilled++;
    return true;
}

// Frees at least one unit. False if there is nothing to free, or the store failed.
static bool free_some(llm_kv_t *kv, bool *failed) {
    uint32_t id = oldest_page(kv, false);
    if (id != LLM_NONE && kv->n_free[1] >= (kv->pages[id].values != LLM_NONE ? 2u : 1u)) {
        *failed = !spill_page(kv, &kv->pages[id]);
        return !*failed;
    }
    id = kv->compresses ? oldest_page(kv, true) : LLM_NONE;
    if (id != LLM_NONE) {
        compress_page(kv, &kv->pages[id]);
        kv->compressed++;
        return true;
    }
    return false;
}

// Compresses old pages while too much of the pool is taken.
static void relieve(llm_kv_t *kv) {
    while (kv->compresses && (kv->n_units[0] - kv->n_free[0]) * 100 > kv->n_units[0] * PRESSURE_PERCENT && kv->n_free[1] < 2) {
        uint32_t id = oldest_page(kv, true);
        if (id == LLM_NONE) {
            return;
        }
        compress_page(kv, &kv->pages[id]);
        kv->compressed++;
    }
}

// Moves the start of a sequence's window up to `first`.
static void let_go(llm_kv_t *kv, llm_sequence_t *s, uint32_t first) {
    if (first > s->first) {
        kv->slid += first - s->first;
        s->first = first;
    }
}

bool llm_kv_reserve(llm_kv_t *kv, llm_sequence_t *s, uint32_t n, bool *failed) {
    *failed = false;
    uint32_t number = kv->paged ? s->n_valid / kv->page : 0;
    uint16_t *entry = entry_of(kv, s, number);
    uint32_t window = kv->context - kv->sinks;
    bool fresh = number >= s->n_pages;
    if (fresh) {
        // What no token of the window needs any more goes first; the first of the new tokens still sees `oldest`.
        uint32_t oldest = s->n_valid < kv->context ? s->first : s->n_valid - window + 1;
        let_go(kv, s, oldest);
        uint32_t from = s->n_pages > kv->table ? s->n_pages - (kv->table - 1) : 1;
        for (uint32_t i = from; i < oldest / kv->page; i++) {
            drop_page(kv, entry_of(kv, s, i));
        }
    }
    if (fresh || kv->pages[*entry].refs > 1) {
        while (kv->n_free[0] < 2) {
            if (!free_some(kv, failed)) {
                return false;
            }
        }
        uint16_t id = take_page(kv);
        if (fresh) {
            s->n_pages = number + 1;
        } else {
            memcpy(address_of(kv, kv->pages[id].keys), address_of(kv, kv->pages[*entry].keys), kv->unit_size);
            memcpy(address_of(kv, kv->pages[id].values), address_of(kv, kv->pages[*entry].values), kv->unit_size);
            drop_page(kv, entry);
        }
        *entry = id;
        relieve(kv);
    }
    // From here on what the new tokens will push out counts as gone, whether or not they get there.
    if (s->n_valid + n > kv->context) {
        let_go(kv, s, s->n_valid + n - window);
    }
    return true;
}

void llm_kv_settle(llm_kv_t *kv, llm_sequence_t *s) {
    if (kv->int4 && s->n_valid % kv->page == 0) {
        llm_page_t *page = &kv->pages[*entry_of(kv, s, s->n_valid / kv->page - 1)];
        // Nobody else is writing it: this sequence would have copied it before it wrote on.
        if (page->kind == LLM_PAGE_FULL) {
            compress_page(kv, page);
        }
    }
}

bool llm_kv_rewind(llm_kv_t *kv, llm_sequence_t *s, uint32_t n) {
    uint32_t valid = n < s->n_valid ? n : s->n_valid;
    if (kv->paged && valid % kv->page != 0) {
        // The page would be written again, which must be in RAM and as computed.
        uint16_t id = *entry_of(kv, s, valid / kv->page);
        if (id == LLM_NONE || kv->pages[id].kind != LLM_PAGE_FULL || region_of(kv, kv->pages[id].keys) != 0) {
            valid -= valid % kv->page;
        }
    }
    bool slid = s->first > kv->sinks;
    if (slid && n > kv->sinks && valid < s->first) {
        return false;
    }
    uint32_t keep = (valid + kv->page - 1) / kv->page;
    uint32_t from = s->n_pages > kv->table ? s->n_pages - (kv->table - 1) : 1;
    if (keep == 0) {
        drop_page(kv, &s->pages[0]);
    }
    for (uint32_t i = keep > from ? keep : from; i < s->n_pages; i++) {
        drop_page(kv, entry_of(kv, s, i));
    }
    s->n_pages = keep < s->n_pages ? keep : s->n_pages;
    s->first = n <= kv->sinks ? kv->sinks : s->first;
    s->n_valid = valid;
    s->n_tokens = n;
    s->row = LLM_NONE;
    return true;
}

void llm_kv_fork(llm_kv_t *kv, llm_sequence_t *s, const llm_sequence_t *from) {
    s->n_tokens = from->n_tokens;
    s->n_valid = from->n_valid;
    s->first = from->first;
    s->n_pages = from->n_pages;
    memcpy(s->tokens, from->tokens, kv->context * (kv->wide ? sizeof(uint32_t) : sizeof(uint16_t)));
    for (uint32_t i = 0; i < kv->table; i++) {
        s->pages[i] = from->pages[i];
        if (s->pages[i] != LLM_NONE) {
            kv->pages[s->pages[i]].refs++;
        }
    }
}
