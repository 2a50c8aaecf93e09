// Error messages, formed without printf.
#include "llm.h"

// Appends `value` in decimal at `at`, within the message.
static size_t put_decimal(char *message, size_t at, uint64_t value) {
    char digits[20];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (n > 0 && at < LLM_MESSAGE_SIZE - 1) {
        message[at++] = digits[--n];
    }
    return at;
}

llm_status_t llm_fail(llm_error_t *error, llm_status_t status, const char *what, uint64_t a, uint64_t b) {
    if (error == NULL) {
        return status;
    }
    error->status = status;
    const uint64_t values[2] = {a, b};
    size_t n_values = 0;
    size_t at = 0;
    while (*what != '\0' && at < LLM_MESSAGE_SIZE - 1) {
        if (what[0] == '{' && what[1] == '}' && n_values < 2) {
            at = put_decimal(error->message, at, values[n_values++]);
            what += 2;
        } else {
            error->message[at++] = *what++;
        }
    }
    error->message[at] = '\0';
    return status;
}
