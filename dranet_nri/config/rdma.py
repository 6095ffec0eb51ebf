"""Parser of `rdma` and `interface.ipoib`, and the resulting partition key."""

import re
from collections.abc import Sequence
from typing import Final

from dranet_nri.config.fields import IPOIB_FIELDS, RDMA_FIELDS
from dranet_nri.config.json_cursor import Fields, Node, distinct, given, without_blank
from dranet_nri.config.scalars import parse_rdma_name
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    IPOIB_MTU,
    TENANT_PKEY,
    CharKind,
    IpoibConfig,
    IpoibMode,
    RdmaConfig,
)

IPOIB: Final = "IPoIB"  # of interface.type
TENANT: Final = "tenant"

_PKEY: Final = re.compile(r"0x[0-9a-fA-F]{1,4}")
_FULL: Final = 0x8000  # full membership of a partition (InfiniBand, 10.9)
_MAX_PKEY: Final = 0xFFFF
_PARTITION: Final = 0x7FFF  # the rest of a P_Key; as a value: the default partition


def read_rdma(node: Node) -> RdmaConfig:
    """Return the `rdma` block."""
    fields = without_blank(node.fields(RDMA_FIELDS), "name")
    return RdmaConfig(
        char_devices=given(fields, "charDevices", _char_kinds),
        name=given(fields, "name", lambda found: found.parsed(parse_rdma_name)),
    )


def _char_kinds(node: Node) -> tuple[CharKind, ...]:
    words = distinct(node.items(), lambda item: item.word(tuple(CharKind)))
    return tuple(map(CharKind, words))


def read_ipoib(fields: Fields) -> IpoibConfig | None:
    """Return the IPoIB child in the fields of `interface`, None without one."""
    is_ipoib = "type" in fields and fields["type"].value == IPOIB
    block = given(fields, "ipoib", _ipoib)
    if not is_ipoib:
        return None
    if "hardwareAddr" in fields:
        rule = f"not possible with type {IPOIB}: the kernel makes the address from the port's GUID"
        fields["hardwareAddr"].report(f"{rule}; remove it")
    ipoib = block or IpoibConfig()
    if "mtu" in fields:
        _check_mtu(fields["mtu"], ipoib.mode)
    return ipoib


def _ipoib(node: Node) -> IpoibConfig:
    fields = without_blank(node.fields(IPOIB_FIELDS), "pkey", "mode")
    mode = given(fields, "mode", lambda found: found.word(tuple(IpoibMode)))
    return IpoibConfig(given(fields, "pkey", _pkey), IpoibMode(mode or IpoibMode.DATAGRAM))


def _pkey(node: Node) -> int | None:
    value = node.value
    if value == TENANT:
        return TENANT_PKEY
    if isinstance(value, str) and _PKEY.fullmatch(value):
        value = int(value, 16)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_PKEY:
        node.report(f'must be a P_Key such as "0x8001", 1 to 65535, or "{TENANT}"')
        return None
    if not value & _PARTITION:
        node.report("names no partition; write the P_Key of one")
        return None
    return value | _FULL  # as the kernel does: IPoIB requires full membership


def _check_mtu(node: Node, mode: IpoibMode) -> None:
    low, high = IPOIB_MTU[mode]
    if isinstance(node.value, int) and not low <= node.value <= high:
        other = "" if mode is IpoibMode.CONNECTED else f", or use mode {IpoibMode.CONNECTED}"
        node.report(f"must be {low} to {high} with type {IPOIB} in {mode} mode; correct it{other}")


def pkey_word(pkey: int) -> str:
    """Return the partition key in hexadecimal, as in documents."""
    return TENANT if pkey == TENANT_PKEY else f"0x{pkey:04x}"


def choose_pkey(ipoib: IpoibConfig, table: Sequence[int], port: str) -> int | None:
    """Return the partition key of an IPoIB child, None for its parent's.

    As in the kernel, a key is found by its partition, with a limited membership if there is no full
    one (ib_find_pkey, drivers/infiniband/core/device.c). The tenant's key is the only full
    membership besides the default partition, as clouds assign it to virtual machines.

    Args:
        ipoib: the claimed child.
        table: P_Key table of the port; empty slots are 0.
        port: name of the port in errors ("mlx5_0 port 1").

    Raises:
        RefusedError: the key is not in the table, or the tenant's key is missing or ambiguous.
    """
    if ipoib.pkey is None:
        return None
    requested = f'pkey "{TENANT}"' if ipoib.pkey == TENANT_PKEY else f"pkey {pkey_word(ipoib.pkey)}"
    keys = [key for key in table if key & _PARTITION]
    listed = ", ".join(map(pkey_word, keys))
    if not keys:
        raise RefusedError(
            f"{requested}: the table of {port} is empty; is a subnet manager running on its fabric?"
        )
    if ipoib.pkey == TENANT_PKEY:
        return _tenant(keys, f"{requested}: the table of {port} has", listed)
    if all(key & _PARTITION != ipoib.pkey & _PARTITION for key in keys):
        raise RefusedError(
            f"{requested} is not in the table of {port}: {listed}; use one of these, "
            "or let the subnet manager add the port to the partition"
        )
    return ipoib.pkey


def _tenant(keys: Sequence[int], subject: str, listed: str) -> int:
    full = {key for key in keys if key & _FULL and key & _PARTITION != _PARTITION}
    if not full:
        raise RefusedError(
            f"{subject} no full membership beside the default partition: {listed}; "
            "remove pkey to use the parent's"
        )
    if len(full) > 1:
        raise RefusedError(f"{subject} several: {listed}; write the one you mean")
    return full.pop()
