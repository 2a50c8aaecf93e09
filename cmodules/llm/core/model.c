// The model: how its RAM is planned, and the forward pass.
#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/numeric.h"
#include "image.h"
#include "matmul.h"

#define DEFAULT_BLOCK 8

static const llm_options_t default_options = {0};

// ---------------------------------------------------------------------------- plan

static uint64_t align(uint64_t size) {
    return (size + LLM_ALIGNMENT - 1) & ~(uint64_t)(LLM_ALIGNMENT - 1);
}

static uint32_t larger(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

// The parts of a model's RAM in bytes, in the order in which they lie there.
typedef struct {
    uint64_t layers; // llm_model_t.layers
    uint64_t kv; // keys or values, there are two of them
    uint64_t kv_scales; // of keys or values
    uint64_t x; // and so on: fields of llm_model_t
    uint64_t h;
    uint64_t q;
    uint64_t kv_now; // k or v
    uint64_t hidden; // gate or up
    uint64_t codes;
    uint64_t code_scales;
    uint64_t cos_sin;
    uint64_t scratch;
    uint64_t logits;
    uint64_t tokens;
    uint32_t codes_stride; // codes between two vectors of them
} parts_t;

static parts_t measure(const llm_config_t *c, const llm_plan_t *plan, const llm_kernels_t *kernels) {
    uint32_t q_dim = c->n_heads * c->head_dim;
    uint32_t kv_dim = c->n_kv_heads * c->head_dim;
    uint64_t kv_rows = (uint64_t)c->n_layers * c->n_kv_heads * plan->context;
    uint64_t block = plan->block;
    bool int8 = plan->cache == LLM_CACHE_INT8;
    parts_t p;
    p.layers = align(c->n_layers * sizeof(llm_layer_t));
    p.kv = align(kv_rows * c->head_dim * (int8 ? sizeof(int8_t) : sizeof(float)));
    p.kv_scales = int8 ? align(kv_rows * sizeof(uint16_t)) : 0;
    p.x = align(block * c->dim * sizeof(float));
    p.h = align(block * larger(c->dim, q_dim) * sizeof(float));
    p.q = align(block * larger(c->dim, q_dim) * sizeof(float));
    p.kv_now = align(block * kv_dim * sizeof(float));
    p.hidden = align(block * c->hidden_dim * sizeof(float));
    p.codes_stride = llm_n_groups(larger(larger(c->dim, q_dim), c->hidden_dim)) * LLM_GROUP;
    p.codes = align(block * p.codes_stride * kernels->code_size);
    p.code_scales = align(block * sizeof(float));
    p.cos_sin = align(block * c->head_dim * sizeof(float));
    p.scratch = align(LLM_ATTENTION_SCRATCH(c->n_heads / c->n_kv_heads, plan->context, c->head_dim));
    p.logits = align((uint64_t)c->vocab_size * sizeof(float));
    p.tokens = align((uint64_t)plan->context * sizeof(uint32_t));
    return p;
}

// Attention and feed-forward take turns: the larger of what they need.
static uint64_t turns(const parts_t *p) {
    uint64_t attention = p->q + 2 * p->kv_now + p->scratch;
    uint64_t feed_forward = 2 * p->hidden;
    return attention > feed_forward ? attention : feed_forward;
}

static bool all_f32(const llm_image_t *image) {
    for (uint32_t i = 0; i < image->n_tensors; i++) {
        llm_dtype_t dtype = llm_image_tensor(image, i).dtype;
        if (dtype == LLM_INT8 || dtype == LLM_INT4) {
            return false;
        }
    }
    return true;
}

static const llm_kernels_t *kernels_of(const llm_options_t *options) {
    return options->kernels != NULL ? options->kernels : llm_kernels_find(NULL);
}

llm_status_t llm_plan(const llm_image_t *image, const llm_options_t *options, llm_plan_t *plan, llm_error_t *error) {
    if (options == NULL) {
        options = &default_options;
    }
    const llm_config_t *c = &image->config;
    if (options->context > c->context) {
        return llm_fail(error, LLM_ERROR_VALUE, "context: {} is more than the {} positions the model was trained for", options->context, c->context);
    }
    if (options->block > LLM_MAX_BLOCK) {
        return llm_fail(error, LLM_ERROR_VALUE, "block: is {}, must be 1 to {}", options->block, LLM_MAX_BLOCK);
    }
    if (options->cache > LLM_CACHE_F32) {
        return llm_fail(error, LLM_ERROR_VALUE, "cache: kind {} is unknown", options->cache, 0);
    }
    plan->context = options->context != 0 ? options->context : c->context;
    plan->block = options->block != 0 ? options->block : DEFAULT_BLOCK;
    plan->cache = options->cache;
    if (plan->cache == LLM_CACHE_AUTO) {
        plan->cache = all_f32(image) ? LLM_CACHE_F32 : LLM_CACHE_INT8;
    }
    parts_t p = measure(c, plan, kernels_of(options));
    uint64_t kv = 2 * (p.kv + p.kv_scales);
    uint64_t activations = p.x + p.h + p.codes + p.code_scales + p.cos_sin + turns(&p);
    uint64_t total = p.layers + kv + activations + p.logits + p.tokens;
    if (total > SIZE_MAX / 2) {
        return llm_fail(error, LLM_ERROR_VALUE, "context: {} positions need {} bytes, more than can be addressed", plan->context, total);
    }
    plan->tensors = (size_t)p.layers;
    plan->kv = (size_t)kv;
    plan->activations = (size_t)activations;
    plan->logits = (size_t)p.logits;
    plan->tokens = (size_t)p.tokens;
    plan->total = (size_t)total;
    return LLM_OK;
}

// ---------------------------------------------------------------------------- making a model

// Takes `size` bytes from the front of what is left.
static void *take(uint8_t **free, uint64_t size) {
    void *part = *free;
    *free += size;
    return part;
}

static void lay_out(llm_model_t *m, uint8_t *ram) {
    parts_t p = measure(&m->image.config, &m->plan, m->kernels);
    bool int8 = m->plan.cache == LLM_CACHE_INT8;
    m->layers = take(&ram, p.layers);
    m->kv.k = take(&ram, p.kv);
    m->kv.v = take(&ram, p.kv);
    m->kv.k_scale = int8 ? take(&ram, p.kv_scales) : NULL;
    m->kv.v_scale = int8 ? take(&ram, p.kv_scales) : NULL;
    m->logits = take(&ram, p.logits);
    m->tokens = take(&ram, p.tokens);
    m->x = take(&ram, p.x);
    m->h = take(&ram, p.h);
    m->codes = take(&ram, p.codes);
    m->codes_stride = p.codes_stride;
    m->code_scales = take(&ram, p.code_scales);
    m->cos_sin = take(&ram, p.cos_sin);
    uint8_t *attention = ram;
    m->q = take(&attention, p.q);
    m->k = take(&attention, p.kv_now);
    m->v = take(&attention, p.kv_now);
    m->scratch = attention;
    uint8_t *feed_forward = ram;
    m->gate = take(&feed_forward, p.hidden);
    m->up = take(&feed_forward, p.hidden);
}

static void find_tensors(llm_model_t *m) {
    const llm_image_t *image = &m->image;
    for (uint32_t l = 0; l < image->config.n_layers; l++) {
        uint32_t first = l * LLM_TENSORS_PER_LAYER;
        llm_layer_t *layer = &m->layers[l];
        layer->attn_norm = llm_image_tensor(image, first);
        layer->attn_q = llm_image_tensor(image, first + 1);
        layer->attn_k = llm_image_tensor(image, first + 2);
        layer->attn_v = llm_image_tensor(image, first + 3);
        layer->attn_output = llm_image_tensor(image, first + 4);
        layer->ffn_norm = llm_image_tensor(image, first + 5);
        layer->ffn_gate = llm_image_tensor(image, first + 6);
        layer->ffn_up = llm_image_tensor(image, first + 7);
        layer->ffn_down = llm_image_tensor(image, first + 8);
    }
    uint32_t i = image->config.n_layers * LLM_TENSORS_PER_LAYER;
    m->token_embd = llm_image_tensor(image, i++);
    m->output_norm = llm_image_tensor(image, i++);
    m->output = image->config.tied ? m->token_embd : llm_image_tensor(image, i++);
    m->rope_phase = llm_image_tensor(image, i).data;
}

llm_status_t llm_model_init(llm_model_t *model, const llm_image_t *image, const llm_options_t *options, void *ram, size_t ram_size, llm_error_t *error) {
    if (options == NULL) {
        options = &default_options;
    }
    memset(model, 0, sizeof(*model));
    llm_status_t status = llm_plan(image, options, &model->plan, error);
    if (status != LLM_OK) {
        return status;
    }
    if ((uintptr_t)ram % LLM_ALIGNMENT != 0) {
        return llm_fail(error, LLM_ERROR_VALUE, "ram: must begin at a multiple of {}", LLM_ALIGNMENT, 0);
    }
    if (ram_size < model->plan.total) {
        return llm_fail(error, LLM_ERROR_MEMORY, "the model needs {} bytes of RAM, {} are given", model->plan.total, ram_size);
    }
    model->image = *image;
    model->kernels = kernels_of(options);
    model->parallel = options->parallel;
    lay_out(model, ram);
    find_tensors(model);
    return LLM_OK;
}

// ---------------------------------------------------------------------------- forward pass

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

// y [n][rows] = w x.
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
    llm_multiply(m->kernels, &m->parallel, y, w, &x);
}

// h [n][dim] = rmsnorm(x [n][dim]) as the input of matrices, the first of which is `next`.
static input_t norm(llm_model_t *m, const float *x, const llm_tensor_t *w, uint32_t n, const llm_tensor_t *next) {
    uint32_t dim = m->image.config.dim;
    float eps = m->image.config.norm_eps;
    bool quantized = next->dtype != LLM_F32;
    for (uint32_t i = 0; i < n; i++) {
        if (quantized) {
            m->code_scales[i] = m->kernels->rmsnorm_quantize(codes_of(m, i), m->h + i * dim, x + i * dim, w->data, dim, eps);
        } else {
            m->kernels->rmsnorm(m->h + i * dim, x + i * dim, w->data, dim, eps);
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

// Copies the keys and values of one token to its place in the cache.
static void store(llm_model_t *m, uint32_t l, uint32_t pos, const float *k, const float *v) {
    const llm_config_t *c = &m->image.config;
    for (uint32_t h = 0; h < c->n_kv_heads; h++, k += c->head_dim, v += c->head_dim) {
        size_t row = ((size_t)l * c->n_kv_heads + h) * m->plan.context + pos;
        if (m->plan.cache == LLM_CACHE_INT8) {
            m->kv.k_scale[row] = m->kernels->quantize_kv((int8_t *)m->kv.k + row * c->head_dim, k, c->head_dim);
            m->kv.v_scale[row] = m->kernels->quantize_kv((int8_t *)m->kv.v + row * c->head_dim, v, c->head_dim);
        } else {
            memcpy((float *)m->kv.k + row * c->head_dim, k, c->head_dim * sizeof(float));
            memcpy((float *)m->kv.v + row * c->head_dim, v, c->head_dim * sizeof(float));
        }
    }
}

// out [n_heads][head_dim] = attention of one token's queries over the positions up to its own.
static void attend(llm_model_t *m, uint32_t l, uint32_t pos, const float *q, float *out) {
    const llm_config_t *c = &m->image.config;
    uint32_t n_queries = c->n_heads / c->n_kv_heads;
    bool int8 = m->plan.cache == LLM_CACHE_INT8;
    for (uint32_t h = 0; h < c->n_kv_heads; h++) {
        size_t row = ((size_t)l * c->n_kv_heads + h) * m->plan.context;
        size_t offset = row * c->head_dim * (int8 ? sizeof(int8_t) : sizeof(float));
        const llm_attention_t a = {
            .q = q + h * n_queries * c->head_dim,
            .out = out + h * n_queries * c->head_dim,
            .n_queries = n_queries,
            .n_positions = pos + 1,
            .head_dim = c->head_dim,
            .scratch = m->scratch,
        };
        const llm_run_t run = {
            .k = (const uint8_t *)m->kv.k + offset,
            .v = (const uint8_t *)m->kv.v + offset,
            .k_scale = int8 ? m->kv.k_scale + row : NULL,
            .v_scale = int8 ? m->kv.v_scale + row : NULL,
            .first = 0,
            .n = pos + 1,
        };
        if (int8) {
            m->kernels->attention_query(&a);
            m->kernels->attention_scores(&a, &run);
            m->kernels->attention_values(&a, &run);
        } else {
            m->kernels->attention_f32(&a, &run);
        }
    }
}

// x += attention(rmsnorm(x)).
static void attention_block(llm_model_t *m, uint32_t l, uint32_t n) {
    const llm_config_t *c = &m->image.config;
    const llm_layer_t *layer = &m->layers[l];
    uint32_t q_dim = c->n_heads * c->head_dim;
    uint32_t kv_dim = c->n_kv_heads * c->head_dim;

    input_t h = norm(m, m->x, &layer->attn_norm, n, &layer->attn_q);
    matmul(m, m->q, &layer->attn_q, &h);
    matmul(m, m->k, &layer->attn_k, &h);
    matmul(m, m->v, &layer->attn_v, &h);
    for (uint32_t i = 0; i < n; i++) {
        const float *cosines = m->cos_sin + i * c->head_dim;
        const float *sines = cosines + c->head_dim / 2;
        m->kernels->rope(m->q + i * q_dim, cosines, sines, c->n_heads, c->head_dim, c->rope);
        m->kernels->rope(m->k + i * kv_dim, cosines, sines, c->n_kv_heads, c->head_dim, c->rope);
        store(m, l, m->n_tokens + i, m->k + i * kv_dim, m->v + i * kv_dim);
    }
    for (uint32_t i = 0; i < n; i++) {
        attend(m, l, m->n_tokens + i, m->q + i * q_dim, m->h + i * q_dim);
    }
    input_t heads = {.x = m->h, .cols = q_dim, .n = n};
    float *y = m->q; // the queries are used up, and there is room for dim
    matmul(m, y, &layer->attn_output, &heads);
    m->kernels->add(m->x, y, n * c->dim);
}

// x += feed_forward(rmsnorm(x)).
static void feed_forward_block(llm_model_t *m, uint32_t l, uint32_t n) {
    const llm_config_t *c = &m->image.config;
    const llm_layer_t *layer = &m->layers[l];

    input_t h = norm(m, m->x, &layer->ffn_norm, n, &layer->ffn_gate);
    matmul(m, m->gate, &layer->ffn_gate, &h);
    matmul(m, m->up, &layer->ffn_up, &h);
    input_t hidden = gated(m, n, &layer->ffn_down);
    float *y = m->h; // used up
    matmul(m, y, &layer->ffn_down, &hidden);
    m->kernels->add(m->x, y, n * c->dim);
}

// Runs `n` tokens, at most plan.block, through all layers into x [n][dim]; their keys and values join the cache.
static void forward(llm_model_t *m, const uint32_t *tokens, uint32_t n) {
    const llm_config_t *c = &m->image.config;
    for (uint32_t i = 0; i < n; i++) {
        embed(m->x + i * c->dim, &m->token_embd, tokens[i]);
        float *cosines = m->cos_sin + i * c->head_dim;
        float *sines = cosines + c->head_dim / 2;
        for (uint32_t j = 0; j < c->head_dim / 2; j++) {
            llm_sincos((m->n_tokens + i) * m->rope_phase[j], &sines[j], &cosines[j]);
        }
    }
    for (uint32_t l = 0; l < c->n_layers; l++) {
        attention_block(m, l, n);
        feed_forward_block(m, l, n);
    }
    memcpy(m->tokens + m->n_tokens, tokens, n * sizeof(*tokens));
    m->n_tokens += n;
}

// logits = output rmsnorm(x) for the `i`-th token of the last block.
static void head(llm_model_t *m, uint32_t i) {
    const llm_config_t *c = &m->image.config;
    input_t h = norm(m, m->x + i * c->dim, &m->output_norm, 1, &m->output);
    matmul(m, m->logits, &m->output, &h);
    m->has_logits = true;
}

llm_status_t llm_model_eval_block(llm_model_t *model, const uint32_t *tokens, size_t n, size_t *done, llm_error_t *error) {
    *done = 0;
    if (n > model->plan.context - model->n_tokens) {
        return llm_fail(error, LLM_ERROR_CONTEXT, "tokens: {} do not fit, the context has room for {} more", n, model->plan.context - model->n_tokens);
    }
    for (size_t i = 0; i < n; i++) {
        if (tokens[i] >= model->image.config.vocab_size) {
            return llm_fail(error, LLM_ERROR_VALUE, "tokens: {} is not below vocab_size {}", tokens[i], model->image.config.vocab_size);
        }
    }
    if (n == 0) {
        return LLM_OK;
    }
    uint32_t step = n < model->plan.block ? (uint32_t)n : model->plan.block;
    model->has_logits = false;
    forward(model, tokens, step);
    if (step == n) {
        head(model, step - 1);
    }
    *done = step;
    return LLM_OK;
}

llm_status_t llm_model_eval(llm_model_t *model, const uint32_t *tokens, size_t n, llm_error_t *error) {
    size_t done;
    do {
        llm_status_t status = llm_model_eval_block(model, tokens, n, &done, error);
        if (status != LLM_OK) {
            return status;
        }
        tokens += done;
        n -= done;
    } while (n > 0);
    return LLM_OK;
}

void llm_model_rewind(llm_model_t *model, uint32_t n) {
    if (n < model->n_tokens) {
        model->n_tokens = n;
        model->has_logits = false;
    }
}

llm_status_t llm_model_sample(llm_model_t *model, llm_sampler_t *sampler, uint32_t *token, llm_error_t *error) {
    if (!model->has_logits) {
        return llm_fail(error, LLM_ERROR_VALUE, "logits: there are none, evaluate a token first (sampling uses them up)", 0, 0);
    }
    uint32_t n_recent = model->n_tokens < sampler->repeat_last_n ? model->n_tokens : sampler->repeat_last_n;
    *token = llm_sample(sampler, model->logits, model->image.config.vocab_size, model->tokens + model->n_tokens - n_recent, n_recent);
    model->has_logits = false;
    return LLM_OK;
}
