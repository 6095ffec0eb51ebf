"""Lists in pages: what client and server owe each other, held here against the one in memory.

tests/system/cluster/test_api_contract.py holds the same against a real server.
"""

import asyncio
import json
import tracemalloc
from contextlib import aclosing
from dataclasses import replace

import pytest

from dra_shim.kubeapi import (
    SLICE,
    ApiClient,
    ExpiredError,
    InvalidError,
    ObjectList,
    client,
    name_of,
    requests,
    uid_of,
)
from dra_shim.kubeapi.errors import TooLargeError
from dra_shim.kubeapi.requests import ObjectPath
from dra_shim.kubeapi.responses import read_listing
from tests.dra_shim.kubeapi.client_bench import FakeSubject, Subject, slice_document, talking
from tests.dra_shim.kubeapi.test_contract import unique
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Told

pytestmark = pytest.mark.process


@pytest.fixture
def subject() -> Subject:
    """Return the server in memory."""
    return FakeSubject()


async def add_slices(api: ApiClient, *names: str) -> None:
    """Create slices of one node."""
    node = unique("node")
    for name in names:
        await api.create(SLICE, slice_document(name, node))


def test_a_list_comes_in_pages_as_it_was_at_the_first(subject: Subject) -> None:
    async def scene() -> None:
        async with subject.client() as api:
            mine = [unique(f"{letter}-slice") for letter in "azbyc"]
            late = unique("zzz-slice")
            await add_slices(api, *mine)
            pages: list[ObjectList] = []
            async with aclosing(api.pages(SLICE, 2)) as listed:
                async for page in listed:
                    if not pages:
                        await add_slices(api, late)
                        gone = await api.get(SLICE, mine[1])
                        await api.delete(SLICE, mine[1], uid_of(gone))
                    pages.append(page)

            assert [len(page.items) for page in pages[:-1]] == [2] * (len(pages) - 1)
            assert 1 <= len(pages[-1].items) <= 2
            assert len({page.version for page in pages}) == 1
            found = [name_of(document) for page in pages for document in page.items]
            assert [found.count(name) for name in mine] == [1] * len(mine)
            assert late not in found

    finish(scene())


def test_a_limit_counts_for_the_newest_state_only(subject: Subject) -> None:
    async def scene() -> None:
        async with subject.client() as api:
            await add_slices(api, unique("slice"), unique("slice"))
            newest = requests.paging(ObjectPath(SLICE, "v1"), 1)
            any_state = replace(newest, query={**newest.query, "resourceVersion": "0"})

            first, whole = [
                read_listing(asked, await api._reply(asked)) for asked in (newest, any_state)
            ]

            assert (len(first.items), bool(first.rest)) == (1, True)
            assert (len(whole.items) >= 2, whole.rest) == (True, "")

    finish(scene())


def test_nothing_goes_on_from_a_place_that_no_page_named(subject: Subject) -> None:
    async def scene() -> None:
        async with subject.client() as api:
            asked = requests.paging(ObjectPath(SLICE, "v1"), 1, "nowhere")

            with pytest.raises(InvalidError, match="continue token"):
                read_listing(asked, await api._reply(asked))

    finish(scene())


def test_a_list_that_the_server_forgot_is_told_from_other_trouble() -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            await add_slices(api, "a", "b")
            pages = api.pages(SLICE, 1)
            await anext(pages)
            server.forget_history()

            with pytest.raises(ExpiredError, match="too old"):
                await anext(pages)

    finish(scene())


def test_pages_that_are_too_large_come_in_smaller_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> list[list[str]]:
        async with talking() as (_, api):
            await add_slices(api, *"abcdefg")
            (whole,) = [page async for page in api.pages(SLICE, 100)]
            length = len(json.dumps(whole.items[0]))
            monkeypatch.setattr(client, "MAX_REPLY", 4 * length)  # of three and what is around them
            return [list(map(name_of, page.items)) async for page in api.pages(SLICE, 100)]

    assert asyncio.run(scene()) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]


def test_an_object_that_is_too_large_ends_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with talking() as (_, api):
            await add_slices(api, "a")
            monkeypatch.setattr(client, "MAX_REPLY", 100)

            with pytest.raises(TooLargeError, match="the answer is larger than"):
                await anext(api.pages(SLICE, 100))

    finish(scene())


def test_the_largest_answer_that_is_read_takes_bounded_memory() -> None:
    item = slice_document("slice", "node")
    item["spec"]["devices"] = [
        {"name": f"nic-{number}", "attributes": {f"dra.net/{key}": {"bool": True} for key in "abc"}}
        for number in range(1000)
    ]
    text = json.dumps(item, separators=(",", ":"))
    items = ",".join([text] * (client.MAX_REPLY // (len(text) + 1) - 1))
    body = f'{{"metadata":{{"resourceVersion":"1"}},"items":[{items}]}}'.encode()
    assert client.MAX_REPLY * 0.9 < len(body) <= client.MAX_REPLY

    async def scene() -> int:
        async with talking() as (server, api):
            await api.version(SLICE)
            server.fail(Told(200, body))
            tracemalloc.start()
            found = await api.list(SLICE)
            return len(found.items)

    try:
        assert asyncio.run(scene()) == items.count('"spec"') > 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 400 << 20
