"""Command-line program: a table of commands.

Rules:
1. The module of a command is imported on use: a probe runs every few seconds, and must not pay
   for the imports of all other commands.
2. All programs share the exit statuses of `main`, the flag `--output`, and the command
   `completion`.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn, Protocol, cast

from dranet_nri.component.output import STDOUT, flush, print_lines, write
from dranet_nri.errors import DranetError, os_error_text

DISTRIBUTION: Final = "dranet-nri"  # all programs come from it
INTERRUPTED: Final = 130  # 128 and SIGINT, as shells count
SHELLS: Final = ("bash", "zsh", "tcsh")
_STATUSES: Final = (
    "Exit status: 0 success, 1 refused, failed, or a problem was found, 2 invalid command line, "
    "130 interrupted."
)


class Command(Protocol):
    """The module of a command, which has its name.

    Attributes:
        EXAMPLES: command lines for its help, without the program's name.
    """

    EXAMPLES: tuple[str, ...]

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags of the command."""

    def main(self, args: argparse.Namespace) -> int:
        """Run the command; return the exit status."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program's name and its commands.

    Attributes:
        name: as users type it ("kubectl dranet").
        description: one sentence for its help.
        package: absolute name of the package with the modules of the commands.
        commands: name and one line of help of each.
        daemons: names of the commands that serve until they are stopped.
        executable: name of the program's file, "" if it is `name`.
    """

    name: str
    description: str
    package: str
    commands: tuple[tuple[str, str], ...]
    daemons: tuple[str, ...] = ()
    executable: str = ""

    def main(self, words: Sequence[str]) -> int:
        """Run one command and return the exit status.

        Errors are printed on standard error, one line each. A reader that closes standard output
        early, such as `head`, is no failure. A closed standard output or error is refused, because
        the next file that is opened would get its descriptor. A daemon that fails exits even if
        nothing reads its standard error, so that it is restarted.
        """
        if sys.stdout is None or sys.stderr is None:
            self._print_error(f"{STDOUT} or error is closed; redirect it, to /dev/null if unused")
            return 1
        if _command_name(words) not in self.daemons:
            return self._run(words)
        from dranet_nri.component.log import non_blocking_stderr  # imports structlog

        with non_blocking_stderr():
            try:
                return self._run(words)
            except Exception:  # noqa: BLE001 - the traceback must not block either
                sys.excepthook(*sys.exc_info())
                return 1

    def _run(self, words: Sequence[str]) -> int:
        try:
            try:
                command, args = self.parse(words)
                return command.main(args)
            finally:
                flush()
        except KeyboardInterrupt:
            self._print_error("interrupted")
            return INTERRUPTED
        except DranetError as error:
            self._print_error(*error.lines)
        except OSError as error:
            if error.filename == STDOUT:
                # Python flushes once more at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
                if isinstance(error, BrokenPipeError):
                    return 0
            self._print_error(os_error_text(error))
        return 1

    def parse(self, words: Sequence[str]) -> tuple[Command, argparse.Namespace]:
        """Return the command of a command line, and its flags.

        Raises:
            SystemExit: the words are wrong, or request help; the text was printed.
        """
        args = self._parser((_command_name(words),)).parse_args(words)
        if args.command == "completion":
            return _Completion(self), args
        return self._module(args.command), args

    def completion(self, shell: str) -> str:
        """Return the completion script of a shell.

        Raises:
            DranetError: the library that generates it is not installed.
        """
        try:
            import shtab
        except ImportError:
            raise DranetError(
                "completion needs the package shtab; install it with: pip install "
                f"'{DISTRIBUTION}[kubectl]'"
            ) from None
        parser = self._parser(tuple(name for name, _ in self.commands))
        if self.executable:
            parser.prog = self.executable
        return shtab.complete(parser, shell=shell)

    def _parser(self, filled: Sequence[str]) -> argparse.ArgumentParser:
        """Return the parser, with the flags of the commands in `filled`."""
        parser = _Parser(
            prog=self.name,
            description=self.description,
            epilog=_STATUSES,
            formatter_class=_Help,
        )
        parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
        commands = parser.add_subparsers(
            dest="command", required=True, metavar="COMMAND", parser_class=_Parser
        )
        for name, text in self.commands:
            command = commands.add_parser(name, help=text, description=text, formatter_class=_Help)
            if name in filled:
                module = self._module(name)
                command.epilog = "\n".join(
                    ("examples:", *(f"  {self.name} {example}" for example in module.EXAMPLES))
                )
                module.add_flags(command)
        text = "print the completion script of a shell"
        line = f"\n  source <({self.executable or self.name} completion bash)"
        command = commands.add_parser(
            "completion", help=text, description=text, epilog=f"examples:{line}",
            formatter_class=_Help,
        )  # fmt: skip
        command.add_argument("shell", choices=SHELLS, help="the shell")
        return parser

    def _module(self, command: str) -> Command:
        return cast("Command", import_module(f"{self.package}.{command.replace('-', '_')}"))

    def _print_error(self, *lines: str) -> None:
        for line in lines:
            with suppress(OSError, AttributeError):  # nothing reads it, or it is closed
                print_lines(f"{self.name}: {' '.join(line.splitlines())}", to=sys.stderr)


def _command_name(words: Sequence[str]) -> str:
    """Return the name of the command, "" if there is none."""
    return next((word for word in words if not word.startswith("-")), "")


class _Completion:
    """Command `completion`."""

    EXAMPLES: tuple[str, ...] = ()

    def __init__(self, program: Program) -> None:
        self._program = program

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: the program adds the flags."""

    def main(self, args: argparse.Namespace) -> int:
        """Print the script."""
        write(self._program.completion(args.shell))
        return 0


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and a pointer to the help."""

    def print_help(self, _file: object = None) -> None:
        """Print the help; the method of the library ignores errors."""
        write(self.format_help())

    def error(self, message: str) -> NoReturn:
        """Print the error and exit with 2."""
        print_lines(
            f"{self.prog}: {message}", f"'{self.prog} --help' shows the usage", to=sys.stderr
        )
        self.exit(2)


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help that appends each flag's default, unless the text has it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = action.help or "", action.default
        shows_default = isinstance(default, str | int | float | Path) and default not in (
            "",
            False,
            argparse.SUPPRESS,
        )
        if not shows_default or not action.option_strings or "(default" in text:
            return text
        return f"{text} (default: %(default)s)"


class _Version(argparse.Action):
    """Prints the version of the installed distribution, which is read on use only."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the version and exit."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version(DISTRIBUTION)
        except PackageNotFoundError:
            found = "of a source tree, not installed"
        print_lines(f"{parser.prog} {found}")
        parser.exit()
