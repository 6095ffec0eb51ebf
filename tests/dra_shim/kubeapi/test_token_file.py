"""Tokens from a file: when it is read, and which one a request presents."""

from pathlib import Path, PosixPath

import httpx2
import pytest

from dra_shim.kubeapi.errors import CredentialsError
from dra_shim.kubeapi.token_file import TokenFile

pytestmark = pytest.mark.process


class CountingPath(PosixPath):
    """A path that knows how often its file was read."""

    reads = 0

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        """Read it."""
        type(self).reads += 1
        return super().read_text(encoding, errors)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a token's file as a kubelet keeps it: behind a link that a rotation replaces."""
    rotate(tmp_path / "token", "first")
    CountingPath.reads = 0
    return CountingPath(tmp_path / "token")


def rotate(path: Path, token: str) -> None:
    """Put another token in the file's place."""
    (path.parent / token).write_text(f"{token}\n")
    (path.parent / "new").symlink_to(token)
    (path.parent / "new").rename(path)


def presented(auth: TokenFile, *taken: str) -> list[str]:
    """Return the tokens that a server sees, which takes those given, until it takes one."""
    flow = auth.auth_flow(httpx2.Request("GET", "https://server/"))
    seen = [next(flow).headers["Authorization"].removeprefix("Bearer ")]
    while True:
        status = 200 if seen[-1] in taken else 401
        try:
            again = flow.send(httpx2.Response(status))
        except StopIteration:
            return seen
        seen.append(again.headers["Authorization"].removeprefix("Bearer "))


def test_a_token_that_stays_is_read_once(path: Path) -> None:
    auth = TokenFile(path)

    assert [presented(auth, "first") for _ in range(3)] == [["first"]] * 3
    assert CountingPath.reads == 1


def test_a_rotated_token_costs_no_refusal(path: Path) -> None:
    auth = TokenFile(path)
    presented(auth, "first")
    rotate(path, "second")

    assert presented(auth, "second") == ["second"]


def test_a_refused_token_is_read_again_and_not_sent_twice(path: Path) -> None:
    auth = TokenFile(path)

    assert presented(auth) == ["first"]
    assert CountingPath.reads == 2


def test_a_token_rotated_while_the_server_answers_is_presented_to_it(path: Path) -> None:
    flow = TokenFile(path).auth_flow(httpx2.Request("GET", "https://server/"))
    next(flow)
    rotate(path, "second")

    again = flow.send(httpx2.Response(401))

    assert again.headers["Authorization"] == "Bearer second"


@pytest.mark.parametrize("text", [None, "", "\n", "\u00e9"], ids=["gone", "empty", "blank", "text"])
def test_what_is_no_token_leaves_the_one_we_have(path: Path, text: str | None) -> None:
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
def test_without_any_token_nothing_is_asked(path: Path, text: str | None) -> None:
    path.unlink()
    if text is not None:
        path.write_text(text)

    with pytest.raises(CredentialsError, match="token: no token: "):
        presented(TokenFile(path))
