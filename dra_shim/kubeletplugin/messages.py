"""Conversion of the kubelet's messages to values and back; only v1 has share ids."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dra_shim._gen import dra_v1_pb2, dra_v1beta1_pb2
from dra_shim._gen.dra_v1_pb2 import (
    Claim,
    NodePrepareResourceResponse,
    NodePrepareResourcesResponse,
    NodeUnprepareResourceResponse,
    NodeUnprepareResourcesResponse,
)
from dra_shim._gen.dra_v1_pb2 import Device as DeviceMessage
from dranet_nri.errors import InvalidValueError
from dranet_nri.model import ObjectRef, parse_uid
from dranet_nri.model.api_names import parse_label, parse_subdomain

if TYPE_CHECKING:  # the import would delay the registration
    from dra_shim.prepare import PreparedDevice, PrepareResult


@dataclass(frozen=True, slots=True)
class DraVersion:
    """One version of the DRA service.

    Attributes:
        advertised: its name in GetInfo.
        service: its gRPC name.
        with_shares: whether devices have a share id.
    """

    advertised: str
    service: str
    with_shares: bool


VERSIONS: Final = (
    DraVersion(
        "v1.DRAPlugin",
        dra_v1_pb2.DESCRIPTOR.services_by_name["DRAPlugin"].full_name,
        with_shares=True,
    ),
    DraVersion(
        "v1beta1.DRAPlugin",
        dra_v1beta1_pb2.DESCRIPTOR.services_by_name["DRAPlugin"].full_name,
        with_shares=False,
    ),
)


def claims_from(messages: Iterable[Claim]) -> tuple[tuple[ObjectRef, ...], dict[str, str]]:
    """Return the valid claims of a request, and the error of each invalid claim by UID."""
    claims: dict[str, ObjectRef] = {}
    errors: dict[str, str] = {}
    for message in messages:
        try:
            claims[message.uid] = ObjectRef(
                _parsed("namespace", message.namespace, parse_label),
                _parsed("name", message.name, parse_subdomain),
                parse_uid(message.uid),
            )
        except InvalidValueError as error:
            errors[message.uid] = f"claim {message.namespace}/{message.name}: {error}"
    return tuple(claims.values()), errors


def prepare_response(
    answers: "Mapping[str, PrepareResult]", version: DraVersion, refused: Mapping[str, str]
) -> NodePrepareResourcesResponse:
    """Return the response to NodePrepareResources, with an entry for each claim UID."""
    claims = {uid: NodePrepareResourceResponse(error=error) for uid, error in refused.items()}
    for uid, answer in answers.items():
        devices = [_device(device, version) for device in answer.devices]
        claims[uid] = NodePrepareResourceResponse(devices=devices, error=answer.error)
    return NodePrepareResourcesResponse(claims=claims)


def unprepare_response(errors: Mapping[str, str]) -> NodeUnprepareResourcesResponse:
    """Return the response to NodeUnprepareResources, with an entry for each claim UID."""
    return NodeUnprepareResourcesResponse(
        claims={uid: NodeUnprepareResourceResponse(error=error) for uid, error in errors.items()}
    )


def _device(device: "PreparedDevice", version: DraVersion) -> DeviceMessage:
    return DeviceMessage(
        request_names=[device.request],
        pool_name=device.pool,
        device_name=device.device,
        cdi_device_ids=device.cdi_ids,
        share_id=(device.share_id or None) if version.with_shares else None,
    )


def _parsed(field: str, text: str, parse: Callable[[str], str]) -> str:
    try:
        return parse(text)
    except InvalidValueError as error:
        raise InvalidValueError(f"{field} {text!r}: {error}") from None
