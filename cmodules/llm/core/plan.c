// How a model's RAM is planned and laid out.
#include <string.h>

#include "../kernels/kernels.h"
#include "../kernels/numeric.h"
#include "image.h"
#include "stream.h"

#define DEFAULT_BLOCK 8

static const llm_options_t default_options = {0};

// The first tokens that stay.
static uint32_t sinks_of(uint32_t context) {
    return context < 2 * LLM_SINKS ? context / 2 : LLM_SINKS;
}

// Pages that a sequence holds at most.
static uint32_t table_of(const llm_plan_t *plan, uint32_t context) {
    if (plan->layout == LLM_LAYOUT_STATIC) {
        return 1;
    }
    if (plan->policy == LLM_POLICY_ERROR) {
        return (context + LLM_PAGE - 1) / LLM_PAGE;
    }
    // The one of the sinks, and those that the window touches however it lies.
    return 2 + (context - sinks_of(context) + LLM_PAGE - 2) / LLM_PAGE;
}

// Bytes of a part of a page (cache.h), as computed and compressed.
static uint32_t part_size(const llm_config_t *c, const llm_plan_t *plan) {
    return plan->page * (plan->cache == LLM_CACHE_F32 ? c->head_dim * (uint32_t)sizeof(float) : c->head_dim + 2);
}

static uint32_t part4_size(const llm_config_t *c, const llm_plan_t *plan) {
    return plan->page * (c->head_dim + 2) + (uint32_t)llm_align(2 * c->head_dim);
}

static bool can_compress(const llm_plan_t *plan) {
    return plan->layout == LLM_LAYOUT_PAGED && plan->cache != LLM_CACHE_F32;
}

// Bytes of an id in a sequence.
static uint32_t id_size(const llm_config_t *c) {
    return c->vocab_size > 65536 ? sizeof(uint32_t) : sizeof(uint16_t);
}

// The parts of a model's RAM in bytes, in the order in which they lie there.
typedef struct {
    uint64_t layers; // llm_model_t.layers
    uint64_t sequences; // and so on: fields of llm_kv_t
    uint64_t pages;
    uint64_t tables; // of pages, all sequences
    uint64_t links;
    uint64_t unit; // bytes of a unit
    uint64_t pool; // of all in RAM
    uint64_t logits; // fields of llm_model_t
    uint64_t tokens; // ids, all sequences
    uint64_t x;
    uint64_t h;
    uint64_t codes;
    uint64_t code_scales;
    uint64_t cos_sin;
    uint64_t q;
    uint64_t kv_now; // k or v
    uint64_t q_sinks;
    uint64_t q_page;
    uint64_t kv_scratch; // llm_kv_t.scratch
    uint64_t scratch;
    uint64_t hidden; // gate or up
    uint64_t stream; // llm_stream_t and its buffers
    uint32_t codes_stride; // codes between two vectors of them
} parts_t;

static parts_t measure(const llm_config_t *c, const llm_plan_t *plan, const llm_kernels_t *kernels) {
    uint32_t q_dim = c->n_heads * c->head_dim;
    uint32_t kv_dim = c->n_kv_heads * c->head_dim;
    uint32_t n_queries = c->n_heads / c->n_kv_heads;
    uint64_t n_sequences = 1 + (uint64_t)plan->sequences;
    uint64_t block = plan->block;
    bool compress = can_compress(plan);
    bool slide = plan->policy != LLM_POLICY_ERROR;
    parts_t p;
    p.layers = llm_align(c->n_layers * sizeof(llm_layer_t));
    // These four need no alignment that they do not give each other.
    p.sequences = n_sequences * sizeof(llm_sequence_t);
    p.pages = n_sequences * plan->table * sizeof(llm_page_t);
    p.tables = n_sequences * plan->table * sizeof(uint16_t);
    p.links = (plan->n_units + (uint64_t)plan->n_spill) * sizeof(uint16_t);
    p.unit = llm_align((uint64_t)c->n_layers * c->n_kv_heads * (compress ? part4_size(c, plan) : part_size(c, plan)));
    p.pool = plan->n_units * p.unit;
    p.logits = llm_align((uint64_t)plan->batch * c->vocab_size * sizeof(float));
    p.tokens = llm_align(n_sequences * plan->context * id_size(c));
    p.x = llm_align(block * c->dim * sizeof(float));
    p.h = llm_align(block * llm_max(c->dim, q_dim) * sizeof(float));
    p.q = llm_align(block * llm_max(c->dim, q_dim) * sizeof(float));
    p.kv_now = llm_align(block * kv_dim * sizeof(float));
    p.q_sinks = slide ? llm_align((q_dim + c->head_dim) * sizeof(float)) : 0;
    p.q_page = compress ? llm_align(n_queries * c->head_dim * sizeof(float)) : 0;
    p.kv_scratch = compress ? LLM_KV_SCRATCH(plan->page, c->head_dim) : 0;
    p.scratch = llm_align(LLM_ATTENTION_SCRATCH(n_queries, plan->context, c->head_dim));
    p.hidden = llm_align(block * c->hidden_dim * sizeof(float));
    p.codes_stride = llm_n_groups(llm_max(llm_max(c->dim, q_dim), c->hidden_dim)) * LLM_GROUP;
    p.codes = llm_align(block * p.codes_stride * kernels->code_size);
    p.code_scales = llm_align(block * sizeof(float));
    p.cos_sin = llm_align(block * c->head_dim * sizeof(float));
    p.stream = plan->stream_codes == 0 ? 0 : llm_align(sizeof(llm_stream_t)) + 2 * ((uint64_t)plan->stream_codes + plan->stream_scales);
    return p;
}

static uint64_t bookkeeping(const parts_t *p) {
    return llm_align(p->sequences + p->pages + p->tables + p->links);
}

// Attention and feed-forward take turns: the larger of what they need.
static uint64_t turns(const parts_t *p) {
    uint64_t attention = p->q + 2 * p->kv_now + p->q_sinks + p->q_page + p->kv_scratch + p->scratch;
    uint64_t feed_forward = 2 * p->hidden;
    return attention > feed_forward ? attention : feed_forward;
}

static uint64_t activations(const parts_t *p) {
    return p->x + p->h + p->codes + p->code_scales + p->cos_sin + turns(p);
}

static uint64_t total(const parts_t *p) {
    return p->layers + bookkeeping(p) + p->pool + activations(p) + p->logits + p->tokens + p->stream;
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

// Units that all sequences fill at most, when what is compressed only by pressure is not.
static uint64_t full_units(const llm_plan_t *plan) {
    return (1 + (uint64_t)plan->sequences) * (plan->cache == LLM_CACHE_INT4 ? plan->table + 1 : 2 * plan->table);
}

// And at least: every page compressed but the one that is written.
static uint64_t least_units(const llm_plan_t *plan) {
    return can_compress(plan) ? (1 + (uint64_t)plan->sequences) * (plan->table + 1) : full_units(plan);
}

// Sets what follows from the context and the layout; the pool has the units that the sequences fill.
static void set_context(llm_plan_t *plan, uint32_t context) {
    plan->context = context;
    plan->page = plan->layout == LLM_LAYOUT_STATIC ? (context + 7) & ~7u : LLM_PAGE;
    plan->table = table_of(plan, context);
    uint64_t n = full_units(plan);
    plan->n_units = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

// Sets the layout that `options` ask for, or the best for a context.
static void set_layout(llm_plan_t *plan, const llm_options_t *options, uint32_t context) {
    plan->layout = options->layout;
    if (plan->layout == LLM_LAYOUT_AUTO) {
        bool pages = context > LLM_STATIC_CONTEXT || plan->cache == LLM_CACHE_INT4 || options->policy == LLM_POLICY_COMPRESS || options->spill.size != 0;
        plan->layout = pages ? LLM_LAYOUT_PAGED : LLM_LAYOUT_STATIC;
    }
    set_context(plan, context);
}

// Bytes that the model takes with a context, uncompressed or as much `compressed` as can be.
static uint64_t total_for(const llm_config_t *c, const llm_plan_t *like, const llm_options_t *options, uint32_t context, bool compressed) {
    llm_plan_t plan = *like;
    plan.n_spill = 0;
    set_layout(&plan, options, context);
    parts_t p = measure(c, &plan, kernels_of(options));
    uint64_t plain = total(&p);
    if (!compressed || plan.cache == LLM_CACHE_F32 || options->layout == LLM_LAYOUT_STATIC) {
        return plain;
    }
    plan.layout = LLM_LAYOUT_PAGED;
    set_context(&plan, context);
    plan.n_units = (uint32_t)least_units(&plan);
    p = measure(c, &plan, kernels_of(options));
    return total(&p) < plain ? total(&p) : plain;
}

// The longest context for which there is room, 0 if there is none.
static uint32_t longest_context(const llm_config_t *c, const llm_plan_t *like, const llm_options_t *options, bool compressed) {
    uint32_t fits = 0;
    uint32_t end = c->context + 1;
    while (end - fits > 1) {
        uint32_t middle = fits + (end - fits) / 2;
        *(total_for(c, like, options, middle, compressed) <= options->ram ? &fits : &end) = middle;
    }
    return fits;
}

// Gives the pool as many units, at most plan->n_units, as fit into `ram` bytes.
static void fit_units(const llm_config_t *c, llm_plan_t *plan, const llm_kernels_t *kernels, uint64_t ram) {
    uint32_t wanted = plan->n_units;
    plan->n_units = 0;
    parts_t p = measure(c, plan, kernels);
    uint64_t room = total(&p) < ram ? (ram - total(&p)) / p.unit : 0;
    plan->n_units = room < wanted ? (uint32_t)room : wanted;
    // The links of the units and their alignment come on top: a unit or two less.
    for (p = measure(c, plan, kernels); plan->n_units > 0 && total(&p) > ram; p = measure(c, plan, kernels)) {
        plan->n_units--;
    }
}

// Divides options->ram.
static llm_status_t plan_ram(const llm_config_t *c, const llm_options_t *options, llm_plan_t *plan, uint64_t least, llm_error_t *error) {
    const llm_kernels_t *kernels = kernels_of(options);
    uint32_t wanted = plan->n_units;
    fit_units(c, plan, kernels, options->ram);
    if (plan->n_units < least && plan->n_units < wanted && options->layout == LLM_LAYOUT_AUTO && plan->layout == LLM_LAYOUT_STATIC) {
        plan->layout = LLM_LAYOUT_PAGED; // whose pages can be compressed
        set_context(plan, plan->context);
        least = least_units(plan);
        wanted = plan->n_units;
        fit_units(c, plan, kernels, options->ram);
    }
    if (plan->n_units >= least || plan->n_units >= wanted) {
        return LLM_OK;
    }
    plan->n_units = (uint32_t)(least < wanted ? least : wanted);
    parts_t p = measure(c, plan, kernels);
    llm_error_t first;
    llm_fail(&first, LLM_ERROR_MEMORY, "ram: {} bytes are needed and {} given; context={} would fit, {} with old pages compressed", total(&p), options->ram);
    return llm_fail(error, LLM_ERROR_MEMORY, first.message, longest_context(c, plan, options, false), longest_context(c, plan, options, true));
}

// Lets the context grow as far as the pool holds it compressed.
static void grow_context(const llm_config_t *c, const llm_options_t *options, llm_plan_t *plan) {
    uint32_t n_units = plan->n_units;
    while (plan->context < c->context) {
        llm_plan_t next = *plan;
        set_context(&next, llm_min(c->context, plan->context + LLM_PAGE));
        next.n_units = n_units;
        parts_t p = measure(c, &next, kernels_of(options));
        if (least_units(&next) > n_units || (options->ram != 0 && total(&p) > options->ram)) {
            return;
        }
        *plan = next;
    }
}

static llm_status_t check_options(const llm_options_t *options, const llm_config_t *c, const llm_plan_t *plan, llm_error_t *error) {
    if (options->context > c->context) {
        return llm_fail(error, LLM_ERROR_VALUE, "context: {} is more than the {} positions the model was trained for", options->context, c->context);
    }
    if (options->block > LLM_MAX_BLOCK) {
        return llm_fail(error, LLM_ERROR_VALUE, "block: is {}, must be 1 to {}", options->block, LLM_MAX_BLOCK);
    }
    if (options->stream > LLM_STREAM_MAX) {
        return llm_fail(error, LLM_ERROR_VALUE, "stream: is {}, must be 0 to {}", options->stream, LLM_STREAM_MAX);
    }
    if (options->sequences > LLM_MAX_SEQUENCES) {
        return llm_fail(error, LLM_ERROR_VALUE, "sequences: is {}, must be 0 to {}", options->sequences, LLM_MAX_SEQUENCES);
    }
    if (plan->batch > plan->block) {
        return llm_fail(error, LLM_ERROR_VALUE, "block: is {}, must be at least {}, the sequences that are evaluated together", plan->block, plan->batch);
    }
    if (options->cache > LLM_CACHE_INT4) {
        return llm_fail(error, LLM_ERROR_VALUE, "cache: kind {} is unknown", options->cache, 0);
    }
    if (options->layout > LLM_LAYOUT_PAGED || options->policy > LLM_POLICY_COMPRESS) {
        return llm_fail(error, LLM_ERROR_VALUE, "layout or policy: kind {} or {} is unknown", options->layout, options->policy);
    }
    bool needs_pages = options->cache == LLM_CACHE_INT4 || options->policy == LLM_POLICY_COMPRESS || options->spill.size != 0;
    if (needs_pages && options->layout == LLM_LAYOUT_STATIC) {
        return llm_fail(error, LLM_ERROR_VALUE, "kv: 'static' has no pages to compress or spill, choose 'paged'", 0, 0);
    }
    if (plan->cache == LLM_CACHE_F32 && (options->policy == LLM_POLICY_COMPRESS || options->spill.size != 0)) {
        return llm_fail(error, LLM_ERROR_VALUE, "cache: 'f32' is neither compressed nor spilled, choose 'int8'", 0, 0);
    }
    return LLM_OK;
}

llm_status_t llm_plan(const llm_image_t *image, const llm_options_t *options, llm_plan_t *plan, llm_error_t *error) {
    if (options == NULL) {
        options = &default_options;
    }
    const llm_config_t *c = &image->config;
    plan->batch = llm_max(options->batch, 1);
    plan->block = options->block != 0 ? options->block : llm_max(DEFAULT_BLOCK, llm_min(plan->batch, LLM_MAX_BLOCK));
    plan->sequences = options->sequences;
    plan->policy = options->policy;
    plan->cache = options->cache;
    if (plan->cache == LLM_CACHE_AUTO) {
        plan->cache = all_f32(image) ? LLM_CACHE_F32 : LLM_CACHE_INT8;
    }
    llm_status_t status = check_options(options, c, plan, error);
    if (status != LLM_OK) {
        return status;
    }
    plan->stream_codes = 0;
    plan->stream_scales = 0;
    if (image->source != NULL) {
        llm_stream_plan(image, options->stream, &plan->stream_codes, &plan->stream_scales);
    }
    plan->n_spill = 0;
    set_layout(plan, options, options->context != 0 ? options->context : c->context);
    parts_t p = measure(c, plan, kernels_of(options));
    uint64_t least = least_units(plan);
    if (options->spill.size != 0) {
        // In RAM: a page to write and one to copy for each sequence, or as much as a static cache would have.
        uint64_t n_sequences = 1 + (uint64_t)plan->sequences;
        uint64_t n_spill = options->spill.size / p.unit;
        least = 4 * n_sequences;
        uint64_t in_ram = options->ram != 0 ? least : n_sequences * 2 * (LLM_STATIC_CONTEXT / LLM_PAGE);
        if (in_ram + n_spill < plan->n_units) {
            return llm_fail(error, LLM_ERROR_MEMORY, "spill: {} bytes are needed for this context, there are {}", (plan->n_units - in_ram) * p.unit, options->spill.size);
        }
        plan->n_spill = n_spill < plan->n_units ? (uint32_t)n_spill : plan->n_units;
        if (options->ram == 0 && in_ram < plan->n_units) {
            plan->n_units = (uint32_t)in_ram;
        }
    }
    if (options->ram != 0) {
        status = plan_ram(c, options, plan, least, error);
        if (status != LLM_OK) {
            return status;
        }
    }
    if (plan->policy == LLM_POLICY_COMPRESS) {
        grow_context(c, options, plan);
    }
    p = measure(c, plan, kernels_of(options));
    if (total(&p) > SIZE_MAX / 2) {
        return llm_fail(error, LLM_ERROR_VALUE, "context: {} positions need {} bytes, more than can be addressed", plan->context, total(&p));
    }
    if (plan->n_units + (uint64_t)plan->n_spill >= LLM_NONE || (1 + (uint64_t)plan->sequences) * plan->table >= LLM_NONE) {
        return llm_fail(error, LLM_ERROR_VALUE, "context: {} positions of {} sequences are more pages than can be counted", plan->context, 1 + plan->sequences);
    }
    plan->tensors = (size_t)p.layers;
    plan->sequence_tables = (size_t)bookkeeping(&p);
    plan->kv = (size_t)p.pool;
    plan->activations = (size_t)activations(&p);
    plan->logits = (size_t)p.logits;
    plan->tokens = (size_t)p.tokens;
    plan->stream = (size_t)p.stream;
    plan->total = (size_t)total(&p);
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
    m->layers = take(&ram, p.layers);
    uint8_t *books = take(&ram, bookkeeping(&p));
    m->kv.sequences = take(&books, p.sequences);
    m->kv.pages = take(&books, p.pages);
    uint16_t *tables = take(&books, p.tables);
    m->kv.links = take(&books, p.links);
    m->kv.memory[0] = take(&ram, p.pool);
    m->logits = take(&ram, p.logits);
    uint8_t *tokens = take(&ram, p.tokens);
    for (uint32_t i = 0; i <= m->plan.sequences; i++) {
        m->kv.sequences[i].pages = tables + (size_t)i * m->plan.table;
        m->kv.sequences[i].tokens = tokens + (size_t)i * m->plan.context * id_size(&m->image.config);
    }
    if (m->image.source != NULL) {
        uint8_t *buffers = ram + llm_align(sizeof(llm_stream_t));
        m->stream = take(&ram, p.stream);
        llm_stream_init(m->stream, &m->image, buffers, m->plan.stream_codes, m->plan.stream_scales);
    }
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
    m->q_sinks = take(&attention, p.q_sinks);
    m->q_page = take(&attention, p.q_page);
    m->kv.scratch = take(&attention, p.kv_scratch);
    m->scratch = attention;
    uint8_t *feed_forward = ram;
    m->gate = take(&feed_forward, p.hidden);
    m->up = take(&feed_forward, p.hidden);
}

static void make_cache(llm_model_t *m, const llm_spill_t *spill) {
    const llm_config_t *c = &m->image.config;
    const llm_plan_t *plan = &m->plan;
    llm_kv_t *kv = &m->kv;
    kv->context = plan->context;
    kv->sinks = sinks_of(plan->context);
    kv->page = plan->page;
    kv->head_dim = c->head_dim;
    kv->n_parts = c->n_layers * c->n_kv_heads;
    kv->part = part_size(c, plan);
    kv->part4 = part4_size(c, plan);
    kv->unit_size = plan->kv / plan->n_units;
    kv->wide = id_size(c) == sizeof(uint32_t);
    kv->paged = plan->layout == LLM_LAYOUT_PAGED;
    kv->f32 = plan->cache == LLM_CACHE_F32;
    kv->int4 = plan->cache == LLM_CACHE_INT4;
    kv->n_units[0] = plan->n_units;
    kv->n_units[1] = plan->n_spill;
    kv->compresses = can_compress(plan) && plan->n_units + plan->n_spill < full_units(plan);
    kv->memory[1] = spill->memory;
    kv->store = spill->store;
    kv->table = plan->table;
    kv->n_sequences = 1 + plan->sequences;
    kv->n_pages = kv->n_sequences * plan->table;
    llm_kv_clear(kv);
}

static void find_tensors(llm_model_t *m) {
    const llm_image_t *image = &m->image;
    for (uint32_t l = 0; l < image->config.n_layers; l++) {
        uint32_t first = l * LLM_TENSORS_PER_LAYER;
        llm_layer_t *layer = &m->layers[l];
        layer->attn_norm = llm_image_tensor(image, first).data;
        layer->attn_q = llm_image_tensor(image, first + 1);
        layer->attn_k = llm_image_tensor(image, first + 2);
        layer->attn_v = llm_image_tensor(image, first + 3);
        layer->attn_output = llm_image_tensor(image, first + 4);
        layer->ffn_norm = llm_image_tensor(image, first + 5).data;
        layer->ffn_gate = llm_image_tensor(image, first + 6);
        layer->ffn_up = llm_image_tensor(image, first + 7);
        layer->ffn_down = llm_image_tensor(image, first + 8);
    }
    uint32_t i = image->config.n_layers * LLM_TENSORS_PER_LAYER;
    m->token_embd = llm_image_tensor(image, i++);
    m->output_norm = llm_image_tensor(image, i++).data;
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
    if ((uintptr_t)options->spill.memory % LLM_ALIGNMENT != 0) {
        return llm_fail(error, LLM_ERROR_VALUE, "spill: must begin at a multiple of {}", LLM_ALIGNMENT, 0);
    }
    if (ram_size < model->plan.total) {
        return llm_fail(error, LLM_ERROR_MEMORY, "the model needs {} bytes of RAM, {} are given", model->plan.total, ram_size);
    }
    model->image = *image;
    model->kernels = kernels_of(options);
    model->parallel = options->parallel;
    lay_out(model, ram);
    make_cache(model, &options->spill);
    find_tensors(model);
    model->work.n = 0;
    return LLM_OK;
}
