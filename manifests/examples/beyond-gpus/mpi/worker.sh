#!/bin/bash
# A worker waits for the launcher's ssh. Ranks read the names of the claimed devices from a file,
# because sshd gives a session none of the container's environment.
set -euo pipefail
if ! command -v sshd >/dev/null; then
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends openssh-server openmpi-bin python3-mpi4py ibverbs-providers >/dev/null
fi
ssh-keygen -A
mkdir -p /run/sshd
export -p | grep -E '^declare -x (PATH|DRA_NET_[A-Z0-9_]*)=' >/etc/worker-environment
exec "$(command -v sshd)" -De -o StrictModes=no
