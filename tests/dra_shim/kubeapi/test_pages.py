"""The contract of lists in pages, tested against the in-memory server.

tests/system/cluster/test_api_contract.py runs the same tests against a real server.
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
from tests.fakes.exchange import Response

pytestmark = pytest.mark.process


@pytest.fixture
def subject() -> Subject:
    """Return the in-memory server."""
    return FakeSubject()


async def add_slices(api: ApiClient, *names: str) -> None:
    """Create slices of one node."""
    node = unique("node")
    for name in names:
        await api.create(SLICE, slice_document(name, node))


def test_all_pages_of_a_list_are_of_the_state_of_the_first_page(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            names = [unique(f"{letter}-slice") for letter in "azbyc"]
            late = unique("zzz-slice")
            await add_slices(api, *names)
            pages: list[ObjectList] = []
            async with aclosing(api.pages(SLICE, 2)) as listed:
                async for page in listed:
                    if not pages:
                        await add_slices(api, late)
                        gone = await api.get(SLICE, names[1])
                        await api.delete(SLICE, names[1], uid_of(gone))
                    pages.append(page)

            assert [len(page.items) for page in pages[:-1]] == [2] * (len(pages) - 1)
            assert 1 <= len(pages[-1].items) <= 2
            assert len({page.version for page in pages}) == 1
            found = [name_of(document) for page in pages for document in page.items]
            assert [found.count(name) for name in names] == [1] * len(names)
            assert late not in found

    finish(scenario())


def test_limit_applies_only_to_a_list_of_the_newest_state(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            await add_slices(api, unique("slice"), unique("slice"))
            newest = requests.paging(ObjectPath(SLICE, "v1"), 1)
            any_state = replace(newest, query={**newest.query, "resourceVersion": "0"})

            first, whole = [
                read_listing(request, await api._reply(request)) for request in (newest, any_state)
            ]

            assert (len(first.items), bool(first.continue_token)) == (1, True)
            assert (len(whole.items) >= 2, whole.continue_token) == (True, "")

    finish(scenario())


def test_unknown_continue_token_is_refused(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            request = requests.paging(ObjectPath(SLICE, "v1"), 1, "nowhere")

            with pytest.raises(InvalidError, match="continue token"):
                read_listing(request, await api._reply(request))

    finish(scenario())


def test_expired_continue_token_raises_expired() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            await add_slices(api, "a", "b")
            pages = api.pages(SLICE, 1)
            await anext(pages)
            server.forget_history()

            with pytest.raises(ExpiredError, match="too old"):
                await anext(pages)

    finish(scenario())


def test_page_size_is_reduced_if_a_page_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> list[list[str]]:
        async with talking() as (_, api):
            await add_slices(api, *"abcdefg")
            (whole,) = [page async for page in api.pages(SLICE, 100)]
            length = len(json.dumps(whole.items[0]))
            monkeypatch.setattr(
                client, "MAX_REPLY", 4 * length
            )  # three objects and the list around them
            return [list(map(name_of, page.items)) async for page in api.pages(SLICE, 100)]

    assert asyncio.run(scenario()) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]


def test_page_with_one_object_that_is_too_large_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            await add_slices(api, "a")
            monkeypatch.setattr(client, "MAX_REPLY", 100)

            with pytest.raises(TooLargeError, match="the answer is larger than"):
                await anext(api.pages(SLICE, 100))

    finish(scenario())


def test_memory_for_the_largest_answer_is_bounded() -> None:
    item = slice_document("slice", "node")
    item["spec"]["devices"] = [
        {"name": f"nic-{number}", "attributes": {f"dra.net/{key}": {"bool": True} for key in "abc"}}
        for number in range(1000)
    ]
    text = json.dumps(item, separators=(",", ":"))
    items = ",".join([text] * (client.MAX_REPLY // (len(text) + 1) - 1))
    body = f'{{"metadata":{{"resourceVersion":"1"}},"items":[{items}]}}'.encode()
    assert client.MAX_REPLY * 0.9 < len(body) <= client.MAX_REPLY

    async def scenario() -> int:
        async with talking() as (server, api):
            await api.version(SLICE)
            server.fail(Response(200, body))
            tracemalloc.start()
            found = await api.list(SLICE)
            return len(found.items)

    try:
        assert asyncio.run(scenario()) == items.count('"spec"') > 1
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 400 << 20
