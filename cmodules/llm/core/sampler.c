// Chooses a token from logits. docs/arithmetic.md, "Sampling".
//
// top_k, top_p and min_p are each a threshold on the probabilities, found digit by digit: no sorting and no memory beyond the logits
// themselves, which become the probabilities.
#include "../kernels/numeric.h"
#include "llm.h"

#define ONE 1073741824u // a probability of 1 relative to the likeliest token: 2^30
#define GREEDY_BELOW 0.001f
#define MAX_REPEAT_LAST_N 4096 // time goes with its square

llm_status_t llm_sampler_check(const llm_sampler_t *s, llm_error_t *error) {
    // Each condition is written so that NaN fails.
    if (!(s->temperature >= 0.0f && s->temperature <= 100.0f)) {
        return llm_fail(error, LLM_ERROR_VALUE, "temperature: must be 0 to 100", 0, 0);
    }
    if (!(s->top_p > 0.0f && s->top_p <= 1.0f)) {
        return llm_fail(error, LLM_ERROR_VALUE, "top_p: must be above 0 and at most 1", 0, 0);
    }
    if (!(s->min_p >= 0.0f && s->min_p <= 1.0f)) {
        return llm_fail(error, LLM_ERROR_VALUE, "min_p: must be 0 to 1", 0, 0);
    }
    if (!(s->repetition_penalty > 0.0f && s->repetition_penalty <= 100.0f)) {
        return llm_fail(error, LLM_ERROR_VALUE, "repetition_penalty: must be above 0 and at most 100", 0, 0);
    }
    if (s->repeat_last_n > MAX_REPEAT_LAST_N) {
        return llm_fail(error, LLM_ERROR_VALUE, "repeat_last_n: must be 0 to {}", MAX_REPEAT_LAST_N, 0);
    }
    return LLM_OK;
}

// SplitMix64.
static uint64_t draw(uint64_t *state) {
    *state += 0x9E3779B97F4A7C15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static void penalize(float *logits, uint32_t n, const uint32_t *recent, uint32_t n_recent, float penalty) {
    for (uint32_t i = 0; i < n_recent; i++) {
        uint32_t token = recent[i];
        bool seen = token >= n;
        for (uint32_t j = 0; j < i && !seen; j++) {
            seen = recent[j] == token;
        }
        if (!seen) {
            logits[token] = logits[token] > 0.0f ? logits[token] / penalty : logits[token] * penalty;
        }
    }
}

static float max_logit(const float *logits, uint32_t n) {
    float max = logits[0] == logits[0] ? logits[0] : LLM_MINUS_INFINITY;
    for (uint32_t i = 1; i < n; i++) {
        max = logits[i] > max ? logits[i] : max;
    }
    return max;
}

static uint32_t argmax(const float *logits, uint32_t n) {
    uint32_t best = 0; // stays if there is nothing but NaN
    float max = LLM_MINUS_INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] > max) {
            max = logits[i];
            best = i;
        }
    }
    return best;
}

// A probability relative to the likeliest token, in units of 2^-30, kept in the memory of its logit.
static uint32_t probability(const float *logits, uint32_t i) {
    return llm_float_bits(logits[i]);
}

static void softmax(float *logits, uint32_t n, float temperature) {
    float max = max_logit(logits, n);
    float scale = LLM_LOG2_E / temperature;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = logits[i] == max ? ONE : (uint32_t)llm_exp2q((logits[i] - max) * scale);
        logits[i] = llm_bits_float(p);
    }
}

// The number and the sum of the probabilities that are at least `threshold`.
typedef struct {
    uint64_t sum;
    uint32_t count;
} share_t;

static share_t share_from(const float *logits, uint32_t n, uint32_t threshold) {
    share_t share = {0};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = probability(logits, i);
        if (p >= threshold) {
            share.sum += p;
            share.count++;
        }
    }
    return share;
}

// The largest threshold from which on there are at least `count` probabilities summing to at least `sum`, 0 if there is none. It is
// found four bits at a time, from the highest: each pass sorts the probabilities that begin with the bits found so far by the next.
static uint32_t find_threshold(const float *logits, uint32_t n, uint32_t count, uint64_t sum) {
    uint32_t threshold = 0;
    share_t above = {0}; // of the probabilities that exceed all that begin so
    for (int32_t shift = 28; shift >= 0; shift -= 4) {
        share_t digits[16] = {{0}};
        for (uint32_t i = 0; i < n; i++) {
            uint32_t p = probability(logits, i);
            if ((p ^ threshold) >> shift < 16) {
                share_t *share = &digits[p >> shift & 15];
                share->sum += p;
                share->count++;
            }
        }
        uint32_t digit = 15;
        while (above.count + digits[digit].count < count || above.sum + digits[digit].sum < sum) {
            above.count += digits[digit].count;
            above.sum += digits[digit].sum;
            if (digit == 0) {
                return 0;
            }
            digit--;
        }
        threshold |= digit << shift;
        if (digits[digit].count == 1) {
            return (uint32_t)digits[digit].sum; // the only one there
        }
    }
    return threshold;
}

uint32_t llm_sample(llm_sampler_t *s, float *logits, uint32_t n, const uint32_t *recent, uint32_t n_recent) {
    if (s->repetition_penalty != 1.0f) {
        penalize(logits, n, recent, n_recent, s->repetition_penalty);
    }
    if (s->temperature < GREEDY_BELOW) {
        return argmax(logits, n);
    }
    softmax(logits, n, s->temperature);

    // A token stays if its probability reaches the highest of the thresholds.
    uint32_t threshold = 1;
    if (s->top_k > 0 && s->top_k < n) {
        uint32_t top_k = find_threshold(logits, n, s->top_k, 0);
        threshold = top_k > threshold ? top_k : threshold;
    }
    if (s->top_p < 1.0f) {
        uint64_t sum = share_from(logits, n, threshold).sum;
        uint32_t share = (uint32_t)(s->top_p * 65536.0f);
        uint64_t part = (sum >> 16) * share + (((sum & 0xFFFF) * share) >> 16);
        uint32_t top_p = find_threshold(logits, n, 1, part); // at least one: `part` may be 0
        threshold = top_p > threshold ? top_p : threshold;
    }
    uint32_t min_p = (uint32_t)(s->min_p * (float)ONE);
    threshold = min_p > threshold ? min_p : threshold;

    uint64_t sum = share_from(logits, n, threshold).sum;
    if (sum == 0) {
        return 0; // nothing but NaN
    }
    uint64_t point = draw(&s->state) % sum;
    uint32_t last = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t p = probability(logits, i);
        if (p >= threshold) {
            last = i;
            if (point < p) {
                break;
            }
            point -= p;
        }
    }
    return last;
}
