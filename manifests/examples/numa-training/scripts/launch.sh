#!/bin/bash
# Starts a rank for each slot once every worker answers. The operator wrote /etc/mpi/hostfile.
set -euo pipefail
if ! command -v ssh >/dev/null; then
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends openssh-client >/dev/null
fi
mkdir -p /etc/ssh/ssh_config.d
printf 'Host *\n    StrictHostKeyChecking no\n    LogLevel ERROR\n' >/etc/ssh/ssh_config.d/00-mpi.conf
hosts=$(awk 'NF { print $1 }' /etc/mpi/hostfile)
for host in $hosts; do
    for try in $(seq 120); do
        ssh -o ConnectTimeout=5 "$host" true && break
        [ "$try" -lt 120 ] || { echo "$host does not answer" >&2; exit 1; }
        sleep 5
    done
    echo "== $host: GPUs and NICs of the worker"
    ssh "$host" cat /etc/worker-topology # the evidence: NODE on one socket, SYS across sockets
done
export MASTER_ADDR=${hosts%%[[:space:]]*} MASTER_PORT=${MASTER_PORT:-29500}
job=${HOSTNAME%%-launcher*}
export CASE=${CASE:-${job#mfu-}}
# What is set here for the libraries and the benchmark, the ranks get too.
passed=()
while read -r name; do passed+=(-x "$name"); done < <(
    compgen -e | grep -E '^((NCCL|GLOO|UCX|TORCH|MFU|MASTER)_[A-Z0-9_]*|CASE|PEAK_TFLOPS)$'
)
# Workers have fully qualified names, of a headless service (Open MPI 4; 5 and newer).
export OMPI_MCA_orte_keep_fqdn_hostnames=1 PRTE_MCA_prte_keep_fqdn_hostnames=1
# By its whole path: then it finds its own programs on the workers.
"$(command -v mpirun)" --allow-run-as-root --hostfile /etc/mpi/hostfile --bind-to none \
    --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0 "${passed[@]}" \
    bash -c '. /etc/worker-environment; exec python3 /opt/mfu/benchmark.py'
