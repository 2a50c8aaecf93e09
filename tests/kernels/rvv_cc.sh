#!/bin/sh
# Prints the command of a compiler for RISC-V Linux with the vector intrinsics (version 0.12 or later: gcc 14, clang 17), or nothing.
for cc in riscv64-linux-gnu-gcc-14 riscv64-linux-gnu-gcc clang-19 clang-18 clang-17 clang; do
    case $cc in
        clang*) command="$cc --target=riscv64-linux-gnu -march=rv64gcv" ;;
        *) command="$cc -march=rv64gcv" ;;
    esac
    # It must also find a C library to link with.
    if printf '#include <riscv_vector.h>\n#include <stdio.h>\n#if __riscv_v_intrinsic < 12000\n#error\n#endif\nint main(void) { return 0; }\n' |
        $command -static -x c - -o /dev/null 2>/dev/null; then
        echo "$command"
        exit
    fi
done
