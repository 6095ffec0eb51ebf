"""Promises of the program: how each is broken on purpose, and the test that must fail."""

from typing import Final

from tests.prove.breaks_field import FIELD
from tests.prove.promise import Break

_EXECUTOR: Final = "dranet_nri/attach/execution/executor.py"
_ATTACHER: Final = "dranet_nri/attach/controller.py"
_PLUGIN: Final = "dranet_nri/hooks/handler.py"
_GATE: Final = "dranet_nri/cdi/gate.py"
_FABRIC: Final = "dranet_nri/attach/rdma.py"
_PLANNER: Final = "dranet_nri/plan/planner.py"
_RETRY: Final = "dranet_nri/plan/retry.py"
_PLAN_RDMA: Final = "dranet_nri/plan/rdma.py"
_HOOKS: Final = "dranet_nri/nri/stub/dispatcher.py"
_SESSION: Final = "dranet_nri/nri/wire/session.py"

_TEST_EXECUTOR: Final = "tests/dranet_nri/attach/execution/test_executor.py"
_TEST_FAILURES: Final = "tests/dranet_nri/attach/execution/test_executor_failures.py"
_TEST_DETACH: Final = "tests/dranet_nri/attach/execution/test_executor_detach.py"
_TEST_PLUGIN: Final = "tests/dranet_nri/hooks/test_handler.py"
_TEST_CASES: Final = "tests/dranet_nri/hooks/test_conformance.py"
_TEST_RACES: Final = "tests/dranet_nri/hooks/test_races.py"
_TEST_FABRIC: Final = "tests/dranet_nri/attach/test_rdma.py"
_TEST_HOME: Final = "tests/dranet_nri/attach/test_rdma_restore.py"
_TEST_PLUGIN_RDMA: Final = "tests/dranet_nri/hooks/test_rdma.py"
_TEST_PLAN: Final = "tests/dranet_nri/plan/test_planner_rdma.py"
_TEST_GATE: Final = "tests/dranet_nri/cdi/test_gate.py"
_TEST_GATE_ORDER: Final = "tests/dranet_nri/hooks/test_gate.py"

# --------------------------------------------------------------------------- transactions

_TRANSACTIONS: Final = (
    Break(
        "a failed attach is not undone",
        _EXECUTOR,
        "undone = self._undo(session, targets)",
        "undone = _Undone(frozenset(), ())",
        f"{_TEST_FAILURES}::test_failed_operation_restores_every_device_on_the_host",
    ),
    Break(
        "a failed attach is undone first in, first out",
        _EXECUTOR,
        "for target in reversed(targets):",
        "for target in targets:",
        f"{_TEST_FAILURES}::test_undo_without_a_kernel_read_is_reported_and_a_later_detach_completes_it",
    ),
    Break(
        "the intent is not recorded before the first operation",
        _EXECUTOR,
        "for record in intents:",
        "for record in ():",
        f"{_TEST_EXECUTOR}::test_record_is_written_before_the_first_and_after_the_last_operation",
    ),
    Break(
        "that a detach begins is not recorded first",
        _EXECUTOR,
        "with suppress(DranetError, OSError):\n                self._journal.put(attachment)",
        "with suppress(DranetError, OSError):\n                pass",
        f"{_TEST_DETACH}::test_detaching_phase_is_recorded_before_the_first_operation",
    ),
    Break(
        "a refused plan is not recorded",
        _EXECUTOR,
        "except DranetError as error:\n            self._fail(records, described(error))\n",
        "except DranetError as error:\n",
        f"{_TEST_EXECUTOR}::test_refused_pod_changes_nothing_and_the_reason_is_recorded",
    ),
    Break(
        "a file is written where readers see it half written",
        "dranet_nri/component/files.py",
        "            _stage(fs, staged, data, mode, durable=durable)\n"
        "            fs.replace(staged, path)\n",
        "            fs.unlink(path)\n            fs.write(path, data, mode, durable=durable)\n",
        "tests/dranet_nri/state/test_files.py::test_failed_save_leaves_the_old_or_the_new_file_and_nothing_else",
    ),
    Break(
        "a record of a newer version is accepted",
        "dranet_nri/state/record.py",
        "if version == VERSION:",
        "if version >= VERSION:",
        "tests/dranet_nri/state/test_corrupt.py"
        "::test_newer_record_stays_in_place_and_is_not_overwritten",
    ),
    Break(
        "a record that could not be read is forgotten",
        "dranet_nri/state/reader.py",
        "if now is None or not now.unread:",
        "if True:",
        "tests/dranet_nri/state/test_reader_descriptors.py"
        "::test_record_that_could_not_be_opened_is_read_without_a_further_event",
    ),
)

# --------------------------------------------------------------------------- no NIC is lost

_NO_NIC_LOST: Final = (
    Break(
        "a second attach forgets the snapshot of the first",
        "dranet_nri/attach/desired.py",
        "recorded = replace(device, shared_rdma=(), warnings=(), lease=None)",
        "recorded = replace(device, shared_rdma=(), warnings=(), lease=None, snapshot=None)",
        f"{_TEST_DETACH}::test_second_attempt_keeps_the_snapshot_of_the_first",
    ),
    Break(
        "an attach anew that fails takes from a running pod what it has",
        _EXECUTOR,
        "            if target.is_in_use:",
        "            if False:",
        f"{_TEST_FAILURES}::test_failed_repair_of_a_running_pod_keeps_its_devices",
    ),
    Break(
        "hardware of a dead namespace counts as restored",
        _RETRY,
        "if not desired.child and _no_longer_exists(device, observed):",
        "if not netns_exists:",
        f"{_TEST_DETACH}::test_hardware_of_a_dead_namespace_is_restored_after_the_kernel_returns_it",
    ),
    Break(
        "a device is called restored without verification",
        _RETRY,
        "restored = is_restored(desired, observed)",
        "restored = True",
        f"{_TEST_DETACH}::test_missing_device_keeps_the_claim_in_detaching",
    ),
    Break(
        "lifetimes come back as if no time had passed",
        "dranet_nri/attach/execution/restorer.py",
        "            self.boot() - device.snapshot_s,\n",
        "            0,\n",
        f"{_TEST_DETACH}::test_address_lifetimes_are_reduced_by_the_time_in_the_pod",
    ),
    Break(
        "a second sandbox supersedes a record that still has devices",
        _ATTACHER,
        "if record.is_unrestored:",
        "if False:",
        f"{_TEST_PLUGIN}::test_device_that_cannot_be_restored_keeps_its_record",
    ),
    Break(
        "a pod is given what another one holds",
        _ATTACHER,
        "                check_not_owned(pod, claims, self.attachments.all(), self.live)\n",
        "",
        f"{_TEST_PLUGIN}::test_forged_record_for_an_owned_nic_is_refused_with_the_owner",
    ),
    Break(
        "a released claim is taken from the pod that runs",
        "dranet_nri/attach/reconciler.py",
        "if record.phase is not Phase.ATTACHED and missing:",
        "if missing:",
        f"{_TEST_PLUGIN}::test_removed_allocation_does_not_detach_a_running_pod",
    ),
    Break(
        "a cut list of pods is taken for the whole",
        _SESSION,
        "        if piece.more:",
        "        if False:",
        "tests/dranet_nri/nri/wire/test_session.py"
        "::test_case_35_parts_form_one_list_and_each_is_answered_with_its_more_flag",
    ),
    Break(
        "a NIC below the node's uplink can be claimed",
        "dranet_nri/inventory/exclusions.py",
        "for index in _reachable(by_index, root, below):",
        "for index in ():",
        "tests/dranet_nri/inventory/test_exclusions.py"
        "::test_bridge_uplink_excludes_its_ports_down_to_the_nic",
    ),
)

# --------------------------------------------------------------------------- fail closed

_FAIL_CLOSED: Final = (
    Break(
        "the gate opens for a sandbox that ended during its attach",
        _ATTACHER,
        "if pod.sandbox_id in self.live:",
        "if True:",
        f"{_TEST_GATE_ORDER}::test_gate_is_not_opened_for_a_sandbox_that_ended_during_its_attach",
    ),
    Break(
        "a container starts with the files of its pod's former sandbox",
        "dranet_nri/hooks/admission.py",
        "if path != pod.netns_path:",
        "if False:",
        "tests/dranet_nri/hooks/test_admission.py"
        "::test_container_with_files_of_an_earlier_sandbox_is_retried",
    ),
    Break(
        "the gate opens before the result is recorded",
        _ATTACHER,
        "self.gate.close(claim.claim.uid)",
        "self.open_gate(claim, _new_record(pod, netns, claim))",
        f"{_TEST_RACES}::test_gate_is_closed_during_an_attach",
    ),
    Break(
        "the gate is open while the NIC leaves",
        _ATTACHER,
        "close_error = self.gate.try_close(attachment.claim.uid)",
        'close_error = ""',
        f"{_TEST_GATE_ORDER}::test_gate_is_closed_before_the_nic_leaves_its_pod",
    ),
    Break(
        "the gate opens before the files that it names are there",
        _GATE,
        "        for request in requests:\n",
        "        self._write(\n"
        "            self.spec_path(allocation.claim.uid),\n"
        "            cdi_spec(allocation, attachment, directory, options),\n"
        "        )\n"
        "        for request in requests:\n",
        f"{_TEST_GATE}::test_open_writes_the_spec_last",
    ),
    Break(
        "the gate's files go before the gate",
        _GATE,
        "        self.close(claim_uid)\n        self.remove_metadata(claim_uid)\n",
        "        self.remove_metadata(claim_uid)\n        self.close(claim_uid)\n",
        f"{_TEST_GATE}::test_remove_removes_the_spec_first_and_leaves_no_files",
    ),
    Break(
        "a container is created without its NIC",
        _PLUGIN,
        "        check_attached(pod, container, uids, records)\n",
        "",
        "tests/dranet_nri/hooks/test_trouble.py"
        "::test_container_with_the_claim_file_is_refused_without_the_nic",
    ),
    Break(
        "a pod on the host's network gets the host's NIC",
        "dranet_nri/attach/sandboxes.py",
        "if kernel.is_host(netns):",
        "if False:",
        f"{_TEST_CASES}::test_case_42_host_network_pod_with_a_claim_is_refused",
    ),
    Break(
        "a pod whose attach failed is accepted, and nobody is told",
        _PLUGIN,
        "return self.may_reject and self.rejections[pod.uid] <= MAX_REJECTIONS",
        "return False",
        f"{_TEST_PLUGIN}::test_sandbox_is_accepted_after_three_rejections_with_a_closed_gate",
    ),
)

# --------------------------------------------------------------------------- the runtime

_RUNTIME: Final = (
    Break(
        "a slow hook answers after the runtime gave up",
        _HOOKS,
        "BUDGET_SHARE: Final = 0.8",
        "BUDGET_SHARE: Final = 1.2",
        "tests/dranet_nri/nri/stub/test_connection_deadlines.py"
        "::test_case_21_deadline_is_four_fifths_of_the_timeout_after_arrival",
    ),
    Break(
        "a list whose answer left too late is trusted",
        "dranet_nri/nri/stub/transport.py",
        "self._clock() > arrival + event.timeout_nano / 1e9",
        "False",
        "tests/dranet_nri/nri/stub/test_connection_link.py"
        "::test_case_36_list_with_a_late_answer_is_dropped_with_the_connection",
    ),
    Break(
        "hooks of one sandbox overtake each other",
        _HOOKS,
        "async with queue.turn:",
        "if True:",
        "tests/dranet_nri/nri/stub/test_connection_hooks.py"
        "::test_case_44_hooks_of_one_sandbox_run_in_order_and_are_all_answered",
    ),
    Break(
        "a list of any size is decoded",
        _SESSION,
        "if self._entries > self._max_entries:",
        "if False:",
        "tests/dranet_nri/nri/wire/test_session.py::test_list_above_the_entry_limit_ends_the_connection",
    ),
)

# --------------------------------------------------------------------------- RDMA

_RDMA: Final = (
    Break(
        "an RDMA mode that is demanded is not",
        _FABRIC,
        "if required not in {None, mode}:",
        "if False:",
        f"{_TEST_FABRIC}::test_rdma_mode_other_than_the_required_one_is_refused_with_the_remedy",
    ),
    Break(
        "an RDMA device is given to one of the pods that share it",
        _FABRIC,
        "    if allocated.share_id:\n",
        "    if False:\n",
        f"{_TEST_FABRIC}::test_share_in_exclusive_mode_is_refused",
    ),
    Break(
        "a pod is attached without the RDMA device that its driver took away",
        _FABRIC,
        "if not rdma or len(rdma) < len(device.rdma):",
        "if False:",
        f"{_TEST_HOME}::test_rdma_device_removed_by_its_driver_is_refused",
    ),
    Break(
        "of two RDMA devices the one in the pod is forgotten",
        _FABRIC,
        "return (*recorded, ",
        "return (*before[:0], ",
        f"{_TEST_HOME}::test_recreated_rdma_device_does_not_hide_the_one_in_the_pod",
    ),
    Break(
        "nobody is told that shared RDMA isolates nothing",
        _FABRIC,
        "return SHARED_MODE_WARNING, *(text for text, applies in warnings.items() if applies)",
        "return tuple(text for text, applies in warnings.items() if applies)",
        f"{_TEST_FABRIC}::test_shared_rdma_device_stays_on_the_host_and_its_files_are_given_with_a_warning",
    ),
    Break(
        "the RDMA device moves after its NIC",
        _PLANNER,
        "else (*moves, *rest)",
        "else (*rest, *moves)",
        f"{_TEST_PLAN}::test_rdma_device_is_moved_to_the_pod_before_its_net_device",
    ),
    Break(
        "a NIC takes the software RDMA device on it along, for good",
        _FABRIC,
        "if software and observed.rdma.mode is RdmaMode.SHARED and observed.host is not None:",
        "if False:",
        "tests/dranet_nri/attach/test_rdma_files.py"
        "::test_nic_with_a_software_rdma_device_is_refused_before_the_move",
    ),
    Break(
        "the IPoIB link is configured that goes when its RDMA device moves",
        _PLANNER,
        "return any(isinstance(op, MoveRdma) for op in ops)",
        "return False",
        f"{_TEST_PLAN}::test_move_that_recreates_the_net_device_ends_the_plan",
    ),
    Break(
        "an RDMA device that was made anew is waited for in vain",
        _PLAN_RDMA,
        "if not _recreated(before, observed):",
        "if True:",
        f"{_TEST_PLAN}::test_rdma_device_is_restored_with_its_index_or_recreated",
    ),
    Break(
        "an RDMA device under another one's index is taken for it",
        _PLAN_RDMA,
        "            and (device.node_guid == link.node_guid or device.name == link.name)\n",
        "",
        f"{_TEST_PLAN}::test_missing_rdma_device_is_refused_with_the_remedy",
    ),
    Break(
        "an RDMA device does not get its name back",
        _PLAN_RDMA,
        "if now.name != link.name and link.name not in taken:",
        "if False:",
        f"{_TEST_HOME}::test_rdma_name_of_the_pod_is_removed_before_the_move_to_the_host",
    ),
    Break(
        "RDMA devices stay in the pod, and it is called restored",
        _PLANNER,
        "    if why_rdma_not_restored(desired.rdma, observed.rdma):\n        return False\n",
        "",
        f"{_TEST_HOME}::test_rdma_device_that_cannot_be_moved_keeps_its_record",
    ),
    Break(
        "numbers of RDMA device files that changed are not recorded",
        _EXECUTOR,
        "if record is not None and record != attachment:",
        "if False:",
        "tests/dranet_nri/attach/test_rdma_files.py::test_changed_device_numbers_are_recorded",
    ),
    Break(
        "the gate goes on with RDMA device files that are no more",
        _ATTACHER,
        "self.open_gate(allocation, current)",
        "self.open_gate(allocation, attachment)",
        f"{_TEST_PLUGIN_RDMA}::test_device_files_follow_changed_device_numbers",
    ),
    Break(
        "a pod keeps the name of a shared RDMA device's file, which may be another's by now",
        "dranet_nri/attach/checks/verify.py",
        "if SHARED_MODE_WARNING in device.warnings and not _are_shared(observed.rdma):",
        "if False:",
        f"{_TEST_PLUGIN_RDMA}::test_shared_device_is_missing_while_its_driver_is_reloaded",
    ),
)

BREAKS: Final = (*_TRANSACTIONS, *_NO_NIC_LOST, *_FAIL_CLOSED, *_RUNTIME, *_RDMA, *FIELD)
