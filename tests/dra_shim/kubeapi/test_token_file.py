"""Tokens from a file: reads of the file, and the token of a request."""

import asyncio
from pathlib import Path, PosixPath

import pytest

from dra_shim.kubeapi.errors import CredentialsError
from dra_shim.kubeapi.token_file import TokenFile

pytestmark = pytest.mark.process


class CountingPath(PosixPath):
    """A path that counts the reads of its file."""

    reads = 0

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """Read the file and count."""
        type(self).reads += 1
        return super().read_text(encoding, errors)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a token's file as a kubelet keeps it: behind a link that a rotation replaces."""
    rotate(tmp_path / "token", "first")
    CountingPath.reads = 0
    return CountingPath(tmp_path / "token")


def rotate(path: Path, token: str) -> None:
    """Replace the token file."""
    (path.parent / token).write_text(f"{token}\n")
    (path.parent / "new").symlink_to(token)
    (path.parent / "new").rename(path)


def presented(auth: TokenFile, *taken: str) -> list[str]:
    """Return the tokens that a server receives until it accepts one of those taken."""

    async def tokens() -> list[str]:
        sent = [await auth.header()]
        while sent[-1].removeprefix("Bearer ") not in taken:
            again = await auth.renewed(sent[-1])
            if not again:
                break
            sent.append(again)
        return [header.removeprefix("Bearer ") for header in sent]

    return asyncio.run(tokens())


def test_unchanged_token_file_is_read_once(path: Path) -> None:
    auth = TokenFile(path)

    assert [presented(auth, "first") for _ in range(3)] == [["first"]] * 3
    assert CountingPath.reads == 1


def test_rotated_token_is_used_without_a_refused_request(path: Path) -> None:
    auth = TokenFile(path)
    presented(auth, "first")
    rotate(path, "second")

    assert presented(auth, "second") == ["second"]


def test_refused_token_is_read_again_and_not_sent_twice(path: Path) -> None:
    auth = TokenFile(path)

    assert presented(auth) == ["first"]
    assert CountingPath.reads == 2


def test_token_rotated_during_a_request_is_sent_after_the_refusal(path: Path) -> None:
    auth = TokenFile(path)

    async def sent() -> tuple[str, str]:
        first = await auth.header()
        rotate(path, "second")
        return first, await auth.renewed(first)

    assert asyncio.run(sent()) == ("Bearer first", "Bearer second")


@pytest.mark.parametrize("text", [None, "", "\n", "\u00e9"], ids=["gone", "empty", "blank", "text"])
def test_invalid_token_file_keeps_the_last_token(path: Path, text: str | None) -> None:
    auth = TokenFile(path)
    presented(auth, "first")
    path.unlink()
    if text is not None:
        path.write_text(text)

    assert presented(auth, "first") == ["first"]

    if text is None:
        rotate(path, "second")
        assert presented(auth, "second") == ["second"]
    else:
        path.write_text("a longer one")
        assert presented(auth, "a longer one") == ["a longer one"]


@pytest.mark.parametrize("text", [None, "", "\u00e9"], ids=["gone", "empty", "text"])
def test_request_is_not_sent_without_a_token(path: Path, text: str | None) -> None:
    path.unlink()
    if text is not None:
        path.write_text(text)

    with pytest.raises(CredentialsError, match="token: no token: "):
        presented(TokenFile(path))
