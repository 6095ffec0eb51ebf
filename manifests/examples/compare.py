#!/usr/bin/env python3
"""Two runs of one program, with aligned and with unaligned NICs, as a table.

    compare.py ALIGNED.log UNALIGNED.log

The logs are of `collectives.py` (COLLECTIVES_RESULT) or `benchmark.py` (MFU_RESULT). Beside the
figures of the two runs stand those that were measured on GPUs upstream.
"""

import json
import re
import sys
from pathlib import Path

LINE = re.compile(r"\b(COLLECTIVES_RESULT|MFU_RESULT) (\{.*\})")
# kind: (key of the result, its title, unit, whether less is better, upstream aligned, unaligned)
ROWS = {
    "COLLECTIVES_RESULT": (
        ("all_gather_gb_s", "all-gather", "GB/s", False, 46.59, 29.20),
        ("all_reduce_gb_s", "all-reduce", "GB/s", False, 46.93, 29.68),
    ),
    "MFU_RESULT": (
        ("step_ms", "average step", "ms", True, 55.496, 60.951),
        ("tflops_per_gpu", "TFLOP/s per GPU", "", False, 356.62, 324.70),
        ("mfu_percent", "MFU", "%", False, 36.06, 32.83),
    ),
}


def result(path: str) -> tuple[str, dict[str, object]]:
    """Return the kind and the figures of a log's last result.

    Raises:
        SystemExit: the log cannot be read, or has no result.
    """
    try:
        found = LINE.findall(Path(path).read_text())
    except OSError as error:
        raise SystemExit(f"{path}: {error.strerror}") from None
    if not found:
        raise SystemExit(f"{path}: no line with COLLECTIVES_RESULT or MFU_RESULT: did the run end?")
    kind, text = found[-1]
    return kind, json.loads(text)


def gain(aligned: float, unaligned: float, *, less_is_better: bool) -> float:
    """Return by how many percent the aligned run is better, of the unaligned one."""
    if not unaligned:
        raise SystemExit("the unaligned run has a figure of 0: nothing to compare with")
    change = 100 * (aligned / unaligned - 1)
    return -change if less_is_better else change


def main(words: list[str]) -> int:
    """Print the table; return the exit status."""
    if len(words) != 2:
        sys.stderr.write("usage: compare.py ALIGNED.log UNALIGNED.log\n")
        return 2
    (kind, aligned), (other, unaligned) = map(result, words)
    if kind != other:
        sys.stderr.write(
            f"{words[0]} has {kind}, {words[1]} has {other}: compare runs of one kind\n"
        )
        return 1
    lines = ["| | aligned | unaligned | better by | upstream |", "|---|---|---|---|---|"]
    for key, title, unit, less, near, far in ROWS[kind]:
        ours = gain(float(aligned[key]), float(unaligned[key]), less_is_better=less)
        theirs = gain(near, far, less_is_better=less)
        lines.append(
            f"| {title} | {aligned[key]} {unit} | {unaligned[key]} {unit} | {ours:.2f} % "
            f"| {near} against {far} {unit}: {theirs:.2f} % |"
        )
    sys.stdout.write("\n".join(re.sub(" +(?=[ :])", "", line) for line in lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
