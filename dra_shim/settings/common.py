"""Common flags as frozen values. Parsers of values raise ArgumentTypeError, for argparse."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from dra_shim.settings.feature_gates import LISTS, FeatureGates, parse_gates
from dranet_nri.errors import InvalidValueError
from dranet_nri.model import ContainerClaim, ObjectRef, parse_uid
from dranet_nri.model.api_names import parse_label, parse_subdomain
from dranet_nri.settings import RUN

STATE: Final = Path("/var/lib/dranet-nri")
KUBELET_ROOT: Final = Path("/var/lib/kubelet")
# Kubelet directories of some distributions, for error messages.
KUBELET_ELSEWHERE: Final = (
    "k0s: /var/lib/k0s/kubelet, microk8s: /var/snap/microk8s/common/var/lib/kubelet"
)
DEFAULT_NAMESPACE: Final = "default"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StatePaths:
    """Directories of the records.

    Attributes:
        directory: directory of the shim, with the subdirectory `allocations`.
        run: directory of the plugin, read-only.
    """

    directory: Path = STATE
    run: Path = RUN

    @property
    def allocations(self) -> Path:
        """Return the directory of allocation records."""
        return self.directory / "allocations"

    @property
    def profiles(self) -> Path:
        """Return the directory of profile records."""
        return self.directory / "profiles"

    @property
    def attachments(self) -> Path:
        """Return the directory of attachment records."""
        return self.run / "attachments"

    @property
    def adopted(self) -> Path:
        """Return the file that marks the search for migrated claims as complete."""
        return self.directory / "adopted"

    @property
    def daemon_lock(self) -> Path:
        """Return the lock file of the daemon."""
        return self.directory / "daemon.lock"


@dataclass(frozen=True, slots=True)
class ContainerListing:
    """Value of --container: a container lists a claim, by its name in the pod, or one request."""

    claim: str
    entry: ContainerClaim


def add_state_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags for the locations of records."""
    parser.add_argument(
        "--state-dir", type=Path, default=STATE, metavar="DIR",
        help=f"allocation records are in DIR/allocations (default {STATE})",
    )  # fmt: skip
    parser.add_argument(
        "--run-dir", type=Path, default=RUN, metavar="DIR",
        help=f"the plugin's records are in DIR/attachments, only read (default {RUN})",
    )  # fmt: skip


def add_shared_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag that selects devices which several claims may have."""
    parser.add_argument(
        "--shared", default="", metavar="CEL",
        help="expression, as of --filter, of devices that several claims may have at once "
        "(allowMultipleAllocations): RDMA devices in shared mode and parents of IPoIB "
        "interfaces; their net device stays on the host",
    )  # fmt: skip


def add_azure_flag(parser: argparse.ArgumentParser) -> None:
    """Add the flag for the VM size, for facts that an Azure PCIe tree does not contain."""
    parser.add_argument(
        "--azure-size", default="", metavar="SIZE",
        help="Azure VM size of this node, as for 'dranet-nri inventory'",
    )  # fmt: skip


def add_gates_flag(parser: argparse.ArgumentParser) -> None:
    """Add dranet's flag for alpha features."""
    parser.add_argument(
        "--feature-gates", type=argument(parse_gates), default=FeatureGates(),
        metavar="GATE=BOOL[,...]",
        help=f"{LISTS}=true: NUMA nodes as lists, with the nodes that are as near, for a cluster "
        "whose API server and scheduler have that gate",
    )  # fmt: skip


def state_from(args: argparse.Namespace) -> StatePaths:
    """Return the values of the flags of `add_state_flags`."""
    return StatePaths(args.state_dir, args.run_dir)


def argument(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser of values as the type of an argument."""

    def parsed(text: str) -> T:
        try:
            return parse(text)
        except InvalidValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return parsed


uid: Final = argument(parse_uid)


def namespaced_name(text: str) -> tuple[str, str]:
    """Parse NS/NAME; NAME alone is in the namespace "default"."""
    namespace, _, name = text.rpartition("/")
    try:
        return parse_label(namespace or DEFAULT_NAMESPACE), parse_subdomain(name)
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: NAMESPACE/NAME: {error}") from None


def container_listing(text: str) -> ContainerListing:
    """Parse NAME=CLAIM or NAME=CLAIM/REQUEST."""
    container, equals, rest = text.partition("=")
    claim, slash, request = rest.partition("/")
    if not container or not equals or not claim or bool(slash) != bool(request):
        raise argparse.ArgumentTypeError(f"{text!r}: must be NAME=CLAIM or NAME=CLAIM/REQUEST")
    try:
        return ContainerListing(claim, ContainerClaim(parse_label(container), request))
    except InvalidValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: container name: {error}") from None


def pod_from(args: argparse.Namespace) -> ObjectRef:
    """Return the pod of --pod and --pod-name; without a name it is named by its UID."""
    namespace, name = args.pod_name or (DEFAULT_NAMESPACE, args.pod)
    return ObjectRef(namespace, name, args.pod)
