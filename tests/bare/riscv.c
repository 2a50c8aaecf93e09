// What a program needs of QEMU's machine `virt` for RISC-V, without firmware: a start, a console, an end, and a heap.
#include <stdbool.h>
#include <stdint.h>

#include "libc.h"
#include "stdio.h"
#include "stdlib.h"
#include "string.h"

#define TEST_DEVICE (*(volatile uint32_t *)0x100000) // ends the emulator
#define PASS 0x5555
#define FAIL 0x3333 // status in the upper half
#define UART ((volatile uint8_t *)0x10000000) // a 16550
#define UART_DATA 0
#define UART_STATUS 5
#define UART_READY 0x20 // of the status: takes a character

// The heap is 16 slots of 4 MB, a block each. A block ends where the last page of its slot begins, which is closed: a protected
// region of memory, locked so that it binds machine mode too.
#define HEAP 0x84000000
#define SLOT 0x400000
#define PAGE 0x1000
#define N_SLOTS 16

#define STRING(x) STRING_(x)
#define STRING_(x) #x

// The FPU and the vectors are on (FS and VS of mstatus) before C code may use them.
__asm__(
    ".section .start, \"ax\"\n"
    ".globl _start\n"
    "_start:\n"
    "    li t0, 0x2200\n"
    "    csrs mstatus, t0\n"
    "    la t0, trap\n"
    "    csrw mtvec, t0\n"
    "    .irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
    "    li t0, ((" STRING(HEAP) " + (\\i + 1) * " STRING(SLOT) " - " STRING(PAGE) ") >> 2) | (" STRING(PAGE) " / 8 - 1)\n"
                                                                                                              "    csrw pmpaddr\\i, t0\n"
                                                                                                              "    .endr\n"
                                                                                                              "    li t0, 0x9898989898989898\n" // each: locked, of a power of two, not to be read, written or run
                                                                                                              "    csrw pmpcfg0, t0\n"
                                                                                                              "    csrw pmpcfg2, t0\n"
                                                                                                              "    la sp, stack_end\n"
                                                                                                              "    j start\n"
                                                                                                              "    .balign 4\n"
                                                                                                              "trap:\n"
                                                                                                              "    csrr a0, mcause\n"
                                                                                                              "    csrr a1, mepc\n"
                                                                                                              "    csrr a2, mtval\n"
                                                                                                              "    la sp, stack_end\n"
                                                                                                              "    j report\n"
                                                                                                              ".text\n");

extern char bss_start[], bss_end[]; // riscv.ld
int main(int argc, char **argv);

__attribute__((used, noreturn)) static void start(void) {
    memset(bss_start, 0, (size_t)(bss_end - bss_start));
    exit(main(0, NULL));
}

__attribute__((used, noreturn)) static void report(unsigned long cause, unsigned long address, unsigned long value) {
    printf("fault %lu at 0x%lx (0x%lx)\n", cause, address, value);
    exit(1);
}

void exit(int status) {
    TEST_DEVICE = status == 0 ? PASS : (uint32_t)status << 16 | FAIL;
    for (;;) {
    }
}

void console_write(const void *bytes, size_t n) {
    for (const uint8_t *at = bytes; n > 0; n--) {
        while ((UART[UART_STATUS] & UART_READY) == 0) {
        }
        UART[UART_DATA] = *at++;
    }
}

static bool taken[N_SLOTS];

void *malloc(size_t size) {
    for (uintptr_t i = 0; i < N_SLOTS; i++) {
        if (!taken[i] && size <= SLOT - PAGE) {
            taken[i] = true;
            return (void *)(HEAP + (i + 1) * SLOT - PAGE - ((size + 15) & ~(size_t)15));
        }
    }
    return NULL;
}

void free(void *block) {
    if (block != NULL) {
        taken[((uintptr_t)block - HEAP) / SLOT] = false;
    }
}
