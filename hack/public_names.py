#!/usr/bin/env python3
"""Check that each public class name has one meaning over both packages.

A class is public if its name has no leading underscore. Generated code (`_gen`) is not read.
Run by hack/check; exit status 1 if a name is defined more than once.

Usage: public_names.py [DIRECTORY ...]
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGES: Final = ("dranet_nri", "dra_shim")


def definitions(directories: Iterable[Path]) -> Mapping[str, list[str]]:
    """Return the places ("path:line") of each public class, by name."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in _modules(directories):
        for node in ast.parse(path.read_bytes(), str(path)).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{path}:{node.lineno}")
    return places


def _modules(directories: Iterable[Path]) -> Iterator[Path]:
    for directory in directories:
        if not directory.is_dir():
            raise SystemExit(f"public_names.py: {directory} is not a directory")
        for path in sorted(directory.rglob("*.py")):
            if "_gen" not in path.relative_to(directory).parts:
                yield path


def main(arguments: list[str]) -> int:
    """Print every name that is defined more than once; return the exit status."""
    found = definitions(map(Path, arguments or PACKAGES))
    repeated = {name: places for name, places in sorted(found.items()) if len(places) > 1}
    for name, places in repeated.items():
        print(f"class {name} is defined {len(places)} times; rename all but one:")
        print(*(f"  {place}" for place in places), sep="\n")
    return 1 if repeated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
