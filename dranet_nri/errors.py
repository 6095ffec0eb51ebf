"""Exceptions of both packages.

    DranetError
    ├── InvalidValueError     a value from outside cannot be used (field, value, rule)
    ├── ConfigError           a document breaks rules; carries every violation found
    ├── ProtocolError         the peer sent bytes that break the wire protocol
    ├── StateError            a record cannot be used
    │   ├── StateCorruptError     its bytes are not a valid record
    │   └── StateVersionError     it was written by a newer version
    ├── KernelError           the kernel refused one operation
    ├── AttachError           a plan stopped; names the operation, and what could not be undone
    └── RefusedError          a pod is refused, with the reason for the operator
        ├── OwnedError            another pod or sandbox has the device or claim
        ├── NotRestoredError      the device is not restored on the host yet
        ├── NoAddressError        no router or DHCP server gave a device an address in time
        ├── NoNetnsError          its sandbox has no network namespace of its own
        ├── OutdatedError         its allocation or sandbox is not the current one
        ├── UnusableRecordError   its allocation record cannot be used
        └── NotAttachedError      a claim that a container lists is not attached to its pod

Inner code raises; the outermost caller logs once. Refusals are counted by `kind`.
"""

from collections.abc import Mapping, Sequence
from errno import (
    EACCES,
    EDQUOT,
    EEXIST,
    EIO,
    EISDIR,
    ELOOP,
    EMFILE,
    ENAMETOOLONG,
    ENFILE,
    ENODEV,
    ENOENT,
    ENOSPC,
    ENOTDIR,
    ENXIO,
    EOPNOTSUPP,
    EPERM,
    EROFS,
    errorcode,
)
from typing import ClassVar, Final

ALREADY_GONE: Final = frozenset({ENODEV, ENOENT, ENXIO})
FILE_REMEDIES: Final[Mapping[int | None, str]] = {
    **dict.fromkeys((ENOENT, ENOTDIR, EISDIR, EEXIST, ELOOP, ENAMETOOLONG), "check the path"),
    **dict.fromkeys((EACCES, EPERM), "allow the access, or use another user"),
    **dict.fromkeys((ENOSPC, EDQUOT), "make room there"),
    **dict.fromkeys((EMFILE, ENFILE), "raise the limit of open files"),
    EROFS: "make it writable",
    EIO: "see the kernel's log (dmesg)",
}
_NAMES: Final = {**errorcode, EOPNOTSUPP: "EOPNOTSUPP"}  # as the kernel has it, not ENOTSUP


def os_error_text(error: OSError) -> str:
    """Return the file, the reason and the remedy of an OSError, or its own text if it has one."""
    if type(error).__str__ is not OSError.__str__ or error.errno is None:
        return str(error)
    parts = (str(error.filename or ""), error.strerror or "")
    remedy = FILE_REMEDIES.get(error.errno)
    return ": ".join(filter(None, parts)) + (f"; {remedy}" if remedy else "")


class DranetError(Exception):
    """Base of all errors of both packages.

    Attributes:
        kind: label value of the metric of refusals; there are few.
    """

    kind: ClassVar[str] = "internal"

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines for a terminal, one reason each."""
        return (str(self),)


class InvalidValueError(DranetError):
    """A single value from outside is invalid."""

    kind = "config"


class ConfigError(DranetError):
    """A document breaks rules.

    Attributes:
        violations: one line each, "path: value: rule and remedy", in document order.
    """

    kind = "config"

    def __init__(self, violations: Sequence[str]) -> None:
        """Store the violations; the text joins them with "; "."""
        super().__init__("; ".join(violations))
        self.violations = tuple(violations)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the violations."""
        return self.violations


class ProtocolError(DranetError):
    """The peer sent bytes that the protocol does not allow."""


class StateError(DranetError):
    """A state record cannot be used."""

    kind = "record"


class StateCorruptError(StateError):
    """The bytes are not a valid record. They are kept in place or quarantined."""


class StateVersionError(StateError):
    """The record is newer than this program. Upgrade, or remove the node's claims first."""


class KernelError(DranetError):
    """The kernel refused one operation.

    Attributes:
        op: text of the operation.
        code: errno; 0 when no errno applies.
        detail: the kernel's extended-ack text, or "".
    """

    kind = "kernel"

    def __init__(self, op: str, code: int, detail: str = "") -> None:
        """Store the facts; __str__ builds the text."""
        super().__init__(op, code, detail)
        self.op = op
        self.code = code
        self.detail = detail

    def __str__(self) -> str:
        """Return operation, name of the errno and the kernel's text."""
        name = _NAMES.get(self.code, f"errno {self.code}")
        return f"{self.op}: {name}{f' ({self.detail})' if self.detail else ''}"

    @property
    def already_gone(self) -> bool:
        """Whether the object no longer exists, which a teardown counts as success."""
        return self.code in ALREADY_GONE


class AttachError(DranetError):
    """A plan stopped half way.

    Attributes:
        step: description of the operation that failed, "" if the cause explains itself.
        cause: why.
        undo_failures: empty when everything done before was taken back.
    """

    kind = "kernel"

    def __init__(self, step: str, cause: str, undo_failures: Sequence[str] = ()) -> None:
        """Keep the facts."""
        tail = f"; not undone: {'; '.join(undo_failures)}" if undo_failures else ""
        super().__init__(f"{step} failed: {cause}{tail}" if step else f"{cause}{tail}")
        self.step = step
        self.cause = cause
        self.undo_failures = tuple(undo_failures)


class RefusedError(DranetError):
    """A pod or container is refused; the text names the device or claim, why, and the remedy."""

    kind = "unsuitable"


class OwnedError(RefusedError):
    """Another pod, sandbox or claim owns the device."""

    kind = "in_use"


class NotRestoredError(RefusedError):
    """The device of a sandbox that is gone is not restored on the host yet."""

    kind = "not_restored"


class NoAddressError(RefusedError):
    """No router or DHCP server gave a device of the pod an address in time."""


class NoNetnsError(RefusedError):
    """The sandbox has no network namespace of its own, or it is gone."""

    kind = "no_namespace"


class VirtualMachineError(RefusedError):
    """The pod's containers run on a guest kernel, which no NIC reaches."""


class OutdatedError(RefusedError):
    """The allocation or the sandbox is not the current one."""

    kind = "outdated"


class UnusableRecordError(RefusedError):
    """A record of the pod's claims cannot be used, so its devices are unknown."""

    kind = "record"


class NotAttachedError(RefusedError):
    """A container references a claim that is not attached to its pod."""

    kind = "not_attached"
