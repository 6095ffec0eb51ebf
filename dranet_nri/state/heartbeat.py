"""Heartbeat of the plugin: a file with the state of its loops, read by probes.

The plugin has no listening socket. Its event loop writes the file every few seconds. Times are of
CLOCK_BOOTTIME, which is common to all processes of a node and not affected by clock changes.

Rules:
1. The liveness probe fails only for what a restart repairs: an event loop or a reconcile loop that
   does not run. It does not fail while the runtime is down.
2. A thread that hangs in the kernel fails no probe, because a restart does not end it. The probe's
   output reports it.
3. A full file system fails no probe: the file is padded and overwritten in place. A read-only one
   does not occur: no plugin starts on it, and the open lock file prevents the change.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from errno import EDQUOT, ENOSPC
from pathlib import Path
from types import UnionType
from typing import Any, Final

from dranet_nri.component.files import FileSystem, read_file, save
from dranet_nri.component.replace import replace
from dranet_nri.errors import StateCorruptError, StateError, StateVersionError, os_error_text

NAME: Final = "heartbeat.json"
BEAT_S: Final = 5.0  # period of the heartbeat
MAX_AGE_S: Final = 30.0  # maximum age of a valid heartbeat
ROUND_S: Final = 600.0  # maximum length of a reconcile round; hung repairs add ten seconds in all
MAX_HUNG: Final = 16  # hung threads in a heartbeat
MAX_TEXT: Final = 500  # characters of each text
READABLE: Final = 0o644
_VERSION: Final = 1
_MAX_BYTES: Final = 128 << 10  # bytes; more than all texts can take
_MIN_BYTES: Final = 8 << 10  # bytes; fits all except hung threads with long texts
_NO_SPACE: Final = frozenset({ENOSPC, EDQUOT})

Kind = type | UnionType
_FIELDS: Final[Mapping[str, Kind]] = {
    "pid": int,
    "beat_s": int | float,
    "serving": bool,
    "error": str,
    "round_began_s": int | float | None,
    "round_due_s": int | float | None,
}
_HUNG_FIELDS: Final[Mapping[str, Kind]] = {"since_s": int | float, "claim": str, "step": str}


@dataclass(frozen=True, slots=True)
class HungCall:
    """A thread that hangs in a system call.

    Attributes:
        since_s: start of its work.
        claim: claims of its devices, "namespace/name", comma-separated; "" if none.
        step: the step that hangs.
    """

    since_s: float
    claim: str
    step: str


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """State of the plugin. Times are seconds of CLOCK_BOOTTIME.

    Attributes:
        beat_s: time of the write.
        serving: registered at the runtime and synchronized.
        error: last connection error, or the reason why it does not serve; "" if none.
        round_began_s: start of the running reconcile round, None between rounds.
        round_due_s: start of the next round, None while one runs.
        hung: hung threads.
    """

    pid: int
    beat_s: float
    serving: bool
    error: str = ""
    round_began_s: float | None = None
    round_due_s: float | None = None
    hung: tuple[HungCall, ...] = ()


@dataclass(frozen=True, slots=True)
class PluginHealth:
    """Health of the plugin, derived from its heartbeat; one line per problem.

    Attributes:
        not_live: failures that a restart may repair.
        not_ready: reasons why pods do not get their devices although the plugin runs.
        remarks: other facts for an operator.
    """

    not_live: tuple[str, ...] = ()
    not_ready: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Return the reasons why pods do not get their devices now."""
        return self.not_live or self.not_ready


def boot_s() -> float:
    """Return seconds of CLOCK_BOOTTIME."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def store(fs: FileSystem, run: Path, beat: Heartbeat) -> None:
    """Write the heartbeat into the plugin's directory, which is on tmpfs.

    On a full file system the old file is overwritten in place, without hung threads that do not
    fit. A reader may then get a partial file; the kubelet repeats the probe.

    Raises:
        OSError: it cannot be written.
    """
    path = run / NAME
    hung = tuple(
        HungCall(call.since_s, call.claim[:MAX_TEXT], call.step[:MAX_TEXT])
        for call in beat.hung[:MAX_HUNG]
    )
    beat = replace(beat, error=beat.error[:MAX_TEXT], hung=hung)
    try:
        save(fs, path, _encoded(beat, _MIN_BYTES, _MAX_BYTES), durable=False, mode=READABLE)
    except OSError as error:
        if error.errno not in _NO_SPACE:
            raise
        size = path.stat().st_size
        fs.overwrite(path, _encoded(beat, size, size))


def load(run: Path) -> Heartbeat:
    """Return the heartbeat in the plugin's directory.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be read.
        StateError: it is not a file of this format.
    """
    return _decoded(read_file(run / NAME, _MAX_BYTES))


def plugin_health(run: Path, *, max_age_s: float = MAX_AGE_S) -> PluginHealth:
    """Return the plugin's health by the heartbeat in its directory, also without one.

    Args:
        run: the directory.
        max_age_s: maximum age of the heartbeat in seconds.
    """
    try:
        beat = load(run)
    except FileNotFoundError:
        return PluginHealth((f"no heartbeat in {run}: not started, or it cannot write there",))
    except (StateError, OSError) as error:
        reason = os_error_text(error) if isinstance(error, OSError) else error
        return PluginHealth((f"heartbeat of {run} cannot be read: {reason}",))
    now_s = boot_s()
    return PluginHealth(
        liveness_problems(beat, now_s, max_age_s=max_age_s),
        readiness_problems(beat),
        remarks(beat, now_s),
    )


def liveness_problems(
    beat: Heartbeat, now_s: float, *, max_age_s: float = MAX_AGE_S
) -> tuple[str, ...]:
    """Return the failures that a restart may repair, one line each.

    Args:
        beat: the last heartbeat.
        now_s: seconds of CLOCK_BOOTTIME.
        max_age_s: maximum age in seconds.
    """
    age_s = now_s - beat.beat_s
    if age_s < 0:
        return ("the heartbeat is of another boot of the machine",)
    if age_s > max_age_s:
        late = f"no heartbeat for {age_s:.0f} s, at most {max_age_s:g} s"
        return (f"{late}: the plugin ended, hangs, or cannot write it",)
    if beat.round_began_s is not None and now_s - beat.round_began_s > ROUND_S:
        return (f"a reconcile round has run for {now_s - beat.round_began_s:.0f} s",)
    if beat.round_due_s is not None and now_s - beat.round_due_s > ROUND_S:
        return (f"a reconcile round is {now_s - beat.round_due_s:.0f} s late",)
    return ()


def readiness_problems(beat: Heartbeat) -> tuple[str, ...]:
    """Return the reasons why pods do not get their devices now, one line each."""
    if beat.serving:
        return ()
    return (f"not served by the runtime: {beat.error or 'it has not answered yet'}",)


def remarks(beat: Heartbeat, now_s: float) -> tuple[str, ...]:
    """Return facts for an operator that fail no probe."""
    return tuple(
        f"hung in the kernel for {now_s - call.since_s:.0f} s: {call.step}"
        + (f" (claim {call.claim})" if call.claim else "")
        for call in beat.hung
    )


def _encoded(beat: Heartbeat, least: int, most: int) -> bytes:
    """Return the content, padded to `least` bytes; drop hung threads above `most` bytes."""
    data = json.dumps({"version": _VERSION, **asdict(beat)}).encode()
    if len(data) > most and beat.hung:
        return _encoded(replace(beat, hung=beat.hung[:-1]), least, most)
    return data.ljust(least)


def _decoded(data: bytes) -> Heartbeat:
    try:
        fields = json.loads(data, parse_constant=_refuse_constant)
        version = fields.pop("version")
        if version != _VERSION:
            raise StateVersionError(f"{NAME}: version {version!r}, this program reads {_VERSION}")
        hung = tuple(HungCall(**_checked(call, _HUNG_FIELDS)) for call in fields.pop("hung"))
        return Heartbeat(**_checked(fields, _FIELDS), hung=hung)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
        raise StateCorruptError(f"{NAME}: not a heartbeat: {cause!r}") from cause


def _checked(fields: dict[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    for name, kind in kinds.items():
        if not isinstance(fields[name], kind):
            raise TypeError(f"{name}: {fields[name]!r}")
    return fields


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not a time")
