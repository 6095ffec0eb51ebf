"""Operations on BPF programs of a link: XDP and TCX."""

from dataclasses import dataclass

from dranet_nri.model import Ns, TcxProgram, XdpMode


@dataclass(frozen=True, slots=True)
class DetachXdp:
    """Detach the XDP program of this mode; a missing one counts as success."""

    ns: Ns
    index: int
    mode: XdpMode

    def __str__(self) -> str:
        return f"detach the {self.mode} XDP program of link {self.index} in {self.ns}"


@dataclass(frozen=True, slots=True)
class DetachTcx:
    """Detach the TCX programs of a link, except those in `kept` and those of BPF links."""

    ns: Ns
    name: str
    kept: tuple[TcxProgram, ...]

    def __str__(self) -> str:
        return f"detach the TCX programs of {self.name} in {self.ns}, {len(self.kept)} stay"


@dataclass(frozen=True, slots=True)
class DisableTcx:
    """Detach all TCX programs of a link, including those of BPF links.

    Other programs stay loaded until AttachTcx, while the plugin runs.
    """

    ns: Ns
    name: str

    def __str__(self) -> str:
        return f"detach all TCX programs of {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class AttachTcx:
    """Attach a loaded TCX program to the link, after the others; an attached one is a success.

    ENOENT: the program is no longer loaded.
    """

    ns: Ns
    name: str
    program: TcxProgram

    def __str__(self) -> str:
        what = f"TCX program {self.program.id} ({self.program.side})"
        return f"attach {what} to {self.name} in {self.ns}"
