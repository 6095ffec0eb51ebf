"""Module headers: the files that they name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = (ROOT / "dranet_nri", ROOT / "dra_shim")


def named_files() -> Iterator[tuple[Path, str]]:
    """Yield each module and a path that the first docstring of the module names."""
    for package in PACKAGES:
        for module in package.rglob("*.py"):
            header = re.match(r'"""(.*?)"""', module.read_text(), re.DOTALL)
            for path in re.findall(r"[\w/]+\.py\b", header[1] if header else ""):
                yield module, path


def test_files_named_in_headers_exist() -> None:
    named = list(named_files())
    missing = [
        f"{module.relative_to(ROOT)}: {path}"
        for module, path in named
        if not any(
            (directory / path).is_file()
            for directory in (module.parent, module.parent.parent, *PACKAGES, ROOT)
        )
    ]

    assert len(named) > 20
    assert missing == []
