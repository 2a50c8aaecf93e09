// A plugin for QEMU that counts how often each instruction was executed, between visits to a marked address:
//
//     qemu-system-arm -plugin count_plugin.so,mark=0x1234,out=counts.txt ...
//
// At each visit to the mark it writes a section, `mark` and then lines of `address count` (hexadecimal, decimal) of what was
// executed since the visit before, and begins anew; the marked instruction itself is counted in the section that it begins.
// Addresses are those of the 4 MB that the mark lies in, a multiple of 4 MB: all the code there is of the programs here.
//
// Debian does not package QEMU's header: what is needed of its interface is declared here. QEMU_PLUGIN_VERSION is 1 for QEMU
// before version 9, 2 after; what is used is the same in both.
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef QEMU_PLUGIN_VERSION
#define QEMU_PLUGIN_VERSION 1
#endif

#define EXPORT __attribute__((visibility("default")))
#define NO_REGISTERS 0

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void tb_callback_t(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void insn_callback_t(unsigned, void *);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, tb_callback_t *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, insn_callback_t *, int flags, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);

EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

#define SIZE (4u << 20)

static uint64_t counts[SIZE / 2]; // by address / 2
static uint64_t mark = UINT64_MAX;
static FILE *out;

static void write_section(unsigned cpu, void *data) {
    (void)cpu;
    (void)data;
    fputs("mark\n", out);
    for (size_t i = 0; i < SIZE / 2; i++) {
        if (counts[i] != 0) {
            fprintf(out, "%" PRIx64 " %" PRIu64 "\n", mark / SIZE * SIZE + i * 2, counts[i]);
        }
    }
    fflush(out); // QEMU may be killed at any time
    memset(counts, 0, sizeof(counts));
}

static void count(unsigned cpu, void *counter) {
    (void)cpu;
    ++*(uint64_t *)counter;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        if (address == mark) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, write_section, NO_REGISTERS, NULL);
        }
        if (address / SIZE == mark / SIZE) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, count, NO_REGISTERS, &counts[address % SIZE / 2]);
        }
    }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "mark=", 5) == 0) {
            mark = strtoull(argv[i] + 5, NULL, 0);
        } else if (strncmp(argv[i], "out=", 4) == 0) {
            out = fopen(argv[i] + 4, "w");
        }
    }
    if (mark == UINT64_MAX || out == NULL) {
        fputs("count_plugin: mark=ADDRESS and out=FILE are needed\n", stderr);
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    return 0;
}
