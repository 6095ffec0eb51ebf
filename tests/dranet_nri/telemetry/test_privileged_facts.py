"""File of host facts from the plugin for the shim: writer and reader."""

import asyncio
import json
import time
from functools import partial
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from dra_shim.discovery.notices import Notice, PrivilegedFactsUnreadable
from dra_shim.discovery.privileged_facts import PrivilegedFactsSource
from dranet_nri.component.files import FileSystem
from dranet_nri.component.threads import in_thread
from dranet_nri.errors import KernelError, StateCorruptError, StateVersionError
from dranet_nri.plan.refusals import described
from dranet_nri.state import privileged_facts
from dranet_nri.state.privileged_facts import PrivilegedFacts
from dranet_nri.telemetry.privileged_facts import PrivilegedFactsWriter

pytestmark = pytest.mark.process


SOME = PrivilegedFacts(
    {3: ("count", "drop"), 11: ("count",)}, {7: ("macvlan", "vlan")}, {9: ("IPsec", "WireGuard")}
)


def write(run: Path, facts: PrivilegedFacts) -> None:
    privileged_facts.store(FileSystem(), run, privileged_facts.encoded(facts))


def test_written_facts_are_readable_by_all(tmp_path: Path) -> None:
    write(tmp_path, SOME)

    assert privileged_facts.load(tmp_path) == SOME
    assert (tmp_path / "facts.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("directory", ["", "none"])
def test_missing_plugin_gives_no_facts(tmp_path: Path, directory: str) -> None:
    assert privileged_facts.load(tmp_path / directory) == PrivilegedFacts()


def test_order_of_links_does_not_change_the_encoding(tmp_path: Path) -> None:
    assert privileged_facts.encoded(
        PrivilegedFacts({11: ("a",), 3: ("b",)})
    ) == privileged_facts.encoded(PrivilegedFacts({3: ("b",), 11: ("a",)}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 1}',
        '{"version": 1, "programs": {}, "upperKinds": {}}',
        '{"version": 1, "programs": [], "upperKinds": {}, "underlays": {}}',
        '{"version": 1, "programs": {"eth0": ["a"]}, "upperKinds": {}, "underlays": {}}',
        '{"version": 1, "programs": {"3": "a"}, "upperKinds": {}, "underlays": {}}',
        '{"version": 1, "programs": {"3": [1]}, "upperKinds": {}, "underlays": {}}',
        '{"version": 1, "programs": {"3": ["a name of 16 by"]}, "upperKinds": {}, "underlays": {}}',
        '{"version": 1, "programs": {"3": ["\\ud800"]}, "upperKinds": {}, "underlays": {}}',
        '{"version": 1, "programs": {}, "upperKinds": [], "underlays": {}}',
        '{"version": 1, "programs": {}, "upperKinds": {"3": ["mac vlan"]}, "underlays": {}}',
        "[" * 100_000,
    ],
)
def test_foreign_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "facts.json").write_text(text)

    with pytest.raises(StateCorruptError, match=r"facts\.json: not a file of the plugin"):
        privileged_facts.load(tmp_path)


def test_other_version_is_refused_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "facts.json").write_text(json.dumps({"version": 2, "programs": {}}))

    with pytest.raises(StateVersionError, match="version 2, this program reads 1"):
        privileged_facts.load(tmp_path)


class Host:
    """A source of kernel facts.

    Attributes:
        facts: the facts that it returns.
        error: the error that it raises, None if it answers.
    """

    def __init__(self) -> None:
        self.facts = PrivilegedFacts()
        self.error: Exception | None = None

    def read(self) -> PrivilegedFacts:
        if self.error is not None:
            raise self.error
        return self.facts


def test_only_changed_or_removed_facts_are_written(tmp_path: Path) -> None:
    host = Host()
    writer = PrivilegedFactsWriter(FileSystem(), tmp_path, partial(in_thread, host.read))
    file = tmp_path / "facts.json"

    async def scenario() -> None:
        await writer.update()
        assert privileged_facts.load(tmp_path) == PrivilegedFacts()
        first = file.stat().st_ino
        await writer.update()
        assert file.stat().st_ino == first
        host.facts = SOME
        await writer.update()
        assert privileged_facts.load(tmp_path) == SOME
        file.unlink()
        await writer.update()
        assert privileged_facts.load(tmp_path) == SOME, "a removed file is written again"

    asyncio.run(scenario())


def test_failure_is_logged_once_per_reason_and_written_facts_are_kept(tmp_path: Path) -> None:
    host = Host()
    host.facts = SOME
    writer = PrivilegedFactsWriter(FileSystem(), tmp_path / "run", partial(in_thread, host.read))
    no_thread = RuntimeError("can't start new thread")  # an unexpected error
    refusal = KernelError("query the TCX programs of link 3", 1)

    async def scenario() -> None:
        await writer.update()  # there is no directory
        (tmp_path / "run").mkdir()
        await writer.update()
        for host.error in (refusal, refusal, None, refusal, no_thread):
            await writer.update()

    with capture_logs() as logs:
        asyncio.run(scenario())

    assert privileged_facts.load(tmp_path / "run") == SOME
    assert [(line["log_level"], line["event"]) for line in logs] == [
        ("warning", "privileged facts not written for the shim")
    ] * 4
    assert "No such file" in logs[0]["reason"]
    assert [line["reason"] for line in logs[1:]] == [
        *[described(refusal)] * 2,
        described(no_thread),
    ]


def test_facts_are_read_periodically_until_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dranet_nri.telemetry.privileged_facts.PERIOD_S", 0.001)
    host = Host()

    async def scenario() -> None:
        task = asyncio.create_task(
            PrivilegedFactsWriter(FileSystem(), tmp_path, partial(in_thread, host.read)).run()
        )
        host.facts = SOME
        while privileged_facts.load(tmp_path) != SOME:  # the test's timeout bounds the wait
            await asyncio.to_thread(time.sleep, 0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(scenario())


def test_shim_uses_the_last_readable_facts_and_reports_a_failure_once(tmp_path: Path) -> None:
    notices: list[Notice] = []
    reported = PrivilegedFactsSource(tmp_path, notices.append)
    assert reported.facts() == PrivilegedFacts()

    write(tmp_path, SOME)
    assert reported.facts() == SOME
    (tmp_path / "facts.json").write_text("{}")
    assert reported.facts() == reported.facts() == SOME
    assert [type(notice) for notice in notices] == [PrivilegedFactsUnreadable]
    write(tmp_path, PrivilegedFacts())
    assert reported.facts() == PrivilegedFacts()
    (tmp_path / "facts.json").write_text("{}")
    reported.facts()
    assert [type(notice) for notice in notices] == [PrivilegedFactsUnreadable] * 2
