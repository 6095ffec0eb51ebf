# shellcheck shell=bash
# What every script under hack/ shares. Source it; it runs nothing by itself.
#
# Whatever is built once is kept in $CACHE under a name that carries the hash of all it was built
# from, so a changed recipe builds anew and an unchanged one is reused. A build happens in a
# directory of its own and is renamed when it is whole: what has its final name is finished. A build that is
# killed ends with all its processes and mounts, and the next run starts it again.
set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034  # read by the scripts that source this file
BOX=$REPO/hack/box
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/dranet-nri
export DRANET_STARTED=${DRANET_STARTED:-$EPOCHSECONDS}

# say TEXT: one line of progress on standard error, with the seconds since the first script began.
say() {
    printf '[%4ds] %s\n' "$((EPOCHSECONDS - DRANET_STARTED))" "$*" >&2
}

# die TEXT [REMEDY]: stop, say why and what to do about it.
die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '       %s\n' "$2" >&2
    exit 1
}

# A script that stops where nobody wrote why says at least where.
trap 'printf "error: %s, line %s: exit status %s of: %s\n" "$0" "$LINENO" "$?" "$BASH_COMMAND" >&2' ERR

# need_root ARGS...: start the calling script again as root when it is not.
need_root() {
    [ "$EUID" -ne 0 ] || return 0
    command -v sudo >/dev/null || die "$(basename "$0") needs root" "run it as root"
    say "namespaces and images need root: going on under sudo"
    exec sudo -H --preserve-env=CI,DRANET_STARTED,KUBEBUILDER_ASSETS "$0" "$@"
}

# key TEXT...: the short hash that names what was built from these texts.
key() {
    printf '%s\0' "$@" | sha256sum | cut -c1-16
}

# locked NAME COMMAND...: run COMMAND, one at a time for each NAME.
locked() {
    local name=$1 fd rc=0
    shift
    mkdir -p "$CACHE/locks"
    exec {fd}>"$CACHE/locks/$name"
    flock -n "$fd" || { say "waiting for another run that is building $name"; flock "$fd"; }
    "$@" || rc=$?
    exec {fd}>&-
    return "$rc"
}

# kept NAME COMMAND...: make sure $CACHE/NAME exists; COMMAND TARGET makes it at TARGET.
# COMMAND is a script, not a function: bash drops `set -e` inside a function that is tested.
kept() {
    [ -e "$CACHE/$1" ] || locked "$1" build_kept "$@" || die "could not build $1" "what failed is said above; nothing half built is kept"
    touch -c "$CACHE/$1" # the time of its last use
}

build_kept() {
    local name=$1 building=$CACHE/building.$1
    shift
    [ ! -e "$CACHE/$name" ] || return 0
    forget_old building.
    discard "$building"
    confined "$@" "$building" || { discard "$building"; return 1; }
    mv "$building" "$CACHE/$name"
}

# confined COMMAND...: run COMMAND in process and mount namespaces of its own, which end with this script.
# A user who cannot create namespaces cannot mount either; then only COMMAND itself ends with the script.
confined() {
    local namespaces=(unshare --pid --fork --kill-child --mount-proc --propagation private)
    [ "$EUID" -eq 0 ] || namespaces+=(--user --map-current-user)
    "${namespaces[@]}" true 2>/dev/null || namespaces=()
    setpriv --pdeathsig KILL "${namespaces[@]}" "$@"
}

# discard PATH: remove PATH, and first the mounts that a killed build of an older checkout left below it.
discard() {
    local path mount
    path=$(realpath --canonicalize-missing "$1")
    while IFS= read -r mount; do
        [[ $mount != "$path"/* ]] || umount --lazy "$mount"
    done < <(findmnt --noheadings --list --output TARGET | tac)
    rm -rf --one-file-system "$1"
}

# forget_old PREFIX: drop what was built under this prefix and not used for two weeks. The time of the last
# change of state counts: unpacking a package can set the modification time of a directory to years ago.
forget_old() {
    local old
    while IFS= read -r old; do
        discard "$old"
    done < <(find "$CACHE" -maxdepth 1 -name "$1*" -ctime +14)
}

# need_apt PACKAGE...: install what is missing, or say exactly what to install.
need_apt() {
    local package missing=()
    for package; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null || die "this needs Debian or Ubuntu: ${missing[*]} missing, and there is no apt-get"
    [ "$EUID" -eq 0 ] || die "${missing[*]} missing" "sudo apt-get install --no-install-recommends ${missing[*]}"
    say "installing ${missing[*]}"
    apt_install "${missing[@]}" 2>/dev/null || { apt_lists && apt_install "${missing[@]}"; } ||
        die "apt-get could not install ${missing[*]}" "see its message above; is the package mirror reachable?"
}

apt_install() {
    DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends "$@" >&2
}

apt_lists() {
    say "reading the package lists"
    apt-get -qq -o DPkg::Lock::Timeout=300 update >&2
}

# find_python: print a Python that is new enough and can make virtual environments.
find_python() {
    local candidate
    for candidate in python3 /usr/bin/python3 python3.14 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# What an environment is built from: the tables of pyproject.toml that say so, not the tools' settings.
PROJECT_TABLES='import json, sys, tomllib
tables = tomllib.load(open(sys.argv[1], "rb"))
print(json.dumps([tables["project"], tables["build-system"]]))'

# need_python: print a Python as find_python does; install one where it is missing.
need_python() {
    if ! find_python >/dev/null; then
        need_apt python3 python3-venv
        hash -r
    fi
    find_python || die "no Python 3.11 or newer with venv" "install python3 and python3-venv of at least 3.11"
}

# ensure_venv: make the development environment of this checkout, set VENV, put it first on PATH.
ensure_venv() {
    local python name
    python=$(need_python)
    name=venv-$(key "$("$python" -c "$PROJECT_TABLES" "$REPO/pyproject.toml")" "$(cat "$REPO/requirements/dev.txt")" \
        "$("$python" -VV)" "$REPO")
    VENV=$CACHE/$name
    [ -e "$VENV/complete" ] || locked "$name" build_venv "$python" || die "the Python environment could not be built"
    touch -c "$VENV"
    forget_old venv-
    if [ -L "$CACHE/venv" ] || [ ! -e "$CACHE/venv" ]; then
        ln -sfn "$name" "$CACHE/venv" # for people; scripts use $VENV
    fi
    export VENV PATH=$VENV/bin:$PATH
}

# install_locked LOCK PIP...: let the command PIP install what the file LOCK lists; a file with another hash is refused.
install_locked() {
    local lock=$1
    shift
    "$@" install --quiet --require-hashes --requirement "$lock" >&2
}

# An environment knows its own path, so it is built in place; the file `complete` comes last.
build_venv() {
    [ ! -e "$VENV/complete" ] || return 0
    say "building the Python environment (about a minute)"
    rm -rf --one-file-system "$VENV" &&
        confined "$1" -m venv "$VENV" &&
        install_locked "$REPO/requirements/dev.txt" confined "$VENV/bin/pip" &&
        confined "$VENV/bin/pip" install --quiet --no-deps --no-build-isolation --editable "$REPO" >&2 &&
        touch "$VENV/complete"
}

# step TITLE COMMAND...: say what runs; show what it printed only when it fails.
step() {
    local title=$1 output rc=0
    shift
    output=$("$@" 2>&1) || rc=$?
    if [ "$rc" -ne 0 ]; then
        printf '%s\n' "$output"
        die "$title failed" "run it alone: $*"
    fi
    say "$title: ok"
}

# The directories of the tiers pure and process; the marker `process` tells which of the two a test is in.
# shellcheck disable=SC2034  # read by the scripts that source this file
ROOMS=("$REPO"/tests/{dra_shim,dranet_nri,fuzz,manifests,tools})

# machine_of ARCHITECTURE: print the kernel's name of an architecture that Debian calls amd64 or arm64.
machine_of() {
    case $1 in
    amd64) echo x86_64 ;;
    arm64) echo aarch64 ;;
    *) die "no image for the architecture '$1'" "one of: amd64 arm64" ;;
    esac
}
