#!/usr/bin/env python3
"""Check the rules of the source tree: unique class names, sizes, root modules.

Rules:
1. Each public class name, one without a leading underscore, is unique over both packages.
2. A room, which is a directory of a package, has at most 18 modules beside `__init__.py`.
3. The root of a package has the modules of the command line; that of `dranet_nri` also `errors`
   and `settings`.
4. A module has at most 400 lines.

Generated code (`_gen`) is not read. Run by hack/check; exit status 1 if a rule is broken.

Usage: tree_rules.py [PACKAGE ...]
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

PACKAGES: Final = ("dranet_nri", "dra_shim")
ROOT_MODULES: Final = frozenset({"__init__", "__main__", "cli"})
MORE_ROOT_MODULES: Final = {"dranet_nri": frozenset({"errors", "settings"})}
MAX_MODULES: Final = 18
MAX_LINES: Final = 400


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
            raise SystemExit(f"tree_rules.py: {directory} is not a directory")
        for path in sorted(directory.rglob("*.py")):
            if "_gen" not in path.relative_to(directory).parts:
                yield path


def repeated_names(directories: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each class name that is defined more than once, and for each place."""
    for name, places in sorted(definitions(directories).items()):
        if len(places) > 1:
            yield f"class {name} is defined {len(places)} times; rename all but one:"
            yield from (f"  {place}" for place in places)


def misplaced_modules(directories: Collection[Path]) -> Iterator[str]:
    """Yield a line for each room with too many modules, and for each other module of a root."""
    rooms: defaultdict[Path, list[str]] = defaultdict(list)
    for path in _modules(directories):
        rooms[path.parent].append(path.stem)
    for room, modules in rooms.items():
        if room in directories:
            extra = sorted(
                {*modules} - ROOT_MODULES - MORE_ROOT_MODULES.get(room.name, frozenset())
            )
            yield from (
                f"{room}/{name}.py: not a root module; move it into a room" for name in extra
            )
        elif (count := len({*modules} - {"__init__"})) > MAX_MODULES:
            yield f"{room} has {count} modules, at most {MAX_MODULES} are allowed; split the room"


def long_modules(directories: Iterable[Path]) -> Iterator[str]:
    """Yield a line for each module with too many lines."""
    for path in _modules(directories):
        count = len(path.read_bytes().splitlines())
        if count > MAX_LINES:
            yield f"{path} has {count} lines, at most {MAX_LINES} are allowed; split the module"


def main(arguments: list[str]) -> int:
    """Print every violation; return the exit status."""
    directories = [Path(argument) for argument in arguments or PACKAGES]
    lines = [
        *repeated_names(directories),
        *misplaced_modules(directories),
        *long_modules(directories),
    ]
    print(*lines, sep="\n", end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
