"""Command-line program: a table of verbs.

A verb's module is imported when it is used: a probe that runs every few seconds must stay light,
and a command must not wait for the imports of all others.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Final, Protocol, cast

from dranet_nri.component.findings import print_lines

DISTRIBUTION: Final = "dranet-nri"  # both programs come from it


class Command(Protocol):
    """A module that is named as its verb."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's flags."""

    def main(self, args: argparse.Namespace) -> int:
        """Do it; return the exit status."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program's name and its verbs.

    Attributes:
        name: as it is typed.
        description: one sentence for its help.
        package: of the verbs' modules, absolute.
        verbs: name and one line of help each.
        epilog: what its exit status says.
    """

    name: str
    description: str
    package: str
    verbs: tuple[tuple[str, str], ...]
    epilog: str

    def parse(self, words: Sequence[str]) -> tuple[Command, argparse.Namespace]:
        """Return the verb that the words ask for, and its flags.

        Raises:
            SystemExit: they are wrong, or ask for help; argparse has said what there is to say.
        """
        parser = argparse.ArgumentParser(
            prog=self.name, description=self.description, epilog=self.epilog
        )
        parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        asked = next((word for word in words if not word.startswith("-")), "")
        for name, text in self.verbs:
            verb = verbs.add_parser(name, help=text, description=text, epilog=self.epilog)
            if name == asked:
                self._module(name).add_flags(verb)
        args = parser.parse_args(words)
        return self._module(args.verb), args

    def _module(self, verb: str) -> Command:
        return cast("Command", import_module(f"{self.package}.{verb}"))


class _Version(argparse.Action):
    """Prints the version of the installed distribution, which is looked up only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it and exit."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            found = version(DISTRIBUTION)
        except PackageNotFoundError:
            found = "of a source tree, not installed"
        print_lines(f"{parser.prog} {found}")
        parser.exit()
