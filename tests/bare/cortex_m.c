// What a Cortex-M needs before main: a vector table, and its FPU switched on. newlib's start-up code does the rest, and talks to
// the emulator by semihosting.
#include <stdint.h>
#include <string.h>

#define CPACR (*(volatile uint32_t *)0xE000ED88)
#define SYS_WRITE0 0x04 // of the semihosting calls: prints a string
#define SYS_EXIT 0x18
#define RUN_TIME_ERROR 0x20023 // for SYS_EXIT: the emulator ends with status 1

extern void _start(void);

// Of itcm.ld: code that runs elsewhere than where it is loaded. Without it there is none.
extern char itcm_start[] __attribute__((weak)), itcm_end[] __attribute__((weak)), itcm_load[] __attribute__((weak));

static void semihosting(uint32_t call, uint32_t argument) {
    register uint32_t r0 __asm__("r0") = call;
    register uint32_t r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt #0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void reset(void) {
    CPACR |= 0xFu << 20; // full access to coprocessors 10 and 11
    memcpy(itcm_start, itcm_load, (size_t)(itcm_end - itcm_start));
    __asm__ volatile("dsb\n\tisb");
    _start();
}

// `frame`: what the processor stacked, r0 to r3, r12, lr, pc and xPSR.
__attribute__((used)) static void report(const uint32_t *frame) {
    static char message[] = "fault at 0x00000000\n"; // no printf: its state may be what is broken
    for (int i = 0; i < 8; i++) {
        message[11 + i] = "0123456789abcdef"[frame[6] >> (28 - 4 * i) & 15];
    }
    semihosting(SYS_WRITE0, (uint32_t)message);
    semihosting(SYS_EXIT, RUN_TIME_ERROR);
}

__attribute__((naked)) void fault(void) {
    __asm__ volatile("mov r0, sp\n\tb report");
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    (void *)0x20100000, // stack, at the end of a megabyte of SSRAM
    (void *)reset,
    (void *)fault, // NMI
    (void *)fault, // HardFault, which takes in the other three
    (void *)fault,
    (void *)fault,
    (void *)fault,
};
