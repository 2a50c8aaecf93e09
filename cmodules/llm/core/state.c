// The state of a sequence in a file: docs/state-format.md.
#include <string.h>

#include "image.h"

#define VERSION 1
#define PIECE 256 // bytes that are read or written at once

typedef struct {
    uint8_t magic[8];
    uint32_t version;
    uint32_t size; // of the file
    uint8_t hash[32]; // of the image
    uint32_t cache; // llm_cache_t
    uint32_t n_tokens; // of the sequence
    uint32_t n_valid; // of these, with keys and values
    uint32_t first; // oldest token after the sinks, 0 unless the window has slid
    uint32_t context; // 0 unless the window has slid
    uint32_t crc; // of the bytes before
} header_t;

static const uint8_t magic[8] = {0x89, 'L', 'L', 'S', '\r', '\n', 0x1A, '\n'};

// Positions whose keys and values stand together in a file: of one page of LLM_PAGE positions.
typedef struct {
    uint32_t pos; // the first
    uint16_t n; // how many
    uint16_t kind; // llm_page_kind_t
} chunk_t;

// ---------------------------------------------------------------------------- a file, from start to end

typedef struct {
    const llm_store_t *store;
    llm_io_t io; // what the store returned last
    bool writes;
    uint32_t size; // bytes of the file
    uint32_t offset; // of the piece in it
    uint32_t n; // bytes of the piece that have been read
    uint32_t at; // bytes of the piece that have passed
    uint32_t crc; // of what has passed
    uint8_t piece[PIECE];
} file_t;

static void flush(file_t *f) {
    if (f->io == LLM_IO_OK && f->at > 0) {
        f->io = f->store->write(f->store->context, f->offset, f->piece, f->at);
    }
    f->offset += f->at;
    f->at = 0;
}

static void fill(file_t *f) {
    f->offset += f->n;
    f->at = 0;
    f->n = f->size - f->offset < PIECE ? f->size - f->offset : PIECE;
    if (f->io == LLM_IO_OK) {
        f->io = f->n == 0 ? LLM_IO_END : f->store->read(f->store->context, f->offset, f->piece, f->n);
    }
}

// Writes `size` bytes, or reads them: zeros once the store has failed.
static void pass(file_t *f, void *data, size_t size) {
    uint8_t *bytes = data;
    for (size_t done = 0, n; done < size; done += n) {
        if (f->at == (f->writes ? PIECE : f->n)) {
            (f->writes ? flush : fill)(f);
        }
        if (f->io != LLM_IO_OK) {
            if (!f->writes) {
                memset(bytes + done, 0, size - done);
            }
            return;
        }
        n = (f->writes ? PIECE : f->n) - f->at;
        n = size - done < n ? size - done : n;
        uint8_t *piece = f->piece + f->at;
        memcpy(f->writes ? piece : bytes + done, f->writes ? bytes + done : piece, n);
        f->at += (uint32_t)n;
        f->crc = llm_crc32c(f->crc, piece, n);
    }
}

static llm_status_t failure(const file_t *f, llm_error_t *error) {
    if (f->io == LLM_IO_END) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: is cut short", 0, 0);
    }
    return llm_fail(error, LLM_ERROR_STORAGE, f->writes ? "state: cannot be written" : "state: cannot be read", 0, 0);
}

// ---------------------------------------------------------------------------- chunks

// Bytes of a part of a compressed page, without what aligns it.
static uint32_t part4_size(const llm_kv_t *kv) {
    return kv->page * (kv->head_dim + 2) + 2 * kv->head_dim;
}

static uint32_t chunk_size(const llm_kv_t *kv, const chunk_t *chunk) {
    uint32_t row = kv->f32 ? kv->head_dim * (uint32_t)sizeof(float) : kv->head_dim + 2;
    return (uint32_t)sizeof(*chunk) + kv->n_parts * (chunk->kind == LLM_PAGE_INT4 ? part4_size(kv) : 2 * chunk->n * row);
}

// Where the chunks that begin at `at` end: those of the sinks apart from the others once the window has slid.
static uint32_t end_of(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t at, uint32_t n_valid) {
    return s->first > kv->sinks && at < kv->sinks ? kv->sinks : n_valid;
}

// The chunk of position `at`.
static chunk_t chunk_at(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t at) {
    uint32_t slot;
    uint32_t page = llm_kv_page(kv, s, at, &slot);
    if (kv->pages[page].kind == LLM_PAGE_INT4) {
        return (chunk_t){.pos = at - slot, .n = LLM_PAGE, .kind = LLM_PAGE_INT4};
    }
    uint32_t n = LLM_PAGE - at % LLM_PAGE;
    uint32_t left = end_of(kv, s, at, s->n_valid) - at;
    return (chunk_t){.pos = at, .n = (uint16_t)(n < left ? n : left), .kind = LLM_PAGE_FULL};
}

// The position after a chunk, at which the next one begins.
static uint32_t after(const llm_kv_t *kv, const llm_sequence_t *s, uint32_t at, const chunk_t *chunk) {
    uint32_t next = chunk->pos + chunk->n;
    return s->first > kv->sinks && at < kv->sinks && next >= kv->sinks ? s->first : next;
}

// Passes the keys and values of a chunk that lies in the cache, or for which there is room.
static void pass_chunk(file_t *f, llm_kv_t *kv, const llm_sequence_t *s, const chunk_t *chunk) {
    size_t row = kv->head_dim * (kv->f32 ? sizeof(float) : sizeof(int8_t));
    uint32_t slot;
    uint32_t page = llm_kv_page(kv, s, chunk->pos, &slot);
    for (uint32_t part = 0; part < kv->n_parts; part++) {
        if (chunk->kind == LLM_PAGE_INT4) {
            void *data = llm_kv_part4(kv, page, part);
            if (data == NULL) {
                f->io = LLM_IO_FAILED;
                return;
            }
            pass(f, data, part4_size(kv));
            continue;
        }
        for (uint32_t values = 0; values < 2; values++) {
            llm_view_t view;
            if (!llm_kv_view(kv, page, part, values != 0, &view)) {
                f->io = LLM_IO_FAILED;
                return;
            }
            // Rows, then their scales, which stand behind all rows of the page.
            uint8_t *rows = (uint8_t *)view.rows;
            for (uint32_t i = 0; i < chunk->n; i++) {
                llm_kv_page(kv, s, chunk->pos + i, &slot);
                pass(f, rows + slot * row, row);
            }
            for (uint32_t i = 0; i < chunk->n && !kv->f32; i++) {
                llm_kv_page(kv, s, chunk->pos + i, &slot);
                pass(f, rows + kv->page * row + slot * sizeof(uint16_t), sizeof(uint16_t));
            }
        }
    }
}

// ---------------------------------------------------------------------------- saving

llm_status_t llm_sequence_save(llm_model_t *model, const llm_sequence_t *s, const llm_store_t *store, llm_error_t *error) {
    llm_kv_t *kv = &model->kv;
    bool slid = s->first > kv->sinks;
    uint32_t n_ids = llm_sequence_n_cached(model, s);
    file_t f = {.store = store, .writes = true};
    header_t header = {
        .version = VERSION,
        .size = (uint32_t)(sizeof(header) + n_ids * sizeof(uint32_t) + sizeof(f.crc)),
        .cache = model->plan.cache,
        .n_tokens = s->n_tokens,
        .n_valid = s->n_valid,
        .first = slid ? s->first : 0,
        .context = slid ? kv->context : 0,
    };
    memcpy(header.magic, magic, sizeof(magic));
    memcpy(header.hash, model->image.hash, sizeof(header.hash));
    chunk_t chunk;
    for (uint32_t at = 0; at < s->n_valid; at = after(kv, s, at, &chunk)) {
        chunk = chunk_at(kv, s, at);
        header.size += chunk_size(kv, &chunk);
    }
    header.crc = llm_crc32c(0, &header, offsetof(header_t, crc));
    pass(&f, &header, sizeof(header));
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t id = llm_sequence_token(model, s, i);
        pass(&f, &id, sizeof(id));
    }
    for (uint32_t at = 0; at < s->n_valid; at = after(kv, s, at, &chunk)) {
        chunk = chunk_at(kv, s, at);
        pass(&f, &chunk, sizeof(chunk));
        pass_chunk(&f, kv, s, &chunk);
    }
    uint32_t crc = f.crc;
    pass(&f, &crc, sizeof(crc));
    flush(&f);
    return f.io == LLM_IO_OK ? LLM_OK : failure(&f, error);
}

// ---------------------------------------------------------------------------- loading

static llm_status_t check_header(const llm_model_t *m, const header_t *h, llm_error_t *error) {
    const llm_kv_t *kv = &m->kv;
    if (memcmp(h->magic, magic, sizeof(magic)) != 0) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: this is none", 0, 0);
    }
    if (h->version != VERSION) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: version {} is not {}, the one that is known", h->version, VERSION);
    }
    if (h->crc != llm_crc32c(0, h, offsetof(header_t, crc))) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: the header is damaged", 0, 0);
    }
    if (memcmp(h->hash, m->image.hash, sizeof(h->hash)) != 0) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: is of another model", 0, 0);
    }
    if (h->cache != (uint32_t)m->plan.cache) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: its cache is of kind {}, this one of kind {}", h->cache, m->plan.cache);
    }
    bool slid = h->context != 0;
    if (h->n_tokens > kv->context && (!slid || m->plan.policy == LLM_POLICY_ERROR)) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: its {} tokens do not fit into a context of {}", h->n_tokens, kv->context);
    }
    if (slid && h->context != kv->context) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: its window slid in a context of {}, this one is {}", h->context, kv->context);
    }
    uint32_t window = kv->context - kv->sinks;
    if (h->size < sizeof(*h) || h->n_valid > h->n_tokens || (slid && (h->first <= kv->sinks || h->first > h->n_valid || h->n_tokens - h->first > window))) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: the header makes no sense", 0, 0);
    }
    return LLM_OK;
}

// Makes room for the chunk of position `at` and reads it.
static llm_status_t load_chunk(file_t *f, llm_model_t *m, llm_sequence_t *s, uint32_t at, uint32_t n_valid, chunk_t *chunk, llm_error_t *error) {
    llm_kv_t *kv = &m->kv;
    pass(f, chunk, sizeof(*chunk));
    uint32_t in_page = at % LLM_PAGE;
    uint32_t left = end_of(kv, s, at, n_valid) - at;
    uint32_t n = LLM_PAGE - in_page < left ? LLM_PAGE - in_page : left;
    bool full = chunk->kind == LLM_PAGE_FULL && chunk->pos == at && chunk->n == n;
    bool int4 = chunk->kind == LLM_PAGE_INT4 && chunk->pos == at - in_page && chunk->n == LLM_PAGE && n_valid - chunk->pos >= LLM_PAGE;
    if (f->io != LLM_IO_OK) {
        return failure(f, error);
    }
    if (!full && !int4) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: what follows position {} is damaged", at, 0);
    }
    if (int4 && (!kv->paged || kv->f32)) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: has compressed pages, this cache has none: load the model with kv='paged'", 0, 0);
    }
    bool failed;
    s->n_valid = chunk->pos;
    if (!llm_kv_reserve(kv, s, chunk->n, &failed)) {
        return failed ? llm_fail(error, LLM_ERROR_STORAGE, "spill: cannot be written", 0, 0)
                      : llm_fail(error, LLM_ERROR_MEMORY, "cache: all {} units are taken by other sequences", kv->n_units[0] + kv->n_units[1], 0);
    }
    uint32_t slot;
    if (int4) {
        llm_kv_halve(kv, s, chunk->pos);
    } else if (kv->pages[llm_kv_page(kv, s, at, &slot)].kind != LLM_PAGE_FULL) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: what follows position {} is damaged", at, 0);
    }
    pass_chunk(f, kv, s, chunk);
    if (f->io != LLM_IO_OK) {
        return failure(f, error);
    }
    s->n_valid = chunk->pos + chunk->n;
    return LLM_OK;
}

static llm_status_t load(file_t *f, llm_model_t *m, llm_sequence_t *s, llm_error_t *error) {
    llm_kv_t *kv = &m->kv;
    header_t header;
    f->size = sizeof(header);
    pass(f, &header, sizeof(header));
    if (f->io != LLM_IO_OK) {
        return failure(f, error);
    }
    llm_status_t status = check_header(m, &header, error);
    if (status != LLM_OK) {
        return status;
    }
    f->size = header.size;
    s->first = header.context != 0 ? header.first : kv->sinks;
    s->n_tokens = header.n_tokens;
    uint32_t n_ids = llm_sequence_n_cached(m, s);
    for (uint32_t i = 0; i < n_ids; i++) {
        uint32_t id;
        pass(f, &id, sizeof(id));
        if (id >= m->image.config.vocab_size) {
            return llm_fail(error, LLM_ERROR_VALUE, "state: token {} is not below vocab_size {}", id, m->image.config.vocab_size);
        }
        llm_kv_set_id(kv, s, i < kv->sinks ? i : i - kv->sinks + s->first, id);
    }
    chunk_t chunk;
    for (uint32_t at = 0; at < header.n_valid; at = after(kv, s, at, &chunk)) {
        if (at == s->first && s->first > kv->sinks && kv->paged && at / kv->page > s->n_pages) {
            s->n_pages = at / kv->page; // those in between are not there
        }
        status = load_chunk(f, m, s, at, header.n_valid, &chunk, error);
        if (status != LLM_OK) {
            return status;
        }
    }
    s->n_valid = header.n_valid;
    uint32_t crc = f->crc;
    uint32_t stored;
    pass(f, &stored, sizeof(stored));
    if (f->io != LLM_IO_OK) {
        return failure(f, error);
    }
    if (stored != crc || f->offset + f->at != header.size) {
        return llm_fail(error, LLM_ERROR_VALUE, "state: is damaged, its checksum does not fit", 0, 0);
    }
    return LLM_OK;
}

llm_status_t llm_sequence_load(llm_model_t *model, llm_sequence_t *s, const llm_store_t *store, llm_error_t *error) {
    file_t f = {.store = store};
    uint32_t slid = model->kv.slid;
    model->work.n = 0;
    llm_kv_rewind(&model->kv, s, 0);
    llm_status_t status = load(&f, model, s, error);
    model->kv.slid = slid; // nothing was lost that was not already
    if (status != LLM_OK) {
        llm_kv_rewind(&model->kv, s, 0);
    }
    return status;
}
