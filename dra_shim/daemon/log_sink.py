"""Log sink: notifications of the workers as log lines, passed on to events and metrics.

Events are short constant phrases, facts are keys. Claims and pods are "namespace/name".
"""

from collections.abc import Callable
from typing import Final, assert_never

import structlog

from dra_shim import discovery, kubeletplugin, prepare, resourceslice, status, web
from dra_shim.cloud import directory
from dra_shim.migration import controller
from dranet_nri.component.log import logger
from dranet_nri.component.supervisor import WorkerFailed

Logger = structlog.typing.FilteringBoundLogger
QUIET_S: Final = 60.0  # the same error is logged once in this time
MAX_NAMES: Final = 100  # in a line: a runtime cuts one at 16 KiB, and a name has 63 bytes


class LogSink:
    """Log sink of the workers' notifications."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Log with the loggers of the rooms.

        Args:
            clock: monotonic seconds.
        """
        self._clock = clock
        self._kubelet = logger("kubelet")
        self._node = logger("node")
        self._prepare = logger("prepare")
        self._slices = logger("slices")
        self._status = logger("status")
        self._parts = logger("parts")
        self._logged: dict[tuple[str, ...], float] = {}

    def on_kubelet(self, notice: kubeletplugin.Notice) -> None:
        """Log the state of the sockets and the registration."""
        match notice:
            case kubeletplugin.RegistrationResult(reason=""):
                self._kubelet.info("registered")
            case kubeletplugin.RegistrationResult():
                self._kubelet.error("not registered", reason=notice.reason)
            case kubeletplugin.SocketReplaced():
                self._kubelet.warning("socket recreated", path=notice.path, reason=notice.reason)
            case kubeletplugin.SocketFailed():
                self._kubelet.error("socket not served", reason=notice.reason)
            case _:
                assert_never(notice)

    def on_prepare(self, notice: prepare.Notice) -> None:
        """Log the result of Prepare and Unprepare."""
        log = self._prepare
        match notice:
            case prepare.ClaimPrepared():
                log.info(
                    "prepared", claim=str(notice.claim), pod=str(notice.pod), gated=notice.gated
                )
            case prepare.PrepareWaits():
                log.info("prepare waits", claim=str(notice.claim), reason=notice.message)
            case prepare.ClaimUnprepared():
                log.info("unprepared", claim=str(notice.claim))
            case prepare.PrepareFailed():
                self._failed(log, "prepare failed", notice)
            case prepare.UnprepareFailed():
                self._failed(log, "unprepare failed", notice)
            case prepare.OrphanRemoved():
                log.warning(
                    "orphaned record removed",
                    claim=str(notice.claim),
                    pod=str(notice.pod),
                    reason=notice.reason,
                )
            case prepare.PodSuperseded(waiting=()):
                log.info(
                    "no pod waits for a claim that is recorded for an earlier pod",
                    claim=str(notice.claim),
                )
            case prepare.PodSuperseded():
                log.warning(
                    "pods wait for a claim that is recorded for an earlier pod",
                    claim=str(notice.claim),
                    pods=[str(pod) for pod in notice.waiting],
                    recorded_for=str(notice.pod),
                )
            case prepare.ProfileReleased():
                log.info("profiles released", claim=str(notice.claim))
            case prepare.ProfileReleaseFailed():
                if self._is_new("profiles", notice.claim_uid, notice.message):
                    log.warning(
                        "profiles not released", claim_uid=notice.claim_uid, reason=notice.message
                    )
            case prepare.OrphanSearchFailed():
                log.error(
                    "orphan collection failed",
                    claim=str(notice.claim or "all"),
                    reason=str(notice.cause),
                    exc_info=notice.cause,
                )
            case _:
                assert_never(notice)

    def on_slices(self, notice: resourceslice.Notice) -> None:
        """Log the state of the node's slices."""
        log = self._slices
        match notice:
            case resourceslice.SlicesPublished(writes=0):
                log.debug("published already", devices=notice.devices, slices=notice.slices)
            case resourceslice.SlicesPublished():
                log.info(
                    "published",
                    devices=notice.devices,
                    slices=notice.slices,
                    writes=notice.writes,
                )
            case resourceslice.DeviceRefused():
                log.error(
                    "device rejected by the API server", device=notice.device, reason=notice.reason
                )
            case resourceslice.FeaturesMissing() if not notice.features:
                log.info("API server supports all features again")
            case resourceslice.FeaturesMissing():
                log.warning("API server lacks features", gates=sorted(notice.features))
            case resourceslice.FieldsDropped():
                log.warning(
                    "API server drops fields", slice=notice.name, fields=sorted(notice.fields)
                )
            case resourceslice.SliceSyncFailed():
                if self._is_new("slices", str(notice.error)):
                    log.warning(
                        "not published",
                        reason=str(notice.error),
                        retry_s=round(notice.retry_s, 1),
                    )
            case _:
                assert_never(notice)

    def on_node(self, notice: discovery.Notice) -> None:
        """Log changes of the node's devices."""
        log = self._node
        match notice:
            case discovery.DevicesChanged():
                log.info(
                    "devices",
                    devices=notice.devices,
                    rdma=notice.rdma,
                    appeared=list(notice.appeared),
                    withdrawn=dict(notice.withdrawn),
                )
            case discovery.DevicesExcluded():
                log.info(
                    "devices excluded",
                    reason=notice.reason,
                    devices=list(notice.devices[:MAX_NAMES]),
                    more=max(0, len(notice.devices) - MAX_NAMES),
                    virtual=notice.virtual,
                )
            case discovery.DeviceUnhealthy():
                log.warning("device unhealthy", device=notice.device, reason=notice.reason)
            case discovery.DeviceRecovered():
                log.info("device healthy", device=notice.device)
            case discovery.ScanFailed():
                if self._is_new("node", str(notice.error)):
                    log.error(
                        "node scan failed",
                        reason=str(notice.error),
                        retry_s=round(notice.retry_s, 1),
                    )
            case discovery.ScanHung():
                log.error("node scan hangs in the kernel", doing=notice.doing, s=notice.seconds)
            case discovery.EventSourceLost():
                log.warning("event source lost", source=notice.source, reason=str(notice.error))
            case discovery.TcxFileUnreadable():
                log.warning(
                    "file of TCX programs and links of other namespaces unreadable",
                    reason=str(notice.error),
                    remedy="run plugin and shim of one version; the previous content stays valid",
                )
            case _:
                assert_never(notice)

    def on_cloud(self, notice: directory.CloudNotice) -> None:
        """Log which cloud describes devices, and that it does not answer."""
        match notice:
            case directory.CloudFound(name=""):
                self._node.info("no cloud provider")
            case directory.CloudFound():
                self._node.info("cloud provider", cloud=notice.name)
            case directory.CloudFailed():
                if self._is_new("cloud", str(notice.error)):
                    self._node.warning(
                        "cloud provider does not answer; what it said last counts",
                        reason=str(notice.error),
                        retry_s=round(notice.retry_s, 1),
                    )
            case _:
                assert_never(notice)

    def on_adoption(self, notice: controller.Notice) -> None:
        """Log the result of the migration of claims."""
        match notice:
            case controller.MigrationFinished(claims=0, refused=()):
                self._node.debug("no claims to migrate")
            case controller.MigrationFinished():
                self._node.info("claims migrated", claims=notice.claims)
                for reason in notice.refused:
                    self._node.error("claim not migrated", reason=reason)
            case controller.MigrationFailed():
                self._node.warning(
                    "migration failed",
                    reason=str(notice.error),
                    retry_s=notice.retry_s,
                )
            case _:
                assert_never(notice)

    def on_status(self, notice: status.Notice) -> None:
        """Log the state of claim status and Events."""
        log = self._status
        match notice:
            case status.StatusApplied():
                log.info("status written", claim=str(notice.claim), devices=notice.devices)
            case status.ClaimGone():
                log.debug("claim is gone", claim=str(notice.claim))
            case status.ClaimRefused():
                log.error(
                    "status rejected by the API server",
                    claim=str(notice.claim),
                    reason=notice.reason,
                )
            case status.StatusNotKept():
                log.warning("API server drops claim status", gate="DRAResourceClaimDeviceStatus")
            case status.EventPosted():
                log.debug("event", name=notice.name, reason=notice.reason, count=notice.count)
            case status.EventLost():
                log.warning("event not posted", reason=notice.reason)
            case status.StatusSyncFailed():
                if self._is_new("status", str(notice.error)):
                    log.warning(
                        "status not written",
                        reason=str(notice.error),
                        retry_s=round(notice.retry_s, 1),
                    )
            case _:
                assert_never(notice)

    def on_web(self, notice: web.Notice) -> None:
        """Log the address of metrics and health, and failed pages."""
        match notice:
            case web.ServerListening(address):
                self._parts.info("metrics and health served", address=str(address))
            case web.PageFailed(path, cause):
                self._parts.error("page failed", path=path, reason=str(cause), exc_info=cause)
            case _:
                assert_never(notice)

    def on_part(self, notice: WorkerFailed) -> None:
        """Log that a worker failed."""
        self._parts.error(
            "worker failed",
            part=notice.name,
            retry_s=notice.retry_s,
            reason=str(notice.cause),
            exc_info=notice.cause,
        )

    def _failed(
        self, log: Logger, event: str, notice: prepare.PrepareFailed | prepare.UnprepareFailed
    ) -> None:
        log.error(event, claim=str(notice.claim), reason=notice.message, exc_info=notice.cause)

    def _is_new(self, *what: str) -> bool:
        """Whether this was not logged in the last QUIET_S seconds."""
        now = self._clock()
        self._logged = {key: at for key, at in self._logged.items() if now - at < QUIET_S}
        return self._logged.setdefault(what, now) == now
