#!/bin/sh
# Gets MicroPython's source at the pinned release: a git clone, or else Debian's source package.
# Usage: micropython.sh DIRECTORY         puts the source there
#        micropython.sh --check DIRECTORY  says whether a given source is the pinned release
set -eu

version=1.25.0
url=https://github.com/micropython/micropython
commit=f498a16c7db6d4b2de200b3e0856528dfe0613c3
package_version=$version+ds-1
tarball=micropython_$version+ds.orig.tar.xz
tarball_sha256=7b25be99a502f070b2de81dafc08da7051d992325d6e67daa9045a918fffdbea

if [ "$1" = --check ]; then
    if ! [ -f "$2/py/mpconfig.h" ]; then
        echo "MPY_DIR is $2, which holds no MicroPython source (no py/mpconfig.h)." >&2
        exit 1
    fi
    found=$(awk '/^#define MICROPY_VERSION_(MAJOR|MINOR|MICRO) / { v = v "." $3 } END { print substr(v, 2) }' \
        "$2/py/mpconfig.h")
    [ "$found" = "$version" ] || echo "Warning: MPY_DIR holds MicroPython $found; the pinned release is $version."
    exit 0
fi

directory=$1
work=$directory.new
mkdir -p "$(dirname "$directory")"
rm -rf "$directory" "$work"
mkdir "$work"
work=$(cd "$work" && pwd)
trap 'rm -rf "$work"' EXIT

# A shallow clone. No submodule is needed: micropython-lib, mbedtls and the like are not built.
from_git() {
    export GIT_TERMINAL_PROMPT=0
    timeout 15 git ls-remote "$url" "v$version" >/dev/null 2>&1 || return 1
    echo "Cloning MicroPython $version"
    timeout 600 git -c advice.detachedHead=false clone --quiet --depth 1 --branch "v$version" \
        "$url" "$work/source" || return 1
    [ "$(git -C "$work/source" rev-parse HEAD)" = "$commit" ] || {
        echo "The clone is not commit $commit; it is not used." >&2
        return 1
    }
}

# The source package of Debian 13, through an apt state of our own: the machine's lists and sources
# stay as they are. apt checks the signature, and the mirror is the one that the machine uses.
from_debian() {
    keyring=/usr/share/keyrings/debian-archive-keyring.gpg
    [ -f "$keyring" ] || return 1
    mirror=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI)' \
        'Created-By: Packages' 'Component: main' |
        awk -v release="$(. /etc/os-release && echo "$VERSION_CODENAME")" '$1 == release { print $2; exit }')
    [ -n "$mirror" ] || return 1
    echo "Fetching MicroPython $version as Debian's source package"
    mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/sources" "$work/source"
    printf '%s\n' 'Types: deb-src' "URIs: $mirror" 'Suites: trixie' 'Components: main' \
        "Signed-By: $keyring" >"$work/sources/trixie.sources"
    apt() {
        apt-get -qq -o Dir::State="$work/state" -o Dir::Cache="$work/cache" \
            -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts="$work/sources" \
            -o APT::Sandbox::User=root "$@"
    }
    (cd "$work" && apt update && apt source --download-only "micropython=$package_version") \
        >"$work/log" 2>&1 || { tail -n 5 "$work/log" >&2; return 1; }
    echo "$tarball_sha256  $work/$tarball" | sha256sum --quiet -c || return 1
    tar -xf "$work/$tarball" -C "$work/source" --strip-components=1
}

from_git || from_debian || {
    echo "MicroPython's source could not be had: neither $url nor Debian's source package is" >&2
    echo "within reach. Get release $version yourself and run again with MPY_DIR=/path/to/micropython." >&2
    exit 1
}
mv "$work/source" "$directory"
