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
kept='PATH|LD_LIBRARY_PATH|PYTHONPATH|(NVIDIA|CUDA|NCCL|DRA_NET)_[A-Z0-9_]*'
export -p | grep -E "^declare -x ($kept)=" >/etc/worker-environment
{
    env | grep ^DRA_NET_ | sort # the claimed NICs
    # Which GPU is near which NIC: NODE is the same socket, SYS the other one.
    if command -v nvidia-smi >/dev/null; then nvidia-smi topo -m; fi
    for device in /sys/class/infiniband/*; do
        [ ! -e "$device/device/numa_node" ] || echo "${device##*/} NUMA node $(cat "$device/device/numa_node")"
    done
} >/etc/worker-topology 2>&1 || true
cat /etc/worker-topology
exec "$(command -v sshd)" -De -o StrictModes=no
