#!/bin/sh
# Prints the command of a compiler with RISC-V's vector intrinsics (version 0.12 or later: gcc 14, clang 17) that makes programs
# without an operating system, or nothing. No C library is needed: tests/bare has what there is to it.
for cc in riscv64-linux-gnu-gcc-14 riscv64-linux-gnu-gcc clang-19 clang-18 clang-17 clang; do
    case $cc in
        # Freestanding, gcc brings its own stdint.h.
        *gcc*) command="$cc -ffreestanding -fbuiltin -no-pie" ;;
        *) command="$cc --target=riscv64-unknown-elf -fuse-ld=lld" ;;
    esac
    command="$command -march=rv64gcv -mabi=lp64d -mcmodel=medany -nostdlib -static -Wl,--build-id=none"
    # It must also find a linker.
    if printf '#include <riscv_vector.h>\n#if __riscv_v_intrinsic < 12000\n#error\n#endif\nvoid _start(void) {}\n' |
        $command -x c - -o /dev/null 2>/dev/null; then
        echo "$command"
        exit
    fi
done
