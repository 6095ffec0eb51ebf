"""Runtime values: pods and containers from NRI, and the edits of a container."""

from dataclasses import dataclass

from dranet_nri.model.claim import CharDevice


@dataclass(frozen=True, slots=True)
class Pod:
    """A sandbox as the runtime describes it (NRI PodSandbox).

    netns_path is "" if the runtime reports no network namespace: host network, VM runtimes, or a
    stop on containerd 1.7 and 2.0.
    """

    sandbox_id: str
    uid: str
    namespace: str
    name: str
    netns_path: str = ""
    pid: int = 0
    handler: str = ""  # of its RuntimeClass, as the runtime's configuration names it

    def __str__(self) -> str:
        """Return namespace/name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount of a container: source on the host, destination inside."""

    source: str
    destination: str
    options: tuple[str, ...] = ()
    type: str = "bind"


@dataclass(frozen=True, slots=True)
class Container:
    """A container as NRI shows it at CreateContainer."""

    id: str
    sandbox_id: str
    name: str
    mounts: tuple[Mount, ...] = ()
    device_paths: tuple[str, ...] = ()
    env: tuple[str, ...] = ()  # "NAME=value"
    rlimits: tuple[str, ...] = ()  # types present, "RLIMIT_MEMLOCK"
    own_users: bool = False  # in a user namespace of its own (hostUsers: false)
    memlock: int | None = None  # soft RLIMIT_MEMLOCK in bytes, None if not set


@dataclass(frozen=True, slots=True)
class Rlimit:
    """A POSIX resource limit; RLIM_INFINITY is 2**64 - 1."""

    type: str
    hard: int
    soft: int


@dataclass(frozen=True, slots=True)
class Edits:
    """Edits of one container, before they are encoded as CDI or as an NRI adjustment."""

    mounts: tuple[Mount, ...] = ()
    char_devices: tuple[CharDevice, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    rlimits: tuple[Rlimit, ...] = ()
