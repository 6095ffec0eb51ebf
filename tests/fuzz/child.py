"""Fuzz one target until it crashes or the time is over: python -m tests.fuzz.child TARGET S FOLDER.

Under atheris, which instruments modules as they are imported, so the targets are imported late;
without it, under Hypothesis.
"""

import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final

INPUT_TIMEOUT_S: Final = 20  # of one input; what takes longer is a crash
MAX_INPUT: Final = 16 << 10  # bytes
MAX_RSS_MIB: Final = 256  # of the process, which needs 73 after five minutes of any target

_INSTRUMENTED: Final = ("dranet_nri", "dra_shim", "yaml", "tests.fuzz")
_NOT_INSTRUMENTED: Final = ("dranet_nri._gen", "dra_shim._gen")
_ROUND: Final = 1000  # inputs of Hypothesis between two looks at the clock


def engine() -> str:
    """Return what fuzzes here."""
    return "atheris" if find_spec("atheris") else "Hypothesis"


def main(name: str, seconds: int, folder: Path) -> None:
    """Fuzz; an invariant that breaks ends the process with a status that is not 0."""
    if engine() == "atheris":
        _with_atheris(name, seconds, folder)
    else:
        _with_hypothesis(name, seconds)


def _with_atheris(name: str, seconds: int, folder: Path) -> None:
    """Fuzz with coverage as the guide; does not return."""
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=_INSTRUMENTED, exclude=_NOT_INSTRUMENTED):
        inputs = import_module("tests.fuzz.inputs")
    target = inputs.TARGETS[name]
    grown, dictionary = folder / "corpus", folder / "dictionary"
    grown.mkdir(exist_ok=True)
    dictionary.write_text("".join(f'"{_escaped(word)}"\n' for word in target.words))
    options = (
        *(f"-max_total_time={seconds}", f"-timeout={INPUT_TIMEOUT_S}", f"-max_len={MAX_INPUT}"),
        *(f"-rss_limit_mb={MAX_RSS_MIB}", "-print_final_stats=1", f"-artifact_prefix={folder}/"),
        *(f"-dict={dictionary}", str(grown), str(inputs.CORPUS / name)),
    )
    atheris.Setup([sys.argv[0], *options], target.run)
    atheris.Fuzz()


def _escaped(word: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in word)


def _with_hypothesis(name: str, seconds: int) -> None:
    running = import_module("tests.fuzz.running")
    end, runs = time.monotonic() + seconds, 0
    try:
        while time.monotonic() < end:
            runs += running.fuzz(name, _ROUND)
    finally:
        sys.stdout.write(f"number_of_executed_units: {runs}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
