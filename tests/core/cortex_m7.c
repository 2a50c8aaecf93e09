// What a Cortex-M7 needs before main: a vector table, and its FPU switched on. newlib's start-up code does the rest, and talks
// to the emulator by semihosting.
#include <stdint.h>

extern void _start(void);

void reset(void) {
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; // CPACR: full access to coprocessors 10 and 11
    __asm__ volatile("dsb\n\tisb");
    _start();
}

// A fault ends the program as a breakpoint that nobody handles would: the emulator stops with an error.
void fault(void) {
    __asm__ volatile("mov r0, #0x18\n\tldr r1, =0x20023\n\tbkpt #0xAB"); // SYS_EXIT, ADP_Stopped_RunTimeErrorUnknown
    for (;;) {
    }
}

__attribute__((section(".vectors"), used)) static const void *const vectors[] = {
    (void *)0x20100000, // stack, at the end of a megabyte of SSRAM
    (void *)reset,
    (void *)fault,
    (void *)fault,
    (void *)fault,
    (void *)fault,
    (void *)fault,
};
