// The image reader and all that runs on an image: plan, forward pass in blocks and token by token, sampler.
//
// Input: an image, then the 32 bytes of choices_t.
#include "../../cmodules/llm/core/image.h"
#include "fuzz.h"

#define MAX_RAM (1u << 20) // larger models are not run
#define MAX_WORK (1u << 20) // nor those that need more multiplications than this

// What the program around the engine would choose.
typedef struct {
    uint8_t verify; // bit 0: open with verify
    uint8_t kernels; // which of those that run here
    uint8_t block; // llm_options_t
    uint8_t cache;
    uint16_t context;
    uint16_t n_tokens; // of the prompt
    float temperature; // llm_sampler_t
    float top_p;
    float min_p;
    float repetition_penalty;
    uint16_t top_k;
    uint16_t repeat_last_n;
    uint32_t seed; // of tokens and sampler
} choices_t;

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    uint32_t random = seed;
    if (size < sizeof(choices_t) || max_size < size) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    size_t image_size = size - sizeof(choices_t);
    uint8_t *section;
    size_t section_size;
    uint32_t what = next_random(&random) % 16;
    if (what == 0) { // bytes come or go anywhere
        uint8_t choices[sizeof(choices_t)];
        memcpy(choices, data + image_size, sizeof(choices));
        image_size = LLVMFuzzerMutate(data, image_size, max_size - sizeof(choices));
        memcpy(data + image_size, choices, sizeof(choices));
    } else if (what < 4) {
        mutate_in_place(data + image_size, sizeof(choices_t), &random);
    } else if (what < 6) { // header and section table
        mutate_in_place(data, image_size < 176 ? image_size : 176, &random);
    } else if (find_section(data, image_size, next_random(&random) % 6, &section, &section_size)) {
        mutate_in_place(section, section_size, &random);
    }
    if (next_random(&random) % 16 != 0) {
        reseal(data, image_size);
    }
    return image_size + sizeof(choices_t);
}

// Multiplications that `n` tokens cost, about.
static uint64_t work(const llm_image_t *image, uint64_t n) {
    const llm_config_t *c = &image->config;
    uint64_t weights = 0;
    for (uint32_t i = 0; i < image->n_tensors; i++) {
        llm_tensor_t tensor = llm_image_tensor(image, i);
        weights += (uint64_t)tensor.rows * tensor.cols;
    }
    return n * weights + n * n * c->n_layers * c->n_heads * c->head_dim;
}

// Or both are NaN, which weights that are not finite may give, with no particular bits.
static bool same_bits(const float *a, const float *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (memcmp(a + i, b + i, sizeof(*a)) != 0 && (a[i] == a[i] || b[i] == b[i])) {
            return false;
        }
    }
    return true;
}

// Settings that leave only the likeliest token leave only the likeliest token.
static void check_narrow_samplers(const llm_model_t *model) {
    static const llm_sampler_t narrow[] = {
        {.temperature = 0.0f, .top_p = 1.0f, .repetition_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f, .top_k = 1},
        {.temperature = 1.0f, .top_p = 1e-9f, .repetition_penalty = 1.0f},
        {.temperature = 1.0f, .top_p = 1.0f, .repetition_penalty = 1.0f, .min_p = 1.0f},
    };
    uint32_t n = model->image.config.vocab_size;
    for (size_t i = 0; i < sizeof(narrow) / sizeof(*narrow); i++) {
        llm_sampler_t sampler = narrow[i];
        CHECK(llm_sampler_check(&sampler, NULL) == LLM_OK);
        float *logits = (float *)(void *)exact_copy(model->logits, n * sizeof(*logits));
        uint32_t token = llm_sample(&sampler, logits, n, NULL, 0);
        CHECK(token < n);
        // Probabilities are counted in 2^-30: another one may be as likely as the likeliest to that precision.
        float lead = 0.0f;
        for (uint32_t j = 0; j < n; j++) {
            float ahead = model->logits[j] - model->logits[token];
            lead = ahead > lead ? ahead : lead;
        }
        CHECK(lead < 1e-6f);
        free(logits);
    }
}

static void run(const llm_image_t *image, const choices_t *choices) {
    size_t n_sets = 0;
    while (llm_kernels_at(n_sets) != NULL) {
        n_sets++;
    }
    const llm_options_t options = {
        .context = choices->context,
        .block = choices->block,
        .cache = (llm_cache_t)choices->cache,
        .layout = (llm_layout_t)((choices->seed >> 8) % 3),
        .policy = LLM_POLICY_ERROR,
        .kernels = llm_kernels_at(choices->kernels % n_sets),
    };
    llm_error_t error;
    llm_plan_t plan;
    llm_status_t status = llm_plan(image, &options, &plan, &error);
    if (status != LLM_OK) {
        CHECK(status == LLM_ERROR_VALUE);
        check_error(status, &error);
        return;
    }
    CHECK(plan.tensors + plan.sequence_tables + plan.kv + plan.activations + plan.logits + plan.tokens == plan.total);
    uint32_t n = choices->n_tokens < plan.context ? choices->n_tokens : plan.context;
    if (plan.total > MAX_RAM || work(image, (uint64_t)n + 1) > MAX_WORK) {
        return;
    }

    llm_model_t model;
    uint8_t *ram = malloc(plan.total);
    CHECK(ram != NULL);
    memset(ram, 0xA5, plan.total);
    status = llm_model_init(&model, image, &options, ram, plan.total - 1, &error);
    CHECK(status == LLM_ERROR_MEMORY);
    check_error(status, &error);
    CHECK(llm_model_init(&model, image, &options, ram, plan.total, &error) == LLM_OK);
    poison_except(image->data, image->size, image->tensor_data, image->tensor_data_size);

    uint32_t vocab_size = image->config.vocab_size;
    uint32_t random = choices->seed;
    uint32_t *tokens = malloc(((size_t)plan.context + 1) * sizeof(*tokens));
    CHECK(tokens != NULL);
    for (uint32_t i = 0; i <= plan.context; i++) {
        tokens[i] = next_random(&random) % vocab_size;
    }
    CHECK(llm_model_eval(&model, tokens, (size_t)plan.context + 1, &error) == LLM_ERROR_CONTEXT);
    CHECK(llm_model_eval(&model, tokens, n, &error) == LLM_OK);
    llm_sequence_t *sequence = model.kv.sequences;
    CHECK(sequence->n_tokens == n && (llm_sequence_logits(&model, sequence) != NULL) == (n > 0));

    llm_sampler_t sampler = {
        .temperature = choices->temperature,
        .top_k = choices->top_k,
        .top_p = choices->top_p,
        .min_p = choices->min_p,
        .repetition_penalty = choices->repetition_penalty,
        .repeat_last_n = choices->repeat_last_n,
        .state = choices->seed,
    };
    uint32_t token = 0;
    if (n > 0) {
        check_narrow_samplers(&model);
        // The same tokens one by one, and again from the middle, give the same bits.
        float *logits = (float *)(void *)exact_copy(model.logits, vocab_size * sizeof(*logits));
        for (uint32_t from = 0; from < n; from += n / 2 + 1) {
            CHECK(llm_sequence_rewind(&model, sequence, from, &error) == LLM_OK);
            CHECK(llm_sequence_sample(&model, sequence, &sampler, &token, &error) == LLM_ERROR_VALUE);
            for (uint32_t i = from; i < n; i++) {
                size_t done = 0;
                while (done == 0) { // in parts
                    CHECK(llm_sequence_eval_part(&model, sequence, tokens + i, 1, &done, &error) == LLM_OK);
                }
            }
            CHECK(same_bits(logits, model.logits, vocab_size));
        }
        free(logits);
    }
    status = llm_sampler_check(&sampler, &error);
    if (status != LLM_OK) {
        CHECK(status == LLM_ERROR_VALUE);
        check_error(status, &error);
    } else if (n > 0) {
        CHECK(llm_sequence_sample(&model, sequence, &sampler, &token, &error) == LLM_OK);
        CHECK(token < vocab_size);
    }
    token = vocab_size;
    if (n < plan.context) {
        CHECK(llm_model_eval(&model, &token, 1, &error) == LLM_ERROR_VALUE);
    }
    unpoison(image->data, image->size);
    free(tokens);
    free(ram);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    choices_t choices;
    if (size < sizeof(choices)) {
        return 0;
    }
    size -= sizeof(choices);
    memcpy(&choices, data + size, sizeof(choices));
    uint8_t *copy = exact_copy(data, size);

    llm_image_t image;
    llm_error_t error;
    llm_status_t verified = llm_image_open(&image, copy, size, true, &error);
    if (verified != LLM_OK) {
        CHECK(verified == LLM_ERROR_IMAGE);
        check_error(verified, &error);
    }
    llm_status_t opened = llm_image_open(&image, copy, size, false, &error);
    if (opened != LLM_OK) {
        CHECK(opened == LLM_ERROR_IMAGE && verified != LLM_OK);
        check_error(opened, &error);
    } else {
        CHECK(image.size <= size);
        CHECK((llm_image_verify(&image, NULL, 0, &error) == LLM_OK) == (verified == LLM_OK));
        if (verified == LLM_OK || choices.verify % 2 == 0) {
            run(&image, &choices);
        }
    }
    free(copy);
    return 0;
}
