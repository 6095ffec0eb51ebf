#!/bin/bash
# A rank uses the RDMA device that its worker claims (request `nic` of the pod's claim `mpi`).
set -euo pipefail
. /etc/worker-environment
# Verbs alone: a job that cannot use them ends, and is not slow over TCP.
export UCX_TLS=rc,self UCX_NET_DEVICES=$DRA_NET_MPI_NIC_RDMA_DEVICES:1             # UCX
export FI_PROVIDER='verbs;ofi_rxm' FI_VERBS_IFACE=${DRA_NET_MPI_NIC_IFNAMES-} # libfabric
export FI_UNIVERSE_SIZE=$OMPI_COMM_WORLD_SIZE # its completion queues are for so many ranks
exec python3 /opt/mpi/pingpong.py
