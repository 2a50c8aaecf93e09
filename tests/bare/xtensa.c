// What a program needs of an Xtensa without a C library and without a floating-point unit: Linux system calls as qemu-xtensa takes
// them, and IEEE 754 binary32 in integers, rounded to nearest even. (The ESP8266, for which Debian's compiler is made, has the
// latter in its ROM.)
#include <stddef.h>
#include <stdint.h>

#include "libc.h"
#include "stdlib.h"

#define SYS_WRITE 13
#define SYS_EXIT 118
#define STANDARD_OUTPUT 1

static long system_call(long number, long a, const void *b, size_t c) {
    register long r2 __asm__("a2") = number;
    register long r6 __asm__("a6") = a;
    register const void *r3 __asm__("a3") = b;
    register size_t r4 __asm__("a4") = c;
    __asm__ volatile("syscall" : "+r"(r2) : "r"(r6), "r"(r3), "r"(r4) : "memory");
    return r2;
}

void exit(int status) {
    for (;;) {
        system_call(SYS_EXIT, status, NULL, 0);
    }
}

void console_write(const void *bytes, size_t n) {
    const char *at = bytes;
    while (n > 0) {
        long done = system_call(SYS_WRITE, STANDARD_OUTPUT, at, n);
        if (done <= 0) {
            exit(2);
        }
        at += done;
        n -= (size_t)done;
    }
}

int main(void);

void _start(void) {
    exit(main());
}

// The product of two numbers in full, which the compiler's own library lacks from release 13 on.
uint64_t __umulsidi3(uint32_t a, uint32_t b) {
    uint32_t low = (a & 0xffff) * (b & 0xffff);
    uint32_t middle = (a >> 16) * (b & 0xffff) + (low >> 16);
    uint32_t other = (a & 0xffff) * (b >> 16) + (middle & 0xffff);
    uint32_t high = (a >> 16) * (b >> 16) + (middle >> 16) + (other >> 16);
    return (uint64_t)high << 32 | other << 16 | (low & 0xffff);
}

#define SIGN 0x80000000u
#define INFINITY_BITS 0x7F800000u
#define NAN_BITS 0x7FC00000u

typedef union {
    float value;
    uint32_t bits;
} float_bits_t;

static float from_bits(uint32_t bits) {
    return ((float_bits_t){.bits = bits}).value;
}

static uint32_t to_bits(float value) {
    return ((float_bits_t){.value = value}).bits;
}

// significand * 2^exponent, exact but for one rounding; bit 0 of `significand` may stand for any more that were not zero.
static float pack(uint32_t sign, uint64_t significand, int exponent) {
    if (significand == 0) {
        return from_bits(sign);
    }
    int top = 63;
    while (!(significand >> top)) {
        top--;
    }
    // How far to go to have 24 bits, or fewer of a subnormal number.
    int shift = top - 23;
    if (exponent + shift < -149) {
        shift = -149 - exponent;
    }
    uint64_t kept;
    if (shift <= 0) {
        kept = significand << -shift;
    } else if (shift > 62) {
        kept = 0;
    } else {
        uint64_t lost = significand & (((uint64_t)1 << shift) - 1);
        uint64_t half = (uint64_t)1 << (shift - 1);
        kept = significand >> shift;
        kept += lost > half || (lost == half && (kept & 1) != 0);
    }
    // Adding lets a carry of the rounding, or a first bit that is set, reach the exponent by itself.
    int biased = exponent + shift + 149;
    if (biased > 253) {
        return from_bits(sign | INFINITY_BITS);
    }
    uint32_t bits = ((uint32_t)biased << 23) + (uint32_t)kept;
    return from_bits(sign | (bits < INFINITY_BITS ? bits : INFINITY_BITS));
}

static uint32_t significand_of(uint32_t bits) {
    return (bits & 0x7FFFFF) | ((bits & INFINITY_BITS) != 0 ? 0x800000 : 0);
}

static int exponent_of(uint32_t bits) {
    int biased = (int)((bits & INFINITY_BITS) >> 23);
    return (biased == 0 ? 1 : biased) - 150;
}

float __addsf3(float a, float b) {
    uint32_t x = to_bits(a);
    uint32_t y = to_bits(b);
    if ((x & ~SIGN) < (y & ~SIGN)) {
        uint32_t swap = x;
        x = y;
        y = swap;
    }
    if ((x & ~SIGN) >= INFINITY_BITS) {
        return from_bits((x & ~SIGN) > INFINITY_BITS || (x ^ SIGN) == y ? NAN_BITS : x);
    }
    // The larger one has 38 bits more below it; what the smaller one has below those only matters as not zero.
    int apart = exponent_of(x) - exponent_of(y);
    uint64_t large = (uint64_t)significand_of(x) << 38;
    uint64_t small = (uint64_t)significand_of(y) << 38;
    if (apart > 62) {
        small = small != 0;
    } else {
        small = (small >> apart) | ((small & (((uint64_t)1 << apart) - 1)) != 0);
    }
    uint64_t sum = ((x ^ y) & SIGN) != 0 ? large - small : large + small;
    uint32_t sign = sum == 0 ? x & y & SIGN : x & SIGN;
    return pack(sign, sum, exponent_of(x) - 38);
}

float __subsf3(float a, float b) {
    return __addsf3(a, from_bits(to_bits(b) ^ SIGN));
}

float __mulsf3(float a, float b) {
    uint32_t x = to_bits(a);
    uint32_t y = to_bits(b);
    uint32_t sign = (x ^ y) & SIGN;
    x &= ~SIGN;
    y &= ~SIGN;
    if (x > INFINITY_BITS || y > INFINITY_BITS || (x == INFINITY_BITS && y == 0) || (x == 0 && y == INFINITY_BITS)) {
        return from_bits(NAN_BITS);
    }
    if (x == INFINITY_BITS || y == INFINITY_BITS) {
        return from_bits(sign | INFINITY_BITS);
    }
    return pack(sign, (uint64_t)significand_of(x) * significand_of(y), exponent_of(x) + exponent_of(y));
}

float __floatunsisf(uint32_t value) {
    return pack(0, value, 0);
}

float __floatsisf(int32_t value) {
    return value < 0 ? pack(SIGN, 0 - (uint32_t)value, 0) : pack(0, (uint32_t)value, 0);
}

uint64_t __muldi3(uint64_t a, uint64_t b) {
    uint32_t al = (uint32_t)a & 0xFFFF, ah = (uint32_t)a >> 16;
    uint32_t bl = (uint32_t)b & 0xFFFF, bh = (uint32_t)b >> 16;
    uint32_t middle = ah * bl + (al * bl >> 16); // below 2^32
    uint32_t other = al * bh + (middle & 0xFFFF);
    uint32_t high = ah * bh + (middle >> 16) + (other >> 16);
    high += (uint32_t)(a >> 32) * (uint32_t)b + (uint32_t)a * (uint32_t)(b >> 32);
    return ((uint64_t)high << 32) | (uint32_t)((other << 16) | (al * bl & 0xFFFF));
}

static uint64_t divide(uint64_t a, uint64_t b, uint64_t *rest) {
    uint64_t quotient = 0;
    *rest = 0;
    for (int i = 63; i >= 0; i--) {
        uint64_t carry = *rest >> 63;
        *rest = (*rest << 1) | ((a >> i) & 1);
        if (carry || *rest >= b) {
            *rest -= b;
            quotient |= (uint64_t)1 << i;
        }
    }
    return quotient;
}

uint64_t __udivdi3(uint64_t a, uint64_t b) {
    uint64_t rest;
    return divide(a, b, &rest);
}

uint64_t __umoddi3(uint64_t a, uint64_t b) {
    uint64_t rest;
    divide(a, b, &rest);
    return rest;
}

uint32_t __udivsi3(uint32_t a, uint32_t b) {
    uint64_t rest;
    return (uint32_t)divide(a, b, &rest);
}

uint32_t __umodsi3(uint32_t a, uint32_t b) {
    uint64_t rest;
    divide(a, b, &rest);
    return (uint32_t)rest;
}
