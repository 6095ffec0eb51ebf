# shellcheck shell=bash
# Shared functions of the scripts in hack/. To be sourced; it runs nothing.
#
# Builds are cached in $CACHE under a name with the hash of all inputs: changed inputs cause a new build.
# A build runs in its own directory, which is renamed when it is complete. A killed build ends with all its
# processes and mounts, and the next run starts it again.
set -euo pipefail

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck disable=SC2034  # read by the scripts that source this file
BOX=$REPO/hack/box
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/dranet-nri
export DRANET_STARTED=${DRANET_STARTED:-$EPOCHSECONDS}

# say TEXT: print progress on standard error, with the seconds since the first script started.
say() {
    printf '[%4ds] %s\n' "$((EPOCHSECONDS - DRANET_STARTED))" "$*" >&2
}

# die TEXT [REMEDY]: print the error and its remedy, and exit.
die() {
    printf 'error: %s\n' "$1" >&2
    [ $# -lt 2 ] || printf '       %s\n' "$2" >&2
    exit 1
}

# A script that fails without a message prints the line of the failure.
trap 'printf "error: %s, line %s: exit status %s of: %s\n" "$0" "$LINENO" "$?" "$BASH_COMMAND" >&2' ERR

# need_root ARGS...: restart the calling script as root, unless it is.
need_root() {
    [ "$EUID" -ne 0 ] || return 0
    command -v sudo >/dev/null || die "$(basename "$0") needs root" "run it as root"
    say "namespaces and images need root: going on under sudo"
    exec sudo -H --preserve-env=CI,DRANET_STARTED,KUBEBUILDER_ASSETS "$0" "$@"
}

# key TEXT...: print the short hash of these texts, for names of builds.
key() {
    printf '%s\0' "$@" | sha256sum | cut -c1-16
}

# locked NAME COMMAND...: run COMMAND under the lock NAME.
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

# kept NAME COMMAND...: build $CACHE/NAME if it does not exist, with COMMAND TARGET.
# COMMAND is a script, not a function: bash drops `set -e` inside a function that is tested.
kept() {
    [ -e "$CACHE/$1" ] || locked "$1" build_kept "$@" || die "could not build $1" "see the error above; no partial build is kept"
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

# confined COMMAND...: run COMMAND in its own process and mount namespaces, which end with this script.
# A user who cannot create namespaces cannot mount either; then only COMMAND ends with the script.
confined() {
    local namespaces=(unshare --pid --fork --kill-child --mount-proc --propagation private)
    [ "$EUID" -eq 0 ] || namespaces+=(--user --map-current-user)
    "${namespaces[@]}" true 2>/dev/null || namespaces=()
    setpriv --pdeathsig KILL "${namespaces[@]}" "$@"
}

# discard PATH: remove PATH, after unmounting what a killed build of an older checkout left below it.
discard() {
    local path mount
    path=$(realpath --canonicalize-missing "$1")
    while IFS= read -r mount; do
        [[ $mount != "$path"/* ]] || umount --lazy "$mount"
    done < <(findmnt --noheadings --list --output TARGET | tac)
    rm -rf --one-file-system "$1"
}

# forget_old PREFIX: remove builds with this prefix that were not used for two weeks, by ctime: unpacking a
# package can set the modification time of a directory to years ago.
forget_old() {
    local old
    while IFS= read -r old; do
        discard "$old"
    done < <(find "$CACHE" -maxdepth 1 -name "$1*" -ctime +14)
}

# need_apt PACKAGE...: install missing packages, or print which to install.
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

# find_python: print a Python that is new enough and has venv.
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

# Inputs of an environment: the dependency tables of pyproject.toml, without the settings of tools.
PROJECT_TABLES='import json, sys, tomllib
tables = tomllib.load(open(sys.argv[1], "rb"))
print(json.dumps([tables["project"], tables["build-system"]]))'

# need_python: print a Python as find_python does; install one if missing.
need_python() {
    if ! find_python >/dev/null; then
        need_apt python3 python3-venv
        hash -r
    fi
    find_python || die "no Python 3.11 or newer with venv" "install python3 and python3-venv of at least 3.11"
}

# ensure_venv: create the development environment of this checkout, set VENV, put it first on PATH.
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

# install_locked LOCK PIP...: install the packages of the file LOCK with the command PIP; hashes are required.
install_locked() {
    local lock=$1
    shift
    "$@" install --quiet --require-hashes --requirement "$lock" >&2
}

# An environment contains its path, so it is built in place; the file `complete` is written last.
build_venv() {
    [ ! -e "$VENV/complete" ] || return 0
    say "building the Python environment (about a minute)"
    rm -rf --one-file-system "$VENV" &&
        confined "$1" -m venv "$VENV" &&
        install_locked "$REPO/requirements/dev.txt" confined "$VENV/bin/pip" &&
        confined "$VENV/bin/pip" install --quiet --no-deps --no-build-isolation --editable "$REPO" >&2 &&
        touch "$VENV/complete"
}

# module_directory GO MODULE VERSION SUM: download a Go module, compare its checksum, and print its directory.
module_directory() {
    local found
    found=$(cd / && GOFLAGS='' GOWORK=off "$1" mod download -json "$2@$3") # outside of any module
    grep -qF "\"Sum\": \"$4\"" <<<"$found" || die "$2@$3 has another checksum than $4"
    sed -n 's/^\t"Dir": "\(.*\)",$/\1/p' <<<"$found"
}

# step TITLE COMMAND...: print the title and run the command; show its output only on failure.
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

# Directories of the tiers pure and process; tests of process have the marker `process`.
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
