// What the programs of tests use of stdio.h, where there is no C library; libc.c has it. One stream, of no buffer.
#ifndef STDIO_H
#define STDIO_H

#include <stddef.h>

typedef struct file FILE;
#define stdout ((FILE *)0)

int putchar(int c);
int puts(const char *s); // compilers make calls of these two out of printf's
// Of formats: %s, %d, %u, %lu and %lx.
int printf(const char *format, ...);
int snprintf(char *to, size_t size, const char *format, ...);
size_t fwrite(const void *items, size_t size, size_t n, FILE *stream);
int fflush(FILE *stream);

#endif
