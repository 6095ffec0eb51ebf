"""Journal and clock of the executor: both can fail, end the process, or stop."""

from collections.abc import Callable
from dataclasses import dataclass, field
from errno import EIO

from dranet_nri.component.clock import SystemClock
from dranet_nri.model import Attachment, Phase
from dranet_nri.state.record import decode_attachment, encode_attachment


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Journal:
    """Records in memory, through the real encoding.

    Attributes:
        history: each record that was written, in order.
        fails_at: the n-th write from now on fails, 0 none.
        error: what the failing write raises.
        now, times: what to ask at each write, and the answers.
    """

    records: dict[str, Attachment] = field(default_factory=dict)
    history: list[Attachment] = field(default_factory=list)
    fails_at: int = 0
    now: Callable[[], int] = lambda: 0
    times: list[int] = field(default_factory=list)
    error: BaseException = field(default_factory=lambda: OSError(EIO, "injected"))

    def put(self, attachment: Attachment) -> None:
        """Write, or fail."""
        record = decode_attachment(encode_attachment(attachment))
        self.fails_at -= 1
        if self.fails_at == 0:
            raise self.error
        self.records[record.claim.uid] = record
        self.history.append(record)
        self.times.append(self.now())

    def phases(self) -> dict[str, Phase]:
        """Return the phase of each claim."""
        return {uid: record.phase for uid, record in self.records.items()}


@dataclass
class Clock(SystemClock):
    """A clock that is advanced by the test only.

    Attributes:
        asleep: called with the seconds of each sleep.
    """

    now: int = 1000
    on_sleep: Callable[[float], None] = lambda _: None

    def wall(self) -> int:
        return 1_800_000_000 + self.now

    def boot(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.on_sleep(seconds)
