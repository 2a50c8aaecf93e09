#!/bin/sh
# Installs the Debian or Ubuntu packages that the project needs; does nothing when all are there.
# Usage: apt.sh LOG [test]
# With `test`, those as well that check the kernels of other processors, as far as the distribution has them.
set -eu
log=$1

base="build-essential ca-certificates clang gcc-arm-none-eabi git libnewlib-arm-none-eabi
    python3 python3-dev python3-venv qemu-system-arm xz-utils"
. /etc/os-release
if [ "$ID" = debian ]; then
    # For MicroPython's source from Debian, where git cannot reach it (micropython.sh).
    base="$base debian-archive-keyring dpkg-dev"
fi

# One line each: packages, or others that will do as well.
wanted=
if [ "${2:-}" = test ]; then
    wanted="gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        gcc-xtensa-lx106
        qemu-user
        qemu-system-riscv | qemu-system-misc
        gcc-14-riscv64-linux-gnu | clang-19 lld-19 | clang-18 lld-18"
fi

# Whether apt knows all of the packages.
known() {
    for package in "$@"; do
        [ -n "$(apt-cache show "$package" 2>/dev/null)" ] || return 1
    done
}

# Sets `packages` to those that are to be installed, and `unknown` to those wanted that apt does not know.
choose() {
    packages=$base
    unknown=
    while read -r line; do
        [ -n "$line" ] || continue
        found=
        rest=$line
        while [ -n "$rest" ] && [ -z "$found" ]; do
            if known ${rest%%|*}; then
                found=${rest%%|*}
            fi
            case $rest in *'|'*) rest=${rest#*|} ;; *) rest= ;; esac
        done
        packages="$packages $found"
        [ -n "$found" ] || unknown="$unknown $line;"
    done <<LINES
$wanted
LINES
}

missing() {
    for package in $packages; do
        status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$status" = installed ] || printf ' %s' "$package"
    done
}

# libFuzzer and the sanitizers are a package of their own where apt knows it, part of clang elsewhere.
fuzzer() {
    echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
        clang -fsanitize=fuzzer,address,undefined -x c - -o /dev/null 2>/dev/null
}

# What apt does not know it may know once it has read its lists.
choose
[ -n "$unknown$(missing)" ] || ! fuzzer || exit 0

sudo=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        if [ -n "$unknown" ]; then
            echo "apt does not know these, and there is no sudo to update its lists with:$unknown what needs them is not tested"
        fi
        [ -n "$(missing)" ] || ! fuzzer || exit 0
        echo "These packages are missing, and there is no sudo to install them with. As root, run:"
        echo "    apt-get install$(missing) libclang-rt-dev"
        exit 1
    fi >&2
    sudo=sudo
    sudo -v # asks for the password here, where it is seen
fi

run() {
    $sudo env DEBIAN_FRONTEND=noninteractive "$@" >>"$log" 2>&1
}

: >"$log"
echo "Reading apt's package lists"
run apt-get update || echo "apt-get update failed (see $log); trying with the lists there are"
choose
packages="$packages $(apt-cache search --names-only '^libclang-rt-dev$' | cut -d ' ' -f 1)"
[ -n "$(missing)" ] || exit 0
echo "Installing with apt (once, minutes at most):$(missing)"
if ! run apt-get install -y --no-install-recommends $(missing); then
    tail -n 20 "$log" >&2
    echo "apt-get install failed; the whole output is in $log" >&2
    exit 1
fi
