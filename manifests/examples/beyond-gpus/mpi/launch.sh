#!/bin/bash
# Starts a rank on each worker once all of them answer. The operator wrote /etc/mpi/hostfile.
set -euo pipefail
if ! command -v mpirun >/dev/null; then
    apt-get -qq update
    apt-get -qq install -y --no-install-recommends openssh-client openmpi-bin python3-mpi4py >/dev/null
fi
mkdir -p /etc/ssh/ssh_config.d
printf 'Host *\n    StrictHostKeyChecking no\n    LogLevel ERROR\n' >/etc/ssh/ssh_config.d/00-mpi.conf
for host in $(awk 'NF { print $1 }' /etc/mpi/hostfile); do
    for try in $(seq 120); do
        ssh -o ConnectTimeout=5 "$host" true && break
        [ "$try" -lt 120 ] || { echo "$host does not answer" >&2; exit 1; }
        sleep 5
    done
done
# Workers have fully qualified names, of a headless service (Open MPI 4; 5 and newer).
export OMPI_MCA_orte_keep_fqdn_hostnames=1 PRTE_MCA_prte_keep_fqdn_hostnames=1
read -ra flags <<<"$MPI_FLAGS"
# By its whole path: then it finds its own programs on the workers.
"$(command -v mpirun)" --allow-run-as-root --hostfile /etc/mpi/hostfile --bind-to none "${flags[@]}" \
    bash /opt/mpi/rank.sh
