#!/usr/bin/env bash
# Loads a wheel under the C library of Debian 11, glibc 2.31: newer systems would not show that it asks for too much.
#
#     tools/old_glibc.sh FOLDER WHEEL
#
# FOLDER is made by debootstrap, as root, and is kept: the first run takes some minutes. Debian 11 has no Python that
# cotan works with, so Python 3.11 is compiled in there, from the sources that Debian 12 has.
set -euo pipefail
shopt -s nullglob
[ $# -eq 2 ] || { sed -n 's/^#     //p' "$0" >&2; exit 2; }
folder=$(realpath -m "$1")
wheel=$(realpath "$2")
tools=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
prefix=/opt/python

mirror() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -n 1
}

if [ ! -e "$folder/usr/bin/cc" ]; then
    command -v debootstrap > /dev/null || apt-get install -yq --no-install-recommends debootstrap
    debootstrap --variant=minbase --include=gcc,libc6-dev,make,zlib1g-dev,libffi-dev,ca-certificates \
        bullseye "$folder" "$(mirror)"
fi

if [ ! -x "$folder$prefix/bin/python3.11" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    mkdir -p "$scratch/lists/partial" "$scratch/sources"
    echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $(mirror) bookworm main" > "$scratch/list"
    options=(-o "Dir::Etc::sourcelist=$scratch/list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$scratch/lists"
        -o APT::Sandbox::User=root)
    apt-get -q "${options[@]}" update
    (cd "$scratch/sources" && apt-get -q "${options[@]}" source --download-only python3.11)
    rm -rf "$folder/tmp/python"
    mkdir -p "$folder/tmp/python"
    tar xf "$scratch"/sources/*.orig.tar.* -C "$folder/tmp/python" --strip-components 1
    chroot "$folder" sh -ec "cd /tmp/python; ./configure --quiet --prefix=$prefix --without-ensurepip
        make -s -j$(nproc) > build.log 2>&1 || { tail -n 40 build.log; exit 1; }
        make -s altinstall > install.log 2>&1"
    rm -rf "$folder/tmp/python"
fi

# pip of this side unpacks, and takes only what that C library may load.
rm -rf "$folder/opt/cotan"
platforms=()
for minor in $(seq 17 31); do platforms+=(--platform "manylinux_2_${minor}_x86_64"); done
"${PYTHON:-python3}" -m pip install --quiet --disable-pip-version-check --target "$folder/opt/cotan" --only-binary :all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 "${platforms[@]}" "$wheel" scipy
cp "$tools"/../examples/seed.py "$folder/opt"
inside() { chroot "$folder" /usr/bin/env -i PATH=/usr/bin:/bin PYTHONPATH=/opt/cotan "$prefix/bin/python3.11" "$@"; }
inside -c 'import platform; print(*platform.libc_ver(), "Python", platform.python_version())'
inside -m cotan doctor
inside /opt/seed.py
