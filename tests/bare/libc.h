// What libc.c needs of a target besides malloc, free and exit.
#ifndef LIBC_H
#define LIBC_H

#include <stddef.h>

void console_write(const void *bytes, size_t n);

#endif
