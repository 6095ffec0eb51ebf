"""Bytes that the kubelet's own stubs made: our definitions read and write the same.

Each tests/golden/kubelet/NAME.hex is one message, NAME.json what it means.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from dra_shim._gen import (
    dra_health_v1_pb2,
    dra_health_v1alpha1_pb2,
    dra_v1_pb2,
    dra_v1beta1_pb2,
    pluginregistration_v1_pb2,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "kubelet"
MESSAGES: dict[str, Any] = {
    "plugin-info": pluginregistration_v1_pb2.PluginInfo,
    "registered": pluginregistration_v1_pb2.RegistrationStatus,
    "not-registered": pluginregistration_v1_pb2.RegistrationStatus,
    "v1-prepare-request": dra_v1_pb2.NodePrepareResourcesRequest,
    "v1-prepare-response": dra_v1_pb2.NodePrepareResourcesResponse,
    "v1-unprepare-request": dra_v1_pb2.NodeUnprepareResourcesRequest,
    "v1-unprepare-response": dra_v1_pb2.NodeUnprepareResourcesResponse,
    "v1beta1-prepare-request": dra_v1beta1_pb2.NodePrepareResourcesRequest,
    "v1beta1-prepare-response": dra_v1beta1_pb2.NodePrepareResourcesResponse,
    "v1beta1-unprepare-request": dra_v1beta1_pb2.NodeUnprepareResourcesRequest,
    "v1beta1-unprepare-response": dra_v1beta1_pb2.NodeUnprepareResourcesResponse,
    "v1-health": dra_health_v1_pb2.NodeWatchResourcesResponse,
    "v1alpha1-health": dra_health_v1alpha1_pb2.NodeWatchResourcesResponse,
}
SERVICES = {
    "pluginregistration.Registration": pluginregistration_v1_pb2,
    "k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin": dra_v1_pb2,
    "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin": dra_v1beta1_pb2,
    "v1.DRAResourceHealth": dra_health_v1_pb2,
    "v1alpha1.DRAResourceHealth": dra_health_v1alpha1_pb2,
}


def test_every_golden_file_has_a_test() -> None:
    assert sorted(MESSAGES) == sorted(path.stem for path in GOLDEN.glob("*.hex"))


@pytest.mark.parametrize("name", MESSAGES)
def test_golden_bytes_are_decoded_and_encoded(name: str) -> None:
    data = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    fields = json.loads((GOLDEN / f"{name}.json").read_text())["message"]

    message = MESSAGES[name].FromString(data)

    assert message == json_format.ParseDict(fields, MESSAGES[name]())
    assert message.SerializeToString(deterministic=True) == data


@pytest.mark.parametrize("service", SERVICES)
def test_service_names_match_the_kubelet(service: str) -> None:
    assert service in {
        entry.full_name for entry in SERVICES[service].DESCRIPTOR.services_by_name.values()
    }
