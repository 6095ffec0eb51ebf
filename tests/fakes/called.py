"""A program run inside the test process, with its own streams and working directory.

The streams are files: a daemon writes to the descriptor of its standard error.
"""

import io
import sys
from collections.abc import Callable, Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from unittest.mock import patch


@dataclass(frozen=True, slots=True)
class Ended:
    """What a program left: its exit status and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def called(
    main: Callable[[Sequence[str]], int], *arguments: str, cwd: Path, stdin: str = ""
) -> Ended:
    """Call a program's main() with a command line, in the directory cwd."""
    with (
        TemporaryFile("w+", encoding="utf-8") as output,
        TemporaryFile("w+", encoding="utf-8") as errors,
        chdir(cwd),
        patch.object(sys, "stdin", io.StringIO(stdin)),
        redirect_stdout(output),
        redirect_stderr(errors),
    ):
        try:
            status = main(arguments)
        except SystemExit as end:  # argparse: help, or a command line that is wrong
            if not isinstance(end.code, int):
                raise
            status = end.code
        output.seek(0)
        errors.seek(0)
        return Ended(status, output.read(), errors.read())
