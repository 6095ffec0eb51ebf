#!/bin/bash
# A worker waits for the launcher's ssh. What this container has in its environment, ranks get too:
# sshd gives a session none of it.
set -euo pipefail
if ! command -v sshd >/dev/null; then
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends openssh-server >/dev/null
fi
ssh-keygen -A
mkdir -p /run/sshd
export -p | grep -E ' (PATH|LD_LIBRARY_PATH|NVIDIA_[A-Z0-9_]*|CUDA_[A-Z0-9_]*|DRA_NET_[A-Z0-9_]*)=' >/etc/worker-environment
nvidia-smi topo -m || true # NODE: GPU and NIC are on one socket, SYS: they are not
exec "$(command -v sshd)" -De -o StrictModes=no
