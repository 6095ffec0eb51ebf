"""Inputs of the targets: the corpus, and what mutation makes of it."""

from pathlib import Path
from typing import Final

from hypothesis import strategies as st

from tests.fuzz import dhcp, documents, netlink, rdma, wire
from tests.fuzz.target import Target

CORPUS: Final = Path(__file__).with_name("corpus")
TARGETS: Final[dict[str, Target]] = (
    wire.TARGETS | documents.TARGETS | netlink.TARGETS | rdma.TARGETS | dhcp.TARGETS
)

_MOST_EDITS: Final = 8


def corpus(name: str) -> dict[str, bytes]:
    """Return the kept inputs of a target, by file name."""
    return {path.name: path.read_bytes() for path in sorted((CORPUS / name).iterdir())}


def inputs(name: str) -> st.SearchStrategy[bytes]:
    """Return garbage, words in a row, and kept inputs with parts dropped, repeated and replaced."""
    target = TARGETS[name]
    word = st.sampled_from(target.words) | st.binary(max_size=6)
    edit = st.tuples(st.integers(0, 1 << 12), st.integers(0, 4), st.none() | word)
    seeds = [target.grain.findall(data) for data in corpus(name).values()]
    mutated = st.builds(
        _edited, st.sampled_from(seeds), st.lists(edit, min_size=1, max_size=_MOST_EDITS)
    )
    cut = st.binary(min_size=1, max_size=1)
    byte_strings = st.builds(
        lambda first, rest: first + b"".join(rest), cut, st.lists(word, max_size=12)
    )
    return mutated | byte_strings | st.binary(max_size=80)


def _edited(parts: list[bytes], edits: list[tuple[int, int, bytes | None]]) -> bytes:
    edited = list(parts)
    for offset, count, word in edits:
        start = offset % (len(edited) + 1)
        dropped = edited[start : start + count]
        edited[start : start + count] = dropped * 2 if word is None else [word]
    return b"".join(edited)
