// The C library of stdio.h, stdlib.h and string.h beside this file, for any target.
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "libc.h"
#include "stdio.h"
#include "stdlib.h"
#include "string.h"

// ---------------------------------------------------------------------------- string.h

// What is volatile here keeps compilers from making calls of these very functions out of the loops.

void *memmove(void *to, const void *from, size_t n) {
    volatile char *t = to;
    const char *f = from;
    if ((uintptr_t)t < (uintptr_t)f) {
        for (size_t i = 0; i < n; i++) {
            t[i] = f[i];
        }
    } else {
        while (n-- > 0) {
            t[n] = f[n];
        }
    }
    return to;
}

void *memcpy(void *to, const void *from, size_t n) {
    return memmove(to, from, n);
}

void *memset(void *to, int value, size_t n) {
    for (volatile char *t = to; n > 0; n--) {
        *t++ = (char)value;
    }
    return to;
}

int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a;
    const unsigned char *y = b;
    for (size_t i = 0; i < n; i++) {
        if (x[i] != y[i]) {
            return x[i] - y[i];
        }
    }
    return 0;
}

int strcmp(const char *a, const char *b) {
    while (*a != '\0' && *a == *b) {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

size_t strlen(const char *s) {
    const volatile char *end = s;
    while (*end != '\0') {
        end++;
    }
    return (size_t)(end - s);
}

// ---------------------------------------------------------------------------- stdlib.h

static uint32_t random_state = 1;

void srand(unsigned seed) {
    random_state = seed;
}

int rand(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)(random_state >> 1);
}

// ---------------------------------------------------------------------------- stdio.h

typedef struct {
    char *to; // NULL: the console
    size_t size; // of `to`
    size_t n; // characters so far, those that found no room as well
} output_t;

static void put(output_t *o, const char *s, size_t n) {
    if (o->to == NULL) {
        console_write(s, n);
    } else {
        for (size_t i = 0; i < n && o->n + i + 1 < o->size; i++) {
            o->to[o->n + i] = s[i];
        }
    }
    o->n += n;
}

static void put_number(output_t *o, unsigned long value, unsigned base) {
    char digits[20];
    size_t start = sizeof(digits);
    do {
        digits[--start] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    put(o, digits + start, sizeof(digits) - start);
}

static void format_all(output_t *o, const char *format, va_list arguments) {
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            put(o, format, 1);
            continue;
        }
        bool is_long = *++format == 'l';
        format += is_long;
        if (*format == 's') {
            const char *s = va_arg(arguments, const char *);
            put(o, s, strlen(s));
        } else if (*format == 'd') {
            long value = va_arg(arguments, int);
            put(o, "-", value < 0);
            put_number(o, value < 0 ? 0 - (unsigned long)value : (unsigned long)value, 10);
        } else { // u, x
            unsigned long value = is_long ? va_arg(arguments, unsigned long) : va_arg(arguments, unsigned);
            put_number(o, value, *format == 'x' ? 16 : 10);
        }
    }
}

int putchar(int c) {
    console_write(&(char){(char)c}, 1);
    return c;
}

int puts(const char *s) {
    console_write(s, strlen(s));
    return putchar('\n');
}

int printf(const char *format, ...) {
    output_t o = {.to = NULL};
    va_list arguments;
    va_start(arguments, format);
    format_all(&o, format, arguments);
    va_end(arguments);
    return (int)o.n;
}

int snprintf(char *to, size_t size, const char *format, ...) {
    output_t o = {.to = to, .size = size};
    va_list arguments;
    va_start(arguments, format);
    format_all(&o, format, arguments);
    va_end(arguments);
    to[o.n < size ? o.n : size - 1] = '\0';
    return (int)o.n;
}

size_t fwrite(const void *items, size_t size, size_t n, FILE *stream) {
    (void)stream;
    console_write(items, size * n);
    return n;
}

int fflush(FILE *stream) {
    (void)stream;
    return 0;
}
