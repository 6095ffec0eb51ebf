"""The plugin's heartbeat: a file with the state of its loops, read by probes.

The plugin listens on nothing. Its event loop writes the file every few seconds; times in it are of
CLOCK_BOOTTIME, which all processes of a node share and no change of the clock moves.

Rules:
1. A probe that restarts the plugin fails only for what a restart can repair: an event loop or a
   repair loop that does not run. It does not fail while the runtime is away.
2. A thread that hangs in the kernel fails no probe, because a restart does not end it. The probe's
   line reports it.
3. A full file system fails no probe: the file has blanks at its end and is overwritten in place.
   No plugin starts on a read-only one, and it cannot become read-only while a plugin runs, because
   the lock file is open.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from errno import EDQUOT, ENOSPC
from pathlib import Path
from types import UnionType
from typing import Any, Final

from dranet_nri.component.files import FileSystem, read_record_bytes, save
from dranet_nri.errors import StateCorruptError, StateError, StateVersionError

NAME: Final = "heartbeat.json"
BEAT_S: Final = 5.0  # between two beats
MOST_S: Final = 30.0  # age of a beat that still counts
ROUND_S: Final = 600.0  # for a round of repairs; what hangs costs it ten seconds in all
MAX_HUNG: Final = 16  # stuck threads in a heartbeat
MAX_TEXT: Final = 500  # characters of each text
READABLE: Final = 0o644
_VERSION: Final = 1
_LIMIT: Final = 128 << 10  # bytes; more than all texts can take
_LEAST: Final = 8 << 10  # bytes; room for all but stuck threads of the longest texts
_FULL: Final = frozenset({ENOSPC, EDQUOT})

Kind = type | UnionType
_FIELDS: Final[Mapping[str, Kind]] = {
    "pid": int,
    "beat_s": int | float,
    "serving": bool,
    "trouble": str,
    "round_began_s": int | float | None,
    "round_due_s": int | float | None,
}
_STUCK: Final[Mapping[str, Kind]] = {"since_s": int | float, "claim": str, "step": str}


@dataclass(frozen=True, slots=True)
class HungCall:
    """A thread that the kernel keeps.

    Attributes:
        since_s: when its work began.
        claim: whose devices it works on, "namespace/name" with commas; "" if it is no claim's.
        step: what it does.
    """

    since_s: float
    claim: str
    step: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """State of the plugin. Times are seconds of CLOCK_BOOTTIME.

    Attributes:
        beat_s: when this was written.
        serving: registered at the runtime and synchronised.
        trouble: why there was no connection the last time, or why it does not serve; "" if there
            is nothing to report.
        round_began_s: since when a round of repairs is at work, None between rounds.
        round_due_s: when the next one is to begin, None while one is at work.
        stuck: threads that the kernel keeps.
    """

    pid: int
    beat_s: float
    serving: bool
    trouble: str = ""
    round_began_s: float | None = None
    round_due_s: float | None = None
    stuck: tuple[HungCall, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """Meaning of the plugin's heartbeat, one line for each problem.

    Attributes:
        dead: why it is not at work, which a restart may help.
        waiting: why pods would not get their devices, though it is at work.
        remarks: what an operator should know besides.
    """

    dead: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def troubles(self) -> tuple[str, ...]:
        """Return why pods would not get their devices now."""
        return self.dead or self.waiting


def boot_s() -> float:
    """Return seconds of CLOCK_BOOTTIME."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def store(fs: FileSystem, run: Path, beat: Heartbeat) -> None:
    """Write the heartbeat into the plugin's directory, which is on tmpfs.

    Where there is no room for another file, the one before is written over, without the stuck
    threads that are too long for it. A reader may meet it half written then; a probe asks again.

    Raises:
        OSError: it can't be written.
    """
    path = run / NAME
    stuck = tuple(
        HungCall(call.since_s, call.claim[:MAX_TEXT], call.step[:MAX_TEXT])
        for call in beat.stuck[:MAX_HUNG]
    )
    beat = replace(beat, trouble=beat.trouble[:MAX_TEXT], stuck=stuck)
    try:
        save(fs, path, _encoded(beat, _LEAST, _LIMIT), durable=False, mode=READABLE)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        size = path.stat().st_size
        fs.overwrite(path, _encoded(beat, size, size))


def load(run: Path) -> Heartbeat:
    """Return the heartbeat in the plugin's directory.

    Raises:
        FileNotFoundError: there is none.
        OSError: it can't be read.
        StateError: it is not a file of this format.
    """
    directory = os.open(run, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _decoded(read_record_bytes(directory, NAME, _LIMIT))
    finally:
        os.close(directory)


def plugin_health(run: Path, *, most_s: float = MOST_S) -> PluginHealth:
    """Return what the heartbeat in the plugin's directory means now, be there none.

    Args:
        run: the directory.
        most_s: how old the heartbeat may be.
    """
    try:
        beat = load(run)
    except FileNotFoundError:
        return PluginHealth((f"no heartbeat in {run}: not started, or it cannot write there",))
    except (StateError, OSError) as error:
        return PluginHealth((f"heartbeat of {run} cannot be read: {error}",))
    now_s = boot_s()
    return PluginHealth(problems(beat, now_s, most_s=most_s), not_ready(beat), remarks(beat, now_s))


def problems(beat: Heartbeat, now_s: float, *, most_s: float = MOST_S) -> tuple[str, ...]:
    """Return what a restart may help, one line each; nothing else is asked of a plugin to live.

    Args:
        beat: the last heartbeat.
        now_s: seconds of CLOCK_BOOTTIME.
        most_s: how old it may be.
    """
    age_s = now_s - beat.beat_s
    if age_s < 0:
        return ("the heartbeat is of another boot of the machine",)
    if age_s > most_s:
        late = f"no heartbeat for {age_s:.0f} s, at most {most_s:g} s"
        return (f"{late}: it ended, hangs, or cannot write it",)
    if beat.round_began_s is not None and now_s - beat.round_began_s > ROUND_S:
        return (f"a round of repairs has been at work for {now_s - beat.round_began_s:.0f} s",)
    if beat.round_due_s is not None and now_s - beat.round_due_s > ROUND_S:
        return (f"a round of repairs is {now_s - beat.round_due_s:.0f} s late",)
    return ()


def not_ready(beat: Heartbeat) -> tuple[str, ...]:
    """Return why pods would not get their devices now, one line each."""
    if beat.serving:
        return ()
    return (f"not served by the runtime: {beat.trouble or 'it has not answered yet'}",)


def remarks(beat: Heartbeat, now_s: float) -> tuple[str, ...]:
    """Return what an operator should know of, though no probe fails for it."""
    return tuple(
        f"hung in the kernel for {now_s - call.since_s:.0f} s: {call.step}"
        + (f" (claim {call.claim})" if call.claim else "")
        for call in beat.stuck
    )


def _encoded(beat: Heartbeat, least: int, most: int) -> bytes:
    """Return the file's content, by stuck threads less if that brings it down to most bytes."""
    data = json.dumps({"version": _VERSION, **asdict(beat)}).encode()
    if len(data) > most and beat.stuck:
        return _encoded(replace(beat, stuck=beat.stuck[:-1]), least, most)
    return data.ljust(least)


def _decoded(data: bytes) -> Heartbeat:
    try:
        fields = json.loads(data, parse_constant=_refused)
        version = fields.pop("version")
        if version != _VERSION:
            raise StateVersionError(f"{NAME}: version {version!r}, this program reads {_VERSION}")
        stuck = tuple(HungCall(**_checked(call, _STUCK)) for call in fields.pop("stuck"))
        return Heartbeat(**_checked(fields, _FIELDS), stuck=stuck)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
        raise StateCorruptError(f"{NAME}: not a heartbeat: {cause!r}") from cause


def _checked(fields: dict[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    for name, kind in kinds.items():
        if not isinstance(fields[name], kind):
            raise TypeError(f"{name}: {fields[name]!r}")
    return fields


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is no time")
