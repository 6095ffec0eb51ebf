"""The operations on the BPF programs that a link runs: XDP and TCX."""

from dataclasses import dataclass

from dranet_nri.model import Ns, TcxProgram, XdpMode


@dataclass(frozen=True, slots=True)
class DetachXdp:
    """Take the XDP program of that mode off the link; one that is gone counts as done."""

    ns: Ns
    index: int
    mode: XdpMode

    def __str__(self) -> str:
        """Describe the operation."""
        return f"detach the {self.mode} XDP program of link {self.index} in {self.ns}"


@dataclass(frozen=True, slots=True)
class DetachTcx:
    """Take off the link what runs on it by TCX, but for what shall stay and what BPF links hold."""

    ns: Ns
    name: str
    kept: tuple[TcxProgram, ...]

    def __str__(self) -> str:
        """Describe the operation."""
        return f"detach the TCX programs of {self.name} in {self.ns}, {len(self.kept)} stay"


@dataclass(frozen=True, slots=True)
class DisableTcx:
    """Take off the link all that runs on it by TCX, what BPF links hold as well.

    A program that no BPF link holds stays loaded until AttachTcx, as long as the plugin runs.
    """

    ns: Ns
    name: str

    def __str__(self) -> str:
        """Describe the operation."""
        return f"detach all TCX programs of {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class AttachTcx:
    """Let a loaded program run on the link by TCX, after the others; one that does counts as done.

    It fails with ENOENT where the program is no longer loaded.
    """

    ns: Ns
    name: str
    program: TcxProgram

    def __str__(self) -> str:
        """Describe the operation."""
        what = f"TCX program {self.program.id} ({self.program.side})"
        return f"attach {what} to {self.name} in {self.ns}"
