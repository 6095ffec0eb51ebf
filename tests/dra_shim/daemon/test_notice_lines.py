"""Log lines of all notices: level, event and keys, on which dashboards and alerts depend."""

import typing

import pytest

from dra_shim import discovery, kubeletplugin, prepare, resourceslice, status, web
from dra_shim.cloud import directory as cloud
from dra_shim.cloud.provider import CloudError
from dra_shim.kubeapi import ApiError
from dra_shim.migration import controller as migration
from dra_shim.pool import Feature
from dra_shim.settings.listen_address import ListenAddress
from dranet_nri.component.notice import LogNotice
from dranet_nri.component.supervisor import WorkerFailed
from dranet_nri.model import ObjectRef

CLAIM = ObjectRef("ai", "fast", "claim-1")
POD = ObjectRef("ai", "train", "pod-1")
DOWN = ApiError("list slices", "no answer")
LATE = {"reason": "list slices: no answer", "retry_s": 1.2}
BUG = RuntimeError("oops")
TRACE = {"reason": "oops", "exc_info": BUG}

LINES: dict[LogNotice, tuple[str, str, dict[str, object]]] = {
    kubeletplugin.RegistrationResult(): ("info", "registered", {}),
    kubeletplugin.RegistrationResult("no"): ("error", "not registered", {"reason": "no"}),
    kubeletplugin.SocketReplaced("/s", "it was removed"): (
        "warning", "socket recreated", {"path": "/s", "reason": "it was removed"},
    ),
    kubeletplugin.SocketFailed("in use"): ("error", "socket not served", {"reason": "in use"}),
    prepare.ClaimPrepared(CLAIM, POD, gated=True, document={"kind": "ResourceClaim"}): (
        "info", "prepared", {"claim": "ai/fast", "pod": "ai/train", "gated": True},
    ),
    prepare.PrepareWaits(CLAIM, "pool"): (
        "info", "prepare waits", {"claim": "ai/fast", "reason": "pool"},
    ),
    prepare.ClaimUnprepared(CLAIM): ("info", "unprepared", {"claim": "ai/fast"}),
    prepare.PrepareFailed(CLAIM, "no"): (
        "error", "prepare failed", {"claim": "ai/fast", "reason": "no", "exc_info": None},
    ),
    prepare.UnprepareFailed(CLAIM, "no", BUG): (
        "error", "unprepare failed", {"claim": "ai/fast", "reason": "no", "exc_info": BUG},
    ),
    prepare.OrphanRemoved(CLAIM, POD, "no claim"): (
        "warning",
        "orphaned record removed",
        {"claim": "ai/fast", "pod": "ai/train", "reason": "no claim"},
    ),
    prepare.PodSuperseded(CLAIM, POD, ()): (
        "info",
        "no pod waits for a claim that is recorded for an earlier pod",
        {"claim": "ai/fast"},
    ),
    prepare.PodSuperseded(CLAIM, POD, (CLAIM,)): (
        "warning",
        "pods wait for a claim that is recorded for an earlier pod",
        {"claim": "ai/fast", "pods": ["ai/fast"], "recorded_pod": "ai/train"},
    ),
    prepare.ProfileReleased(CLAIM): ("info", "profiles released", {"claim": "ai/fast"}),
    prepare.ProfileReleaseFailed("claim-1", "no"): (
        "warning", "profiles not released", {"claim_uid": "claim-1", "reason": "no"},
    ),
    prepare.OrphanSearchFailed(BUG): (
        "error", "orphan collection failed", {"claim": "all", **TRACE},
    ),
    prepare.OrphanSearchFailed(BUG, CLAIM): (
        "error", "orphan collection failed", {"claim": "ai/fast", **TRACE},
    ),
    resourceslice.SlicesPublished(8, 1, 0): (
        "debug", "published already", {"devices": 8, "slices": 1},
    ),
    resourceslice.SlicesPublished(8, 1, 2): (
        "info", "published", {"devices": 8, "slices": 1, "writes": 2},
    ),
    resourceslice.DeviceRefused("nic", "no"): (
        "error", "device rejected by the API server", {"device": "nic", "reason": "no"},
    ),
    resourceslice.FeaturesMissing(frozenset()): (
        "info", "API server supports all features again", {},
    ),
    resourceslice.FeaturesMissing(frozenset({Feature.TAINTS, Feature.COUNTERS})): (
        "warning",
        "API server lacks features",
        {"gates": ["DRADeviceTaints", "DRAPartitionableDevices"]},
    ),
    resourceslice.FieldsDropped("n-0", frozenset({"b", "a"})): (
        "warning", "API server drops fields", {"slice": "n-0", "fields": ["a", "b"]},
    ),
    resourceslice.SliceSyncFailed(DOWN, 1.23): ("warning", "not published", LATE),
    discovery.DevicesChanged(2, 1, ("nic",), (("hca", "gone"),)): (
        "info",
        "devices",
        {"devices": 2, "rdma": 1, "appeared": ["nic"], "withdrawn": {"hca": "gone"}},
    ),
    discovery.DevicesExcluded("no driver", ("nic",), 2): (
        "info",
        "devices excluded",
        {"reason": "no driver", "devices": ["nic"], "more": 0, "virtual": 2},
    ),
    discovery.DeviceUnhealthy("nic", "no link"): (
        "warning", "device unhealthy", {"device": "nic", "reason": "no link"},
    ),
    discovery.DeviceRecovered("nic"): ("info", "device healthy", {"device": "nic"}),
    discovery.ScanFailed(DOWN, 1.23): ("error", "node scan failed", LATE),
    discovery.ScanHung("sysfs", 10.0): (
        "error", "node scan hangs in the kernel", {"step": "sysfs", "hung_s": 10.0},
    ),
    discovery.EventSourceLost("rtnetlink", BUG): (
        "warning", "event source lost", {"source": "rtnetlink", "reason": "oops"},
    ),
    discovery.PrivilegedFactsUnreadable(BUG): (
        "warning",
        "privileged facts of the plugin unreadable",
        {
            "reason": "oops",
            "remedy": "run plugin and shim of one version; the previous content stays valid",
        },
    ),
    cloud.CloudFound(""): ("info", "no cloud provider", {}),
    cloud.CloudFound("aws"): ("info", "cloud provider", {"cloud": "aws"}),
    cloud.CloudFailed(CloudError("list slices: no answer"), 1.23): (
        "warning", "cloud provider does not answer; its last answer remains valid", LATE,
    ),
    migration.MigrationFinished(0): ("debug", "no claims to migrate", {}),
    migration.MigrationFinished(0, ("no",)): ("info", "claims migrated", {"claims": 0}),
    migration.ClaimNotMigrated("no"): ("error", "claim not migrated", {"reason": "no"}),
    migration.MigrationFailed(DOWN, None): (
        "warning", "migration failed", {**LATE, "retry_s": None},
    ),
    status.StatusApplied(CLAIM, 2): ("info", "status written", {"claim": "ai/fast", "devices": 2}),
    status.ClaimGone(CLAIM): ("debug", "claim is gone", {"claim": "ai/fast"}),
    status.ClaimRefused(CLAIM, "no"): (
        "error", "status rejected by the API server", {"claim": "ai/fast", "reason": "no"},
    ),
    status.StatusNotKept(): (
        "warning", "API server drops claim status", {"gate": "DRAResourceClaimDeviceStatus"},
    ),
    status.EventPosted("train.1", "ClaimNotGated", 2): (
        "debug", "event", {"name": "train.1", "reason": "ClaimNotGated", "count": 2},
    ),
    status.EventLost("no"): ("warning", "event not posted", {"reason": "no"}),
    status.StatusSyncFailed(DOWN, 1.23): ("warning", "status not written", LATE),
    web.ServerListening(ListenAddress("", 9177)): (
        "info", "metrics and health served", {"address": ":9177"},
    ),
    web.PageFailed("/metrics", BUG): ("error", "page failed", {"path": "/metrics", **TRACE}),
    WorkerFailed("web", BUG, 1.0): (
        "error", "worker failed", {"worker": "web", "retry_s": 1.0, **TRACE},
    ),
}  # fmt: skip

UNIONS = (
    cloud.CloudNotice, discovery.Notice, kubeletplugin.Notice, migration.Notice, prepare.Notice,
    resourceslice.Notice, status.Notice, web.Notice, WorkerFailed,
)  # fmt: skip


@pytest.mark.parametrize("notice", LINES, ids=repr)
def test_notice_is_logged_with_its_level_event_and_keys(notice: LogNotice) -> None:
    line = notice.line()

    assert (line.level, line.event, line.facts) == LINES[notice]


def test_all_notices_have_a_line() -> None:
    notices = {notice for union in UNIONS for notice in typing.get_args(union) or (union,)}

    assert {type(notice) for notice in LINES} == notices


def test_rate_limit_applies_to_the_notices_of_retried_errors() -> None:
    limited = {type(notice).__name__ for notice in LINES if notice.line().limited}

    assert limited == {
        "CloudFailed", "ProfileReleaseFailed", "ScanFailed", "SliceSyncFailed", "StatusSyncFailed",
    }  # fmt: skip


def test_device_list_of_a_log_line_is_limited() -> None:
    names = tuple(f"pci-0000-8a-{number:02x}-{vf}" for number in range(32) for vf in range(8))

    facts = discovery.DevicesExcluded("no driver is bound", names).line().facts

    assert facts["devices"] == list(names[:100])
    assert facts["more"] == 156
