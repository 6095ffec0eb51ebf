#!/bin/bash
# Starts a rank per GPU once every worker answers. The operator wrote the hosts into /etc/mpi/hostfile.
set -euo pipefail
hosts=$(awk 'NF { print $1 }' /etc/mpi/hostfile)
for host in $hosts; do
    for try in $(seq 120); do
        ssh -o ConnectTimeout=5 -o StrictHostKeyChecking=no "$host" true && break
        [ "$try" -lt 120 ] || { echo "$host does not answer" >&2; exit 1; }
        sleep 5
    done
done
first=${hosts%%$'\n'*}
export CASE=${HOSTNAME%-launcher*}
# By its whole path: then it finds its own programs on the workers.
exec "$(command -v mpirun)" --allow-run-as-root --hostfile /etc/mpi/hostfile -npernode 4 --bind-to none \
    -mca pml ob1 -mca btl tcp,self -mca btl_tcp_if_include eth0 -mca plm_rsh_args '-o StrictHostKeyChecking=no' \
    -x CASE -x MASTER_ADDR="$first" -x MASTER_PORT=29500 \
    -x NCCL_SOCKET_IFNAME=eth0 -x NCCL_DEBUG=WARN \
    bash -c '. /etc/worker-environment; exec python /opt/mfu/benchmark.py'
