"""Profiles and cloud parameters at Prepare on real records, and the release of profiles."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from dra_shim.checkpoint.profiles import ProfileRecord, ProfileStore, ProfileUse
from dra_shim.cloud.provider import CloudError, DeviceFacts, ProviderDeviceId
from dra_shim.cloud.webhook import Capabilities, DeniedError
from dra_shim.prepare import (
    Notice,
    ProfileReleased,
    ProfileReleaseFailed,
    ProfileReleaser,
    Providers,
)
from dra_shim.prepare.profiles import ProfileSource
from dra_shim.settings.common import StatePaths
from dranet_nri.config import network_config_to_object
from dranet_nri.errors import StateCorruptError
from dranet_nri.model import Device, NetworkConfig, ObjectRef, Phase
from tests.dra_shim.prepare.prepare_bench import POD, Bench, attach
from tests.fakes.cluster import config

pytestmark = pytest.mark.process

ADDRESSES = {"addresses": ["10.0.0.7/24"]}
GIVEN = {"interface": ADDRESSES}
CLAIM = ObjectRef("ai", "nics", "u1")


@dataclass
class Pool:
    """A profile provider in memory.

    Attributes:
        held: (claim UID, device) → config that it was asked with.
        released: configs of the releases.
        errors: raised by the next calls; None lets one succeed.
        before: called before each call is answered.
    """

    store: ProfileStore
    in_use: dict[tuple[str, str], Mapping[str, object]] = field(default_factory=dict)
    errors: list[Exception | None] = field(default_factory=list)
    recorded: list[bool] = field(default_factory=list)
    released: list[Mapping[str, object]] = field(default_factory=list)
    answer: Mapping[str, object] = field(default_factory=lambda: GIVEN)
    profiles: bool = True
    hook: Mapping[str, object] | None = None

    async def capabilities(self) -> Capabilities:
        return Capabilities(cloud=False, profiles=self.profiles, hooks=self.hook is not None)

    async def profile(
        self,
        device: ProviderDeviceId,
        claim: Mapping[str, object],
        uid: str,
        config: Mapping[str, object],
    ) -> Mapping[str, object]:
        assert claim["kind"] == "ResourceClaim"
        self.recorded.append(self.store.get(uid) is not None)
        self._fail()
        self.in_use[uid, device.name] = config
        return self.answer

    async def runtime_hook(
        self,
        device: ProviderDeviceId,
        claim: Mapping[str, object],
        uid: str,
        config: Mapping[str, object],
    ) -> Mapping[str, object]:
        assert claim["kind"] == "ResourceClaim"
        assert (uid, device.name) in self.in_use
        assert config == {"profile": "fast", **self.answer}
        assert self.hook is not None
        self._fail()
        return self.hook

    async def release(
        self, device: ProviderDeviceId, claim: ObjectRef, config: Mapping[str, object]
    ) -> None:
        self._fail()
        self.in_use.pop((claim.uid, device.name))
        self.released.append(config)

    def _fail(self) -> None:
        error = self.errors.pop(0) if self.errors else None
        if error is not None:
            raise error


@dataclass
class Clouds:
    """A cloud's parameters.

    Attributes:
        ipvlan: see DeviceFacts.
    """

    given: Mapping[str, object] = field(default_factory=dict)
    ipvlan: Mapping[str, object] = field(default_factory=dict)
    error: CloudError | None = None

    def parameters(self, device: Device, own: NetworkConfig) -> tuple[str, Mapping[str, object]]:
        assert device.name
        if self.error:
            raise self.error
        facts = DeviceFacts(parameters=self.given, ipvlan=self.ipvlan)
        return "AZURE", facts.parameters_for(own)


class Site:
    """A preparer with providers."""

    def __init__(self, root: Path) -> None:
        self.state = StatePaths(root / "state", root / "run")
        self.store = ProfileStore(self.state.profiles)
        self.pool, self.clouds = Pool(self.store), Clouds()
        self.bench = self.restarted()

    def restarted(self, profiles: ProfileSource | None = None) -> Bench:
        providers = Providers(self.store, self.clouds, profiles or self.pool)
        return Bench(self.state, providers=providers)

    def claim(self, *devices: str, **parameters: object) -> ObjectRef:
        ref = self.bench.cluster.add("nics", "u1", *(devices or ("a",)))
        document = self.bench.cluster.claims["nics"]["status"]["allocation"]["devices"]
        document["config"] = [config(parameters)] if parameters else []
        return ref

    def configs(self) -> list[dict[str, object]]:
        record = self.bench.record(CLAIM)
        assert record is not None
        return [network_config_to_object(device.config) for device in record.devices]

    def releaser(
        self, notify: Callable[[Notice], None], profiles: ProfileSource | None = None
    ) -> ProfileReleaser:
        return ProfileReleaser(
            self.store, profiles, self.bench.preparer.when_released, notify,
            timing=self.bench.clock.timing(),
        )  # fmt: skip

    def release(self) -> tuple[bool, list[Notice]]:
        notices: list[Notice] = []
        return asyncio.run(self.releaser(notices.append, self.pool).release_due()), notices

    def unprepare(self) -> None:
        asyncio.run(self.bench.preparer.unprepare([CLAIM]))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    with closing(made.bench):
        yield made


# --------------------------------------------------------------------------- Prepare


def test_profile_is_recorded_before_the_request(site: Site) -> None:
    (answer,) = site.bench.prepare(site.claim("a", "b", profile="fast", interface={"mtu": 1500}))

    assert "10.0.0.7" in answer.error  # both devices cannot have one address
    assert site.pool.recorded == [True, True]


@pytest.mark.parametrize("write", ["put", "remove"])
def test_cancelled_call_returns_after_its_write(
    site: Site, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    ref = site.claim(profile="fast")
    if write == "remove":
        site.bench.prepare(ref)
        site.unprepare()
    began, end = threading.Event(), threading.Event()
    complete = getattr(site.store, write)
    written = []

    def slow(argument: object) -> None:
        began.set()
        end.wait()
        complete(argument)
        written.append(argument)

    monkeypatch.setattr(site.store, write, slow)

    async def main() -> None:
        releaser = site.releaser(lambda notice: None, site.pool)
        prepare = partial(site.bench.preparer.prepare, [ref])
        task = asyncio.ensure_future(prepare() if write == "put" else releaser.release_due())
        await asyncio.to_thread(began.wait)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, end.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert written

    asyncio.run(main())


def test_claim_gets_the_configuration_of_its_profile(site: Site) -> None:
    (answer,) = site.bench.prepare(site.claim(profile="fast", interface={"mtu": 1500}))

    assert answer.error == ""
    assert site.configs() == [
        {"profile": "fast", "interface": {"mtu": 1500, "addresses": ["10.0.0.7/24"]}}
    ]


def test_cloud_configuration_is_merged_between_profile_and_claim(site: Site) -> None:
    site.clouds.given = {"interface": {"mtu": 4000, "forwarding": True}}
    site.pool.answer = {"interface": {"mtu": 9000, "name": "net7"}}
    site.bench.prepare(site.claim(profile="fast", interface={"forwarding": False}))

    assert site.configs() == [
        {"profile": "fast", "interface": {"mtu": 4000, "forwarding": False, "name": "net7"}}
    ]
    (sent,) = site.pool.in_use.values()
    assert sent == {"profile": "fast", "interface": {"mtu": 4000, "forwarding": False}}


ALIASES = {
    "interface": {"addresses": ["10.4.3.1-10.4.3.2/24"]},
    "rules": [{"source": "10.4.3.0/24", "table": 1100}],
}
CHILD = {"type": "IPVLAN"}


def test_ipvlan_child_without_addresses_gets_a_free_one_of_the_cloud(site: Site) -> None:
    site.clouds.ipvlan = ALIASES
    site.bench.prepare(site.claim("a", "b", interface=CHILD))

    assert site.configs() == [
        {"interface": CHILD | {"addresses": [f"10.4.3.{host}/24"]}, "rules": ALIASES["rules"]}
        for host in (1, 2)
    ]
    taken = site.bench.cluster.add("other", "u2", "c")
    site.bench.cluster.claims["other"]["status"]["allocation"]["devices"]["config"] = [
        config({"interface": CHILD})
    ]
    waiting = site.bench.prepare_until_timeout(taken)[0].error
    assert "pods of this node use every address of 10.4.3.1-10.4.3.2/24" in waiting
    site.unprepare()
    (answer,) = site.bench.prepare(taken)
    assert not answer.error


@pytest.mark.parametrize(
    "parameters",
    [
        {"interface": {"mtu": 1500}},
        {"interface": {**CHILD, "addresses": ["10.9.0.1/24"]}},
        {"interface": {**CHILD, "addresses": []}},
        {"interface": {**CHILD, "addressing": "SLAAC"}},
    ],
)
def test_cloud_gives_no_address_to_another_claim(site: Site, parameters: dict[str, object]) -> None:
    site.bench.prepare(site.claim(**parameters))
    without = site.configs()
    site.unprepare()
    site.clouds.ipvlan = ALIASES
    site.bench.prepare(site.claim(**parameters))

    assert site.configs() == without


def test_addresses_of_a_profile_replace_those_of_the_cloud(site: Site) -> None:
    site.clouds.ipvlan = ALIASES
    site.bench.prepare(site.claim(profile="fast", interface=CHILD))

    assert site.configs() == [{"profile": "fast", "interface": CHILD | ADDRESSES}]


@pytest.mark.parametrize(
    "own",
    [
        {"routes": [{"destination": "10.7.0.0/16", "scope": 253}]},
        {"rules": [{"source": "10.7.0.0/16", "table": 7}]},
    ],
)
def test_routing_of_a_claim_replaces_that_of_the_cloud(site: Site, own: dict[str, object]) -> None:
    site.clouds.ipvlan = ALIASES
    site.bench.prepare(site.claim(**own, interface=CHILD))

    assert site.configs() == [{**own, "interface": CHILD | {"addresses": ["10.4.3.1/24"]}}]


def test_profile_of_the_cloud_is_requested_for_a_claim_without_one(site: Site) -> None:
    site.clouds.given = {"profile": "managed", "interface": {"mtu": 4000}}
    site.bench.prepare(site.claim(interface={"forwarding": False}))

    (sent,) = site.pool.in_use.values()
    assert sent == {"profile": "managed", "interface": {"mtu": 4000, "forwarding": False}}
    (config,) = site.configs()
    assert config == {
        "profile": "managed",
        "interface": {"mtu": 4000, "forwarding": False, **ADDRESSES},
    }


def test_profile_of_the_claim_has_precedence_over_that_of_the_cloud(site: Site) -> None:
    site.clouds.given = {"profile": "managed"}
    site.bench.prepare(site.claim(profile="fast"))

    (sent,) = site.pool.in_use.values()
    assert sent == {"profile": "fast"}


def test_invalid_cloud_configuration_of_each_device_is_reported(site: Site) -> None:
    site.clouds.given = {"interface": {"mtu": 3}}

    error = site.bench.error(site.claim("a", "b", profile="fast"))

    assert "cloud AZURE, device a.interface.mtu: 3" in error
    assert "cloud AZURE, device b.interface.mtu: 3" in error
    assert site.store.claims() == ()


def test_claim_without_a_profile_requests_none(site: Site) -> None:
    site.bench.prepare(site.claim(interface={"mtu": 1500}))

    assert (site.pool.recorded, site.store.claims()) == ([], ())


def test_prepared_claim_makes_no_further_request(site: Site) -> None:
    claim = site.claim(profile="fast")
    (first,) = site.bench.prepare(claim)
    site.pool.errors = [CloudError("down")]
    site.clouds.error = CloudError("down")

    assert site.bench.prepare(claim) == [first]
    assert site.pool.recorded == [True]


def test_unavailable_provider_delays_a_new_claim(site: Site) -> None:
    site.pool.errors = [CloudError("webhook down")] * 100

    (answer,) = site.bench.prepare_until_timeout(site.claim(profile="fast"))

    assert 'profile "fast": device a: webhook down' in answer.error
    assert site.store.claims() == ("u1",)


def test_recorded_profile_is_used_while_the_provider_is_unavailable(site: Site) -> None:
    claim = site.claim(profile="fast")
    site.bench.prepare(claim)
    site.unprepare()
    site.pool.errors = [CloudError("down")]

    (answer,) = site.bench.prepare(claim)

    assert answer.error == ""
    assert site.configs() == [{"profile": "fast", **GIVEN}]


def test_denied_profile_is_refused_at_once(site: Site) -> None:
    site.pool.errors = [DeniedError("answered 404: no such profile")]

    assert site.bench.error(site.claim(profile="slow")) == (
        'profile: "slow": device a: answered 404: no such profile'
    )


def test_webhook_without_profiles_is_reported(site: Site) -> None:
    site.pool.profiles = False

    assert "the webhook provides no profiles" in site.bench.error(site.claim(profile="fast"))


def test_profile_with_a_runtime_hook_is_refused_and_not_used_later(site: Site) -> None:
    site.pool.hook = {"path": "/opt/acme/hook"}
    claim = site.claim(profile="fast")

    assert site.bench.error(claim) == (
        "profile: \"fast\": device a: needs the runtime hook '/opt/acme/hook', and this driver "
        "runs none; return null from /GetRuntimeHook, or remove profile"
    )
    site.pool.errors = [CloudError("down")] * 100
    (waiting,) = site.bench.prepare_until_timeout(claim)
    assert waiting.error == 'profile "fast": device a: down'


def test_profile_is_used_if_the_provider_has_no_runtime_hook_for_it(site: Site) -> None:
    site.pool.hook = {}
    (answer,) = site.bench.prepare(site.claim(profile="fast"))

    assert not answer.error
    assert site.configs() == [{"profile": "fast", **GIVEN}]


def test_profile_without_a_provider_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as bench:
        claim = bench.cluster.add("nics", "u1", "a")
        document = bench.cluster.claims["nics"]["status"]["allocation"]["devices"]
        document["config"] = [config({"profile": "fast"})]

        assert "--profile-provider=webhook and --webhook-url" in bench.error(claim)


def test_invalid_profile_configuration_is_refused_by_name(site: Site) -> None:
    site.pool.answer = {"interface": {"mtu": 3}}

    error = site.bench.error(site.claim(profile="fast"))

    assert 'profile "fast", device a.interface.mtu: 3: must be 68' in error


def test_required_cloud_configuration_is_awaited(site: Site) -> None:
    site.clouds.error = CloudError("device a: not answered yet")

    (answer,) = site.bench.prepare_until_timeout(site.claim())

    assert "not answered yet" in answer.error


# --------------------------------------------------------------------------- release


def test_profile_of_an_ended_claim_is_released_with_its_addresses(site: Site) -> None:
    """As in dranet, whose providers free the addresses of the request."""
    site.bench.prepare(site.claim("a", "b", profile="fast", interface={"mtu": 1500}))
    site.unprepare()

    assert site.release() == (True, [ProfileReleased(CLAIM)])
    assert (site.pool.in_use, site.store.claims()) == ({}, ())
    assert site.pool.released == [{"profile": "fast", "interface": {"mtu": 1500, **ADDRESSES}}] * 2


def test_invalid_answer_is_released_with_the_request(site: Site) -> None:
    site.pool.answer = {"interface": {"mtu": 3}}
    assert "must be 68" in site.bench.error(site.claim(profile="fast"))
    site.unprepare()

    assert site.release() == (True, [ProfileReleased(CLAIM)])
    assert site.pool.released == [{"profile": "fast"}]


def test_recorded_claim_keeps_its_profile(site: Site) -> None:
    site.bench.prepare(site.claim(profile="fast"))

    assert site.release() == (True, [])
    assert len(site.pool.in_use) == 1


def test_profile_is_released_after_the_restore(site: Site) -> None:
    site.bench.prepare(site.claim(profile="fast"))
    attach(site.state, CLAIM, POD, "a", Phase.ATTACHED)
    site.unprepare()

    assert site.release() == (True, [])
    attach(site.state, CLAIM, POD, "a", Phase.RESTORED)
    assert site.release() == (True, [ProfileReleased(CLAIM)])


def test_unanswered_profile_request_is_released(site: Site) -> None:
    use = ProfileUse(ProviderDeviceId("a"), "fast", '{"profile": "fast"}')
    site.store.put(ProfileRecord(CLAIM, (use,)))
    site.pool.in_use["u1", "a"] = {"profile": "fast"}

    assert site.release() == (True, [ProfileReleased(CLAIM)])
    assert (site.pool.in_use, site.pool.released) == ({}, [{"profile": "fast"}])


def test_failed_release_is_retried(site: Site) -> None:
    site.bench.prepare(site.claim(profile="fast"))
    site.unprepare()
    site.pool.errors = [CloudError("down")]

    assert site.release() == (False, [ProfileReleaseFailed("u1", "down")])
    assert site.store.claims() == ("u1",)
    assert site.release() == (True, [ProfileReleased(CLAIM)])
    assert site.pool.in_use == {}


def test_denied_release_is_dropped(site: Site) -> None:
    site.bench.prepare(site.claim(profile="fast"))
    site.unprepare()
    site.pool.errors = [DeniedError("answered 404")]

    ok, notices = site.release()

    assert ok
    assert notices == [ProfileReleaseFailed("u1", "answered 404; given up"), ProfileReleased(CLAIM)]
    assert site.store.claims() == ()


def test_release_waits_for_a_provider(site: Site) -> None:
    site.bench.prepare(site.claim(profile="fast"))
    site.unprepare()
    notices: list[Notice] = []

    assert not asyncio.run(site.releaser(notices.append).release_due())

    (notice,) = notices
    assert isinstance(notice, ProfileReleaseFailed)
    assert "start dra-shim with the previous --webhook-url" in notice.message
    assert site.store.claims() == ("u1",)


def test_release_worker_retries_with_back_off_and_on_changes(site: Site) -> None:
    site.bench.prepare(site.claim(profile="fast"))
    site.unprepare()
    site.pool.errors = [CloudError("down"), CloudError("down")]
    clock = site.bench.clock

    async def scenario() -> None:
        notices: list[Notice] = []
        released = asyncio.Semaphore(0)

        def on_notice(notice: Notice) -> None:
            notices.append(notice)
            released.release()

        releaser = site.releaser(on_notice, site.pool)
        work = asyncio.create_task(releaser.run())
        await clock.until_asleep(1.0)
        clock.pass_time(1.0)
        await clock.until_asleep(2.0)
        clock.pass_time(2.0)
        await clock.until_asleep(60.0)
        assert notices[-1] == ProfileReleased(CLAIM)
        site.store.put(ProfileRecord(CLAIM))
        releaser.wake()
        for _ in range(4):
            await released.acquire()
        work.cancel()

    asyncio.run(asyncio.wait_for(scenario(), 20))


# --------------------------------------------------------------------------- records


def test_record_is_decoded_as_encoded(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles")
    use = ProfileUse(ProviderDeviceId("a", "eth1", rdma=("mlx5_0",)), "fast", "{}", "{}")
    record = ProfileRecord(CLAIM).with_use(use)
    store.put(record)

    assert ProfileStore(tmp_path / "profiles").get("u1") == record
    assert record.with_use(use) == record
    store.remove("u1")
    assert store.get("u1") is None


@pytest.mark.parametrize("text", ["", "[]", '{"version": 2}', '{"version": 1}', "[" * 9999])
def test_invalid_record_is_reported_and_kept(site: Site, text: str) -> None:
    site.state.profiles.mkdir(parents=True)
    (site.state.profiles / "u1.json").write_text(text)

    with pytest.raises(StateCorruptError, match=r"u1\.json"):
        site.store.get("u1")
    ok, (notice,) = site.release()
    assert not ok
    assert isinstance(notice, ProfileReleaseFailed)
    assert site.store.claims() == ("u1",)
