// The forward pass, and what sequences do with it.
#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/numeric.h"
#include "image.h"
#include "stream.h"

// x = the row of the embedding.
static void embed(float *x, const llm_tensor_t *w, uint32_t token) {
    if (w->dtype == LLM_F32) {
        memcpy(x, (const float *)w->data + (size_t)token * w->cols, w->cols * sizeof(*x));
        return;
    }
    float row_scale = w->row_scales[token];
    size_t block = (size_t)(token / LLM_TILE) * llm_n_groups(w->cols) * LLM_TILE + token % LLM_TILE;
    for (uint32_t i = 0; i < w->cols; i += LLM_GROUP, block += LLM_TILE) {
        uint32_t n = w->cols - i < LLM_GROUP ? w->cols - i : LLM_GROUP;
        int32_t scale = w->scales[block];
        if (w->dtype == LLM_INT8) {
            const int8_t *codes = (const int8_t *)w->data + block * 32;
            for (uint32_t k = 0; k < n; k++) {
                x[i + k] = (float)(codes[k] * scale) * row_scale;
            }
        } else {
            const uint8_t *codes = (const uint8_t *)w->data + block * 16;
            for (uint32_t k = 0; k < n; k++) {
                uint32_t pair = codes[k % 16];
                int32_t code = (int8_t)(uint8_t)(k < 16 ? pair << 4 : pair & 0xF0) >> 4;
                x[i + k] = (float)(code * scale) * row_scale;
            }
        }
    }
}

// The input of one or more matrices: `n` vectors of `cols` floats, quantized once the first quantized matrix needs it.
typedef struct {
    const float *x; // [n][cols]
    uint32_t cols; // and their distance
    uint32_t n; // tokens
    bool quantized; // model->codes hold them
} input_t;

static void *codes_of(const llm_model_t *m, uint32_t i) {
    return (uint8_t *)m->codes + (size_t)i * m->codes_stride * m->kernels->code_size;
}

// y [n][rows] = w x. Once the source of a stream has failed, y is zeros: m->stream->failed says so.
static void matmul(llm_model_t *m, float *y, const llm_tensor_t *w, input_t *input) {
    if (w->dtype != LLM_F32 && !input->quantized) {
        for (uint32_t i = 0; i < input->n; i++) {
            m->code_scales[i] = m->kernels->quantize(codes_of(m, i), input->x + i * input->cols, input->cols);
        }
        input->quantized = true;
    }
    const llm_vectors_t x = {
        .x = input->x,
        .x_stride = input->cols,
        .codes = {.codes = m->codes, .scales = m->code_scales, .stride = m->codes_stride, .n = input->n},
    };
    if (m->stream != NULL) {
        llm_stream_multiply(m->stream, &m->image, m->kernels, &m->parallel, y, w, &x);
    } else {
        llm_multiply(m->kernels, &m->parallel, y, w->rows, w, &x);
    }
}

// h [n][dim] = rmsnorm(x [n][dim]) as the input of matrices, the first of which is `next`.
static input_t norm(llm_model_t *m, const float *x, const float *w, uint32_t n, const llm_tensor_t *next) {
    uint32_t dim = m->image.config.dim;
    float eps = m->image.config.norm_eps;
    bool quantized = next->dtype != LLM_F32;
    for (uint32_t i = 0; i < n; i++) {
        if (quantized) {
            m->code_scales[i] = m->kernels->rmsnorm_quantize(codes_of(m, i), m->h + i * dim, x + i * dim, w, dim, eps);
        } else {
            m->kernels->rmsnorm(m->h + i * dim, x + i * dim, w, dim, eps);
        }
    }
    return (input_t){.x = m->h, .cols = dim, .n = n, .quantized = quantized};
}

// gate [n][hidden_dim] = silu(gate) * up as the input of the matrix `next`.
static input_t gated(llm_model_t *m, uint32_t n, const llm_tensor_t *next) {
    uint32_t hidden_dim = m->image.config.hidden_dim;
    bool quantized = next->dtype != LLM_F32;
    for (uint32_t i = 0; i < n; i++) {
        float *gate = m->gate + i * hidden_dim;
        const float *up = m->up + i * hidden_dim;
        if (quantized) {
            m->code_scales[i] = m->kernels->silu_mul_quantize(codes_of(m, i), gate, up, hidden_dim);
        } else {
            m->kernels->silu_mul(gate, up, hidden_dim);
        }
    }
    return (input_t){.x = m->gate, .cols = hidden_dim, .n = n, .quantized = quantized};
}

// The pairs' angles at position `pos`: cosines, then sines.
static void turn(const llm_model_t *m, float *cos_sin, uint32_t pos) {
    uint32_t n = m->image.config.head_dim / 2;
    for (uint32_t j = 0; j < n; j++) {
        llm_sincos(pos * m->rope_phase[j], &cos_sin[n + j], &cos_sin[j]);
    }
}

static void rotate(const llm_model_t *m, float *x, const float *cos_sin, uint32_t n_heads) {
    const llm_config_t *c = &m->image.config;
    m->kernels->rope(x, cos_sin, cos_sin + c->head_dim / 2, n_heads, c->head_dim, c->rope);
}

// Copies the keys and values of one token to its place in the cache.
static void store(llm_model_t *m, uint32_t l, const llm_item_t *item, const float *k, const float *v) {
    const llm_config_t *c = &m->image.config;
    uint32_t slot;
    uint32_t page = llm_kv_page(&m->kv, item->sequence, item->pos, &slot);
    int8_t *keys = llm_kv_rows(&m->kv, page, l * c->n_kv_heads, false);
    int8_t *values = llm_kv_rows(&m->kv, page, l * c->n_kv_heads, true);
    for (uint32_t h = 0; h < c->n_kv_heads; h++) {
        if (m->kv.f32) {
            memcpy((float *)(void *)keys + (size_t)slot * c->head_dim, k, c->head_dim * sizeof(float));
            memcpy((float *)(void *)values + (size_t)slot * c->head_dim, v, c->head_dim * sizeof(float));
        } else {
            size_t scales = (size_t)m->kv.page * c->head_dim;
            uint16_t *k_scale = (uint16_t *)(void *)(keys + scales);
            uint16_t *v_scale = (uint16_t *)(void *)(values + scales);
            k_scale[slot] = m->kernels->quantize_kv(keys + (size_t)slot * c->head_dim, k, c->head_dim);
            v_scale[slot] = m->kernels->quantize_kv(values + (size_t)slot * c->head_dim, v, c->head_dim);
        }
        keys += m->kv.part;
        values += m->kv.part;
        k += c->head_dim;
        v += c->head_dim;
    }
}

// m->q_page = the queries of one KV head times the scales of a compressed page's channels.
static void scale_queries(llm_model_t *m, const llm_attention_t *a, const float *q, const uint16_t *channels) {
    for (uint32_t i = 0; i < a->n_queries; i++) {
        for (uint32_t j = 0; j < a->head_dim; j++) {
            m->q_page[i * a->head_dim + j] = q[i * a->head_dim + j] * llm_bf16_float(channels[j]);
        }
    }
}

// llm_kv_view, in short for the keys and values that most tokens see: as computed, in RAM.
static bool view_part(llm_kv_t *kv, uint32_t page, uint32_t part, bool values, llm_view_t *view) {
    const llm_page_t *p = &kv->pages[page];
    if (p->kind != LLM_PAGE_FULL || kv->f32 || p->keys >= kv->n_units[0]) {
        return llm_kv_view(kv, page, part, values, view);
    }
    const uint8_t *start = kv->memory[0] + (size_t)part * kv->part;
    const uint8_t *v = start + p->values * kv->unit_size;
    const uint8_t *rows = values ? v : start + p->keys * kv->unit_size;
    size_t scales = (size_t)kv->page * kv->head_dim;
    view->rows = rows;
    view->k_scale = (const uint16_t *)(const void *)(rows + scales);
    view->v_scale = (const uint16_t *)(const void *)(v + scales);
    view->channels = NULL;
    return true;
}

// One pass of attention, for the scores or with the values, over the runs of what a token sees of one part of the cache: positions that
// lie together, of the sinks and then of the window. `q_sinks` is what the sinks are asked when they are apart from the
// window. False if the store failed.
static bool pass(llm_model_t *m, const llm_item_t *item, uint32_t part, const llm_attention_t *attention, const float *q_sinks, bool values) {
    const llm_kv_t *kv = &m->kv;
    llm_attention_t a = *attention;
    const float *asked = NULL;
    bool apart = item->first > kv->sinks;
    uint32_t seen = 0;
    for (uint32_t at = 0; at <= item->pos;) {
        bool sinks = apart && at < kv->sinks;
        if (apart && at == kv->sinks) {
            at = item->first;
        }
        uint32_t slot;
        uint32_t page = llm_kv_page(kv, item->sequence, at, &slot);
        uint32_t n = (sinks ? kv->sinks : item->pos + 1) - at;
        n = llm_min(n, (kv->paged ? kv->page : kv->context) - slot);
        llm_view_t view;
        if (!view_part(&m->kv, page, part, values, &view)) {
            return false;
        }
        size_t row = (size_t)slot * a.head_dim * (kv->f32 ? sizeof(float) : sizeof(int8_t));
        llm_run_t run = {.first = seen, .n = n};
        *(values ? &run.v : &run.k) = (const uint8_t *)view.rows + row;
        if (!kv->f32) {
            run.k_scale = values ? NULL : view.k_scale + slot;
            run.v_scale = view.v_scale + slot;
        }
        if (values) {
            (kv->f32 ? m->kernels->attention_values_f32 : m->kernels->attention_values)(&a, &run);
        } else {
            const float *q = sinks ? q_sinks : attention->q;
            a.q = q;
            if (view.channels != NULL) {
                scale_queries(m, &a, q, view.channels);
                a.q = m->q_page;
                asked = NULL;
            }
            if (!kv->f32 && asked != a.q) {
                m->kernels->attention_query(&a);
                asked = view.channels != NULL ? NULL : a.q;
            }
            (kv->f32 ? m->kernels->attention_scores_f32 : m->kernels->attention_scores)(&a, &run);
        }
        seen += n;
        at += n;
    }
    return true;
}

// out [n_heads][head_dim] = attention of one token's queries q, rotated here, over what the token sees. False if the store failed.
static bool attend(llm_model_t *m, uint32_t l, const llm_item_t *item, float *q, const float *cos_sin, float *out) {
    const llm_config_t *c = &m->image.config;
    uint32_t sinks = m->kv.sinks;
    uint32_t n_positions = item->pos + 1;
    if (item->first > sinks) {
        // The window's tokens lie as far from this one as their positions say. The sinks lie as far as their places in the cache say.
        n_positions = sinks + item->pos + 1 - item->first;
        float *cos_sin_sinks = m->q_sinks + c->n_heads * c->head_dim;
        memcpy(m->q_sinks, q, c->n_heads * c->head_dim * sizeof(*q));
        turn(m, cos_sin_sinks, n_positions - 1);
        rotate(m, m->q_sinks, cos_sin_sinks, c->n_heads);
    }
    rotate(m, q, cos_sin, c->n_heads);
    uint32_t n_queries = c->n_heads / c->n_kv_heads;
    float scale = llm_rsqrt((float)c->head_dim) * LLM_LOG2_E;
    for (uint32_t h = 0; h < c->n_kv_heads; h++) {
        uint32_t at = h * n_queries * c->head_dim;
        const llm_attention_t a = {
            .q = q + at,
            .out = out + at,
            .n_queries = n_queries,
            .n_positions = n_positions,
            .head_dim = c->head_dim,
            .scale = scale,
            .scratch = m->scratch,
        };
        uint32_t part = l * c->n_kv_heads + h;
        if (!pass(m, item, part, &a, m->q_sinks + at, false) || !pass(m, item, part, &a, m->q_sinks + at, true)) {
            return false;
        }
    }
    return true;
}

// x += attention(rmsnorm(x)). False if the store failed.
static bool attention_block(llm_model_t *m, uint32_t l, const llm_item_t *items, uint32_t n) {
    const llm_config_t *c = &m->image.config;
    const llm_layer_t *layer = &m->layers[l];
    uint32_t q_dim = c->n_heads * c->head_dim;
    uint32_t kv_dim = c->n_kv_heads * c->head_dim;

    input_t h = norm(m, m->x, layer->attn_norm, n, &layer->attn_q);
    matmul(m, m->q, &layer->attn_q, &h);
    matmul(m, m->k, &layer->attn_k, &h);
    matmul(m, m->v, &layer->attn_v, &h);
    // One token after the other: in a window that slides, the next one is written over the oldest that this one sees.
    for (uint32_t i = 0; i < n; i++) {
        const float *cos_sin = m->cos_sin + i * c->head_dim;
        float *k = m->k + i * kv_dim;
        rotate(m, k, cos_sin, c->n_kv_heads);
        store(m, l, &items[i], k, m->v + i * kv_dim);
        if (!attend(m, l, &items[i], m->q + i * q_dim, cos_sin, m->h + i * q_dim)) {
            return false;
        }
    }
    input_t heads = {.x = m->h, .cols = q_dim, .n = n};
    float *y = m->q; // the queries are used up, and there is room for dim
    matmul(m, y, &layer->attn_output, &heads);
    m->kernels->add(m->x, y, n * c->dim);
    return true;
}

// x += feed_forward(rmsnorm(x)).
static void feed_forward_block(llm_model_t *m, uint32_t l, uint32_t n) {
    const llm_config_t *c = &m->image.config;
    const llm_layer_t *layer = &m->layers[l];

    input_t h = norm(m, m->x, layer->ffn_norm, n, &layer->ffn_gate);
    matmul(m, m->gate, &layer->ffn_gate, &h);
    matmul(m, m->up, &layer->ffn_up, &h);
    input_t hidden = gated(m, n, &layer->ffn_down);
    float *y = m->h; // used up
    matmul(m, y, &layer->ffn_down, &hidden);
    m->kernels->add(m->x, y, n * c->dim);
}

// x = the embedding of a token. False if the source of a stream failed.
static bool look_up(llm_model_t *m, float *x, uint32_t token) {
    if (m->stream == NULL) {
        embed(x, &m->token_embd, token);
        return true;
    }
    llm_tensor_t tile;
    if (!llm_stream_embedding(m->stream, &m->image, token, &tile)) {
        return false;
    }
    embed(x, &tile, token % LLM_TILE);
    return true;
}

// Rows of the logits that make a part of the work: as many as pay for the other cores, if there are any. A stream gives a matrix at
// once, and the logits of a batch are not next to each other.
static uint32_t head_rows(const llm_model_t *m) {
    const llm_config_t *c = &m->image.config;
    if (m->stream != NULL || m->work.n_logits > 1) {
        return c->vocab_size;
    }
    uint64_t rows = 3 * (uint64_t)c->hidden_dim;
    if (m->parallel.n_cores > 1 && rows * c->dim < m->parallel.min_macs) {
        rows = (m->parallel.min_macs + c->dim - 1) / c->dim;
    }
    rows = (rows + LLM_TILE - 1) / LLM_TILE * LLM_TILE;
    return rows < c->vocab_size ? (uint32_t)rows : c->vocab_size;
}

// Rows `first` on of the logits = output rmsnorm(x), x the last of `n_block` tokens that want them.
static void head(llm_model_t *m, uint32_t n_block, uint32_t first) {
    uint32_t n = m->work.n_logits;
    input_t h = {.x = m->h, .cols = m->image.config.dim, .n = n, .quantized = true}; // as the first part left it
    if (first == 0) {
        for (uint32_t i = 0; i < m->kv.n_sequences; i++) {
            if (m->kv.sequences[i].row < n) {
                m->kv.sequences[i].row = LLM_NONE;
            }
        }
        h = norm(m, m->x + (n_block - n) * m->image.config.dim, m->output_norm, n, &m->output);
    }
    if (head_rows(m) == m->output.rows) {
        matmul(m, m->logits, &m->output, &h);
    } else {
        llm_tensor_t rows = llm_tensor_rows(&m->output, first / LLM_TILE, head_rows(m) / LLM_TILE);
        matmul(m, m->logits + first, &rows, &h);
    }
}

// Begins with the `n` tokens in m->work.items: their embeddings, and the angles at their positions.
static llm_status_t begin(llm_model_t *m, uint32_t n, uint32_t n_logits, llm_error_t *error) {
    const llm_config_t *c = &m->image.config;
    const llm_item_t *items = m->work.items;
    for (uint32_t i = 0; i < n; i++) {
        items[i].sequence->row = LLM_NONE;
    }
    if (m->stream != NULL && !llm_stream_begin(m->stream, &m->image, n_logits > 0)) {
        return llm_stream_fail(m->stream, error);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!look_up(m, m->x + i * c->dim, items[i].token)) {
            return llm_stream_fail(m->stream, error);
        }
        turn(m, m->cos_sin + i * c->head_dim, items[i].pos);
    }
    m->work.n = n;
    m->work.n_logits = n_logits;
    m->work.part = 0;
    return LLM_OK;
}

// The tokens of the block that is through are those of their sequences from now on.
static void finish(llm_model_t *m, uint32_t n) {
    const llm_work_t *work = &m->work;
    for (uint32_t i = 0; i < n; i++) {
        llm_sequence_t *s = work->items[i].sequence;
        llm_kv_set_id(&m->kv, s, work->items[i].pos, work->items[i].token);
        s->n_valid = work->items[i].pos + 1;
        s->n_tokens = llm_max(s->n_tokens, s->n_valid);
        if (i >= n - work->n_logits) {
            s->row = (uint16_t)(i - (n - work->n_logits));
        }
        llm_kv_settle(&m->kv, s);
    }
    if (m->stream != NULL) {
        llm_stream_end(m->stream);
    }
}

// Does the next part of the work; after the last one m->work.n is 0. LLM_ERROR_STORAGE if the store or the source failed: the
// sequences are as before.
static llm_status_t go_on(llm_model_t *m, llm_error_t *error) {
    llm_work_t *work = &m->work;
    uint32_t n = work->n;
    uint32_t part = work->part++;
    uint32_t head_part = 2 * m->image.config.n_layers;
    bool last = part + 1 == head_part && work->n_logits == 0;
    work->n = 0; // a store or a source may not return
    if (part >= head_part) {
        uint32_t first = (part - head_part) * head_rows(m);
        head(m, n, first);
        last = first + head_rows(m) >= m->output.rows;
    } else if (part % 2 != 0) {
        feed_forward_block(m, part / 2, n);
    } else if (!attention_block(m, part / 2, work->items, n)) {
        return llm_fail(error, LLM_ERROR_STORAGE, "spill: cannot be read", 0, 0);
    }
    if (m->stream != NULL && m->stream->failed) {
        return llm_stream_fail(m->stream, error);
    }
    if (last) {
        finish(m, n);
    } else {
        work->n = n;
    }
    return LLM_OK;
}

// ---------------------------------------------------------------------------- sequences

// Makes room for `n` tokens of a sequence, and items of them at its end without their ids.
static llm_status_t append(llm_model_t *m, llm_item_t *items, llm_sequence_t *s, uint32_t n, llm_error_t *error) {
    const llm_kv_t *kv = &m->kv;
    uint32_t first = s->first;
    bool failed;
    if (!llm_kv_reserve(&m->kv, s, n, &failed)) {
        return failed ? llm_fail(error, LLM_ERROR_STORAGE, "spill: cannot be written", 0, 0)
                      : llm_fail(error, LLM_ERROR_MEMORY, "cache: all {} units are taken by other sequences", kv->n_units[0] + kv->n_units[1], 0);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t pos = s->n_valid + i;
        uint32_t oldest = pos < kv->context ? kv->sinks : pos + 1 - (kv->context - kv->sinks);
        items[i] = (llm_item_t){.sequence = s, .pos = pos, .first = llm_max(first, oldest)};
    }
    return LLM_OK;
}

// Whether tokens [n] may be appended to a sequence.
static llm_status_t check_tokens(const llm_model_t *m, const llm_sequence_t *s, const uint32_t *tokens, size_t n, llm_error_t *error) {
    uint32_t limit = m->plan.policy == LLM_POLICY_ERROR ? m->plan.context : UINT32_MAX;
    if (n > limit - s->n_tokens) {
        return llm_fail(error, LLM_ERROR_CONTEXT, "tokens: {} do not fit, the context has room for {} more", n, limit - s->n_tokens);
    }
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] >= m->image.config.vocab_size) {
            return llm_fail(error, LLM_ERROR_VALUE, "tokens: {} is not below vocab_size {}", tokens[i], m->image.config.vocab_size);
        }
    }
    return LLM_OK;
}

// Begins with the next block of tokens [n], `*step` of which it takes, unless that is under way. `*step` is 0 if tokens come first
// that a rewind left without keys and values, or there are none.
static llm_status_t start(llm_model_t *m, llm_sequence_t *s, const uint32_t *tokens, size_t n, size_t *step, llm_error_t *error) {
    *step = 0;
    llm_status_t status = check_tokens(m, s, tokens, n, error);
    if (status != LLM_OK || n == 0) {
        return status;
    }
    uint32_t again = s->n_tokens - s->n_valid;
    uint32_t n_block = (uint32_t)(again > 0 ? again : n < LLM_MAX_BLOCK ? n
                                                                        : LLM_MAX_BLOCK);
    n_block = llm_min(n_block, m->plan.block);
    if (m->kv.paged) {
        n_block = llm_min(n_block, m->kv.page - s->n_valid % m->kv.page);
    }
    *step = again > 0 ? 0 : n_block;
    uint32_t n_logits = *step == n ? 1 : 0;
    const llm_item_t *items = m->work.items;
    bool under_way = m->work.n == n_block && m->work.n_logits == n_logits && items[0].sequence == s && items[0].pos == s->n_valid;
    for (uint32_t i = 0; i < *step && under_way; i++) {
        under_way = items[i].token == tokens[i];
    }
    if (under_way) {
        return LLM_OK;
    }
    m->work.n = 0;
    status = append(m, m->work.items, s, n_block, error);
    if (status != LLM_OK) {
        return status;
    }
    for (uint32_t i = 0; i < n_block; i++) {
        m->work.items[i].token = again > 0 ? llm_kv_id(&m->kv, s, items[i].pos) : tokens[i];
    }
    return begin(m, n_block, n_logits, error);
}

llm_status_t llm_sequence_eval(llm_model_t *model, llm_sequence_t *sequence, const uint32_t *tokens, size_t n, size_t *done, llm_error_t *error) {
    *done = 0;
    size_t step;
    llm_status_t status = start(model, sequence, tokens, n, &step, error);
    while (status == LLM_OK && n > 0 && model->work.n > 0) {
        status = go_on(model, error);
    }
    *done = status == LLM_OK ? step : 0;
    return status;
}

llm_status_t llm_sequence_eval_part(llm_model_t *model, llm_sequence_t *sequence, const uint32_t *tokens, size_t n, size_t *done, llm_error_t *error) {
    *done = 0;
    size_t step;
    llm_status_t status = start(model, sequence, tokens, n, &step, error);
    if (status == LLM_OK && n > 0) {
        status = go_on(model, error);
        *done = status == LLM_OK && model->work.n == 0 ? step : 0;
    }
    return status;
}

llm_status_t llm_model_eval(llm_model_t *model, const uint32_t *tokens, size_t n, llm_error_t *error) {
    size_t done;
    do {
        llm_status_t status = llm_sequence_eval(model, model->kv.sequences, tokens, n, &done, error);
        if (status != LLM_OK) {
            return status;
        }
        tokens += done;
        n -= done;
    } while (n > 0);
    return LLM_OK;
}

llm_status_t llm_model_eval_batch(llm_model_t *model, llm_sequence_t *const *sequences, const uint32_t *tokens, size_t n, bool *done, llm_error_t *error) {
    *done = false;
    if (n > model->plan.batch) {
        return llm_fail(error, LLM_ERROR_VALUE, "sequences: {} are too many, there is room for the logits of {}", n, model->plan.batch);
    }
    for (size_t i = 0; i < n; i++) {
        llm_status_t status = check_tokens(model, sequences[i], tokens + i, 1, error);
        if (status != LLM_OK) {
            return status;
        }
        for (size_t j = 0; j < i; j++) {
            if (sequences[j] == sequences[i]) {
                return llm_fail(error, LLM_ERROR_VALUE, "sequences: number {} is number {} again", i, j);
            }
        }
    }
    model->work.n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (sequences[i]->n_valid < sequences[i]->n_tokens) {
            size_t n_done;
            return llm_sequence_eval(model, sequences[i], tokens + i, 1, &n_done, error);
        }
        llm_status_t status = append(model, &model->work.items[i], sequences[i], 1, error);
        if (status != LLM_OK) {
            return status;
        }
        model->work.items[i].token = tokens[i];
    }
    *done = true;
    if (n == 0) {
        return LLM_OK;
    }
    llm_status_t status = begin(model, (uint32_t)n, (uint32_t)n, error);
    while (status == LLM_OK && model->work.n > 0) {
        status = go_on(model, error);
    }
    return status;
}

llm_status_t llm_sequence_rewind(llm_model_t *model, llm_sequence_t *sequence, uint32_t n, llm_error_t *error) {
    if (n > sequence->n_tokens) {
        return llm_fail(error, LLM_ERROR_VALUE, "n: must be an int from 0 to n_tokens {}", sequence->n_tokens, 0);
    }
    model->work.n = 0;
    if (n < sequence->n_tokens && !llm_kv_rewind(&model->kv, sequence, n)) {
        return llm_fail(error, LLM_ERROR_VALUE, "n: tokens from {} on have fallen out of the context, {} is the least but these", model->kv.sinks, sequence->first);
    }
    return LLM_OK;
}

uint32_t llm_sequence_reuse(llm_model_t *model, llm_sequence_t *sequence, const uint32_t *tokens, size_t n) {
    const llm_kv_t *kv = &model->kv;
    // Once the window has slid, only the sinks have been computed from what a prompt begins with.
    uint32_t end = sequence->first > kv->sinks ? kv->sinks : sequence->n_tokens;
    uint32_t same = 0;
    while (same < end && same + 1 < n && llm_kv_id(kv, sequence, same) == tokens[same]) {
        same++;
    }
    if (same < sequence->n_tokens) {
        model->work.n = 0;
        llm_kv_rewind(&model->kv, sequence, same);
    }
    return same;
}

llm_sequence_t *llm_sequence_open(llm_model_t *model) {
    for (uint32_t i = 1; i < model->kv.n_sequences; i++) {
        llm_sequence_t *s = &model->kv.sequences[i];
        if (!s->open) {
            s->open = true;
            return s;
        }
    }
    return NULL;
}

void llm_sequence_close(llm_model_t *model, llm_sequence_t *sequence) {
    model->work.n = 0;
    llm_kv_rewind(&model->kv, sequence, 0);
    sequence->open = false;
}

void llm_sequence_fork(llm_model_t *model, llm_sequence_t *sequence, const llm_sequence_t *from) {
    if (sequence != from) {
        model->work.n = 0;
        llm_kv_rewind(&model->kv, sequence, 0);
        llm_kv_fork(&model->kv, sequence, from);
    }
}

float *llm_sequence_logits(const llm_model_t *model, const llm_sequence_t *sequence) {
    return sequence->row == LLM_NONE ? NULL : model->logits + (size_t)sequence->row * model->image.config.vocab_size;
}

uint32_t llm_sequence_n_cached(const llm_model_t *model, const llm_sequence_t *sequence) {
    const llm_kv_t *kv = &model->kv;
    return sequence->first > kv->sinks ? kv->sinks + sequence->n_tokens - sequence->first : sequence->n_tokens;
}

uint32_t llm_sequence_token(const llm_model_t *model, const llm_sequence_t *sequence, uint32_t i) {
    const llm_kv_t *kv = &model->kv;
    return llm_kv_id(kv, sequence, i < kv->sinks ? i : i - kv->sinks + sequence->first);
}

llm_status_t llm_sequence_sample(llm_model_t *model, llm_sequence_t *sequence, llm_sampler_t *sampler, uint32_t *token, llm_error_t *error) {
    float *logits = llm_sequence_logits(model, sequence);
    if (logits == NULL) {
        return llm_fail(error, LLM_ERROR_VALUE, "logits: there are none, evaluate a token first (sampling uses them up)", 0, 0);
    }
    uint32_t n = llm_sequence_n_cached(model, sequence);
    uint32_t n_recent = sampler->repetition_penalty == 1.0f ? 0 : llm_min(n, sampler->repeat_last_n);
    uint32_t *recent = model->scratch; // has room for more than an id a position
    for (uint32_t i = 0; i < n_recent; i++) {
        recent[i] = llm_sequence_token(model, sequence, n - n_recent + i);
    }
    *token = llm_sample(sampler, logits, model->image.config.vocab_size, recent, n_recent);
    sequence->row = LLM_NONE;
    return LLM_OK;
}

llm_event_t llm_model_event(llm_model_t *model, uint32_t *n) {
    uint32_t *counts[] = {&model->kv.slid, &model->kv.compressed, &model->kv.spilled};
    for (uint32_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        if (*counts[i] != 0) {
            *n = *counts[i];
            *counts[i] = 0;
            return (llm_event_t)(LLM_EVENT_SLIDE + i);
        }
    }
    *n = 0;
    return LLM_EVENT_NONE;
}

void *llm_model_scratch(llm_model_t *model, size_t *size) {
    model->work.n = 0;
    *size = model->plan.activations;
    return model->x;
}
