"""Module headers: in each module, a noun phrase first, and only files that exist."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = (ROOT / "dranet_nri", ROOT / "dra_shim")
QUESTION: Final = re.compile(r"(What|Which|When|Where|Who|Why|How|Whether|That)\b")


def headers(directories: Iterable[Path]) -> Iterator[tuple[Path, str]]:
    """Yield each module that has a header, and the text of the header."""
    for directory in directories:
        for module in directory.rglob("*.py"):
            if header := re.search(r'^"""(.*?)"""', module.read_text(), re.DOTALL | re.MULTILINE):
                yield module.relative_to(ROOT), header[1]


def test_every_module_has_a_header() -> None:
    directories = (*PACKAGES, ROOT / "tests", ROOT / "hack")
    modules = (module for directory in directories for module in directory.rglob("*.py"))
    sources = {module: module.read_text() for module in modules if "_gen" not in module.parts}

    assert [
        str(module.relative_to(ROOT))
        for module, source in sources.items()
        if source and not ast.get_docstring(ast.parse(source))
    ] == []


def test_headers_begin_with_a_noun_phrase() -> None:
    modules = list(headers((*PACKAGES, ROOT / "tests", ROOT / "hack")))
    questions = [f"{module}: {text}" for module, text in modules if QUESTION.match(text)]

    assert len(modules) > 600
    assert questions == []


def test_files_named_in_headers_exist() -> None:
    named = [
        (ROOT / module, path)
        for module, text in headers(PACKAGES)
        for path in re.findall(r"[\w/]+\.py\b", text)
    ]
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
