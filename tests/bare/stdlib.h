// What the programs of tests use of stdlib.h, where there is no C library; libc.c and the target's file have it.
#ifndef STDLIB_H
#define STDLIB_H

#include <stddef.h>

int rand(void);
void srand(unsigned seed);
void *malloc(size_t size);
void free(void *block);
__attribute__((noreturn)) void exit(int status);

#endif
