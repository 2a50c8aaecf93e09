// Weights that are not mapped: a range of tiles is computed while the next one is read.
//
// The scales of a matrix lie apart from its codes, so each range would take three reads. They are read for a strip of several ranges
// at once instead, of no more bytes than a range.
#include "stream.h"

#include <string.h>

#include "../kernels/numeric.h"
#include "image.h"

#define DEFAULT_CODES 32768
#define CODES_PER_SCALES 2 // a buffer of codes is this many times one of scales: a strip is 3 to 6 ranges

// How long a range should take to read: so many latencies that one costs little, but not longer than this, in us, so that Ctrl-C is
// heard and others get their turn on the bus.
#define LATENCIES 16
#define LONGEST 50000

// Bytes that a range has before anything is measured.
#define FIRST_RANGE 4096

// Of a new measurement in the mean.
#define WEIGHT 0.125f

// ---------------------------------------------------------------------------- making one

static uint32_t n_matrices(const llm_image_t *image) {
    return image->config.n_layers * LLM_MATRICES_PER_LAYER + 1;
}

void llm_stream_plan(const llm_image_t *image, uint32_t most, uint32_t *codes_size, uint32_t *scales_size) {
    uint32_t tile = 0; // the largest
    uint32_t tile_scales = 0;
    uint64_t matrix = 0;
    uint64_t matrix_scales = 0;
    for (uint32_t i = 0; i <= n_matrices(image); i++) {
        bool last = i == n_matrices(image);
        llm_tensor_t w = llm_image_tensor(image, last ? llm_image_embedding(image) : llm_image_matrix(image, i));
        tile = llm_max(tile, llm_tile_codes(&w));
        tile_scales = llm_max(tile_scales, llm_tile_scales(&w));
        uint64_t codes = (uint64_t)llm_n_tiles(w.rows) * llm_tile_codes(&w);
        uint64_t scales = (uint64_t)llm_n_tiles(w.rows) * llm_tile_scales(&w);
        matrix = matrix > codes ? matrix : codes;
        matrix_scales = matrix_scales > scales ? matrix_scales : scales;
    }
    uint32_t codes = most != 0 ? most : DEFAULT_CODES;
    codes = matrix < codes ? (uint32_t)matrix : codes;
    codes = llm_max(codes, tile);
    uint32_t scales = codes / CODES_PER_SCALES;
    scales = matrix_scales < scales ? (uint32_t)matrix_scales : scales;
    *codes_size = (uint32_t)llm_align(codes);
    *scales_size = (uint32_t)llm_align(llm_max(scales, tile_scales));
}

void llm_stream_init(llm_stream_t *stream, const llm_image_t *image, uint8_t *ram, uint32_t codes_size, uint32_t scales_size) {
    memset(stream, 0, sizeof(*stream));
    stream->source = image->source;
    stream->codes_size = codes_size;
    stream->scales_size = scales_size;
    stream->range_size = llm_min(FIRST_RANGE, codes_size);
    for (uint32_t i = 0; i < 2; i++) {
        stream->codes[i] = ram + (size_t)i * codes_size;
        stream->scales[i] = ram + 2 * (size_t)codes_size + (size_t)i * scales_size;
    }
}

// ---------------------------------------------------------------------------- measuring

static void mean(float *value, float sample) {
    *value = *value > 0.0f ? *value + (sample - *value) * WEIGHT : sample;
}

// Chooses the size of a range: what is read in LATENCIES latencies, or in LONGEST less one where that is shorter, but at least in one.
static void choose_range(llm_stream_t *s) {
    float us = LATENCIES * s->latency;
    if (us > LONGEST - s->latency) {
        us = LONGEST - s->latency;
        us = us > s->latency ? us : s->latency;
    }
    float size = us * s->rate;
    s->range_size = size < (float)s->codes_size ? (uint32_t)(int32_t)size : s->codes_size;
}

// Takes the time of `n` reads into account, `size` bytes in all.
static void measure(llm_stream_t *s, uint32_t n, uint32_t size, uint32_t took) {
    s->bytes += size;
    float latency = (float)n * s->latency;
    float us = (float)took;
    // A range that took no longer than its latencies should: they have become less, but who knows by how much.
    us = us - latency > us / 8.0f ? us - latency : us / 8.0f;
    mean(&s->rate, (float)size / (us > 1.0f ? us : 1.0f));
    choose_range(s);
}

static uint32_t now(const llm_stream_t *s) {
    return s->source->now(s->source->context);
}

// ---------------------------------------------------------------------------- reading

// Adds a piece to what is read next.
static void add_read(llm_stream_t *s, uint64_t offset, void *data, uint32_t size) {
    s->reads[s->n_reads++] = (llm_read_t){.data = data, .offset = offset, .size = size};
}

// Begins to read s->reads. A source that cannot read in the background has read them then.
static bool start(llm_stream_t *s) {
    const llm_source_t *source = s->source;
    uint32_t begun = now(s);
    bool good = true;
    if (source->start != NULL) {
        good = source->start(source->context, s->reads, s->n_reads);
    } else {
        for (uint32_t i = 0; i < s->n_reads && good; i++) {
            good = source->read(source->context, s->reads[i].offset, s->reads[i].data, s->reads[i].size);
        }
    }
    s->took = now(s) - begun;
    s->waited += s->took;
    s->under_way = good;
    return good;
}

// Waits for it.
static bool finish(llm_stream_t *s) {
    const llm_source_t *source = s->source;
    uint32_t size = 0;
    for (uint32_t i = 0; i < s->n_reads; i++) {
        size += s->reads[i].size;
    }
    uint32_t took = s->took;
    bool good = true;
    s->under_way = false;
    if (source->wait != NULL) {
        uint32_t begun = now(s);
        good = source->wait(source->context, &took);
        s->waited += now(s) - begun;
    }
    if (good) {
        measure(s, s->n_reads, size, took);
    }
    return good;
}

// Adds the scales of `n` tiles from `first` on of matrix `w`, entry `i`, to what is read next: row scales, then group scales.
static void add_scales(llm_stream_t *s, const llm_image_t *image, uint32_t i, const llm_tensor_t *w, uint32_t first, uint32_t n, uint8_t *to) {
    llm_planes_t planes = llm_image_planes(image, i);
    uint32_t rows = n * LLM_TILE;
    uint32_t groups = rows * llm_n_groups(w->cols);
    add_read(s, planes.row_scales + (uint64_t)first * LLM_TILE * sizeof(float), to, rows * (uint32_t)sizeof(float));
    add_read(s, planes.scales + (uint64_t)first * LLM_TILE * llm_n_groups(w->cols), to + rows * sizeof(float), groups);
}

// Adds the codes or values of `n` tiles from `first` on.
static void add_codes(llm_stream_t *s, const llm_image_t *image, uint32_t i, const llm_tensor_t *w, uint32_t first, uint32_t n, uint8_t *to) {
    uint32_t size = n * llm_tile_codes(w);
    if (w->dtype == LLM_F32) { // whose last tile may end early
        uint32_t left = w->rows - first * LLM_TILE;
        size = llm_min(size, left * w->cols * (uint32_t)sizeof(float));
    }
    add_read(s, llm_image_planes(image, i).data + (uint64_t)first * llm_tile_codes(w), to, size);
}

// Points `w` at the scales of a strip of `n` tiles.
static void set_scales(llm_tensor_t *w, const uint8_t *strip, uint32_t n) {
    if (w->dtype != LLM_F32) {
        w->row_scales = (const float *)(const void *)strip;
        w->scales = (const int8_t *)strip + (size_t)n * LLM_TILE * sizeof(float);
    }
}

// Begins to read the next range.
static bool start_range(llm_stream_t *s, const llm_image_t *image) {
    uint32_t i = llm_image_matrix(image, s->matrix);
    llm_tensor_t w = llm_image_tensor(image, i);
    uint32_t n_tiles = llm_n_tiles(w.rows);
    uint32_t n = llm_max(s->range_size / llm_tile_codes(&w), 1);
    s->n_reads = 0;
    if (s->tile == s->strip_end || s->tile == 0) {
        s->strip_first = s->tile;
        s->strip_end = n_tiles;
        if (w.dtype != LLM_F32) {
            uint32_t size = llm_min(s->range_size, s->scales_size);
            uint32_t n_strip = llm_min(n_tiles - s->tile, llm_max(size / llm_tile_scales(&w), 1));
            s->strip_end = s->tile + n_strip;
            s->turn ^= 2;
            add_scales(s, image, i, &w, s->tile, n_strip, s->scales[s->turn >> 1]);
        }
    }
    n = llm_min(n, s->strip_end - s->tile);
    uint8_t *codes = s->codes[s->turn & 1];
    add_codes(s, image, i, &w, s->tile, n, codes);

    // The strip's rows as a tensor, then the range's.
    uint32_t before = s->tile - s->strip_first;
    set_scales(&w, s->scales[s->turn >> 1], s->strip_end - s->strip_first);
    s->range = w;
    s->range.rows = llm_min(n * LLM_TILE, w.rows - s->tile * LLM_TILE);
    s->range.data = codes;
    if (w.dtype != LLM_F32) {
        s->range.row_scales += (size_t)before * LLM_TILE;
        s->range.scales += (size_t)before * LLM_TILE * llm_n_groups(w.cols);
    }
    s->turn ^= 1;
    s->tile += n;
    if (s->tile == n_tiles) {
        s->matrix++;
        s->tile = 0;
    }
    return start(s);
}

// ---------------------------------------------------------------------------- a block of tokens

bool llm_stream_begin(llm_stream_t *s, const llm_image_t *image, bool logits) {
    if (s->under_way) {
        finish(s); // of a block that was left half-way
    }
    s->n_reads = 0;
    s->failed = true; // until it is known to be there
    s->n_matrices = n_matrices(image) - !logits;
    s->matrix = 0;
    s->tile = 0;
    uint8_t head[64];
    s->began = now(s);
    add_read(s, 0, head, sizeof(head));
    if (!s->source->read(s->source->context, 0, head, sizeof(head))) {
        return false;
    }
    if (memcmp(head, image->data, sizeof(head)) != 0) {
        s->n_reads = 0; // read well, but not what is wanted
        return false;
    }
    uint32_t took = now(s) - s->began;
    s->bytes += sizeof(head);
    s->waited += took;
    float latency = (float)took - (s->rate > 0.0f ? sizeof(head) / s->rate : 0.0f);
    mean(&s->latency, latency > 1.0f ? latency : 1.0f);
    s->failed = false;
    return true;
}

llm_status_t llm_stream_fail(const llm_stream_t *s, llm_error_t *error) {
    if (s->n_reads == 0) {
        return llm_fail(error, LLM_ERROR_STORAGE, "stream: it is not the image that was opened", 0, 0);
    }
    uint64_t size = 0;
    for (uint32_t i = 0; i < s->n_reads; i++) {
        size += s->reads[i].size;
    }
    // Codes are read last; scales lie behind them.
    return llm_fail(error, LLM_ERROR_STORAGE, "stream: {} bytes from {} on cannot be read", size, s->reads[s->n_reads - 1].offset);
}

void llm_stream_end(llm_stream_t *s) {
    s->total += now(s) - s->began;
}

bool llm_stream_embedding(llm_stream_t *s, const llm_image_t *image, uint32_t token, llm_tensor_t *tile) {
    uint32_t i = llm_image_embedding(image);
    llm_tensor_t w = llm_image_tensor(image, i);
    uint32_t first = token / LLM_TILE;
    s->n_reads = 0;
    add_codes(s, image, i, &w, first, 1, s->codes[0]);
    if (w.dtype != LLM_F32) {
        add_scales(s, image, i, &w, first, 1, s->scales[0]);
    }
    uint32_t begun = now(s);
    for (uint32_t k = 0; k < s->n_reads && !s->failed; k++) {
        s->failed = !s->source->read(s->source->context, s->reads[k].offset, s->reads[k].data, s->reads[k].size);
        s->bytes += s->reads[k].size;
    }
    s->waited += now(s) - begun;
    set_scales(&w, s->scales[0], 1);
    w.rows = llm_min(LLM_TILE, w.rows - first * LLM_TILE);
    w.data = s->codes[0];
    *tile = w;
    return !s->failed;
}

bool llm_stream_multiply(llm_stream_t *s, const llm_image_t *image, const llm_kernels_t *kernels, const llm_parallel_t *parallel, float *y, const llm_tensor_t *w, const llm_vectors_t *x) {
    s->failed = s->failed || (!s->under_way && !start_range(s, image));
    for (uint32_t row = 0; row < w->rows && !s->failed;) {
        s->failed = !finish(s);
        llm_tensor_t range = s->range;
        if (!s->failed && s->matrix < s->n_matrices) {
            s->failed = !start_range(s, image);
        }
        if (!s->failed) {
            llm_multiply(kernels, parallel, y + row, w->rows, &range, x);
        }
        row += range.rows;
    }
    if (s->failed) {
        memset(y, 0, (size_t)x->codes.n * w->rows * sizeof(*y));
    }
    return !s->failed;
}
