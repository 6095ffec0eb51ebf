# ruff: noqa: E501  one broken rule per line reads as a table
"""The rdma and ipoib blocks, and the partition key of a port's table."""

import pytest

from dranet_nri.config import (
    ConfigEntry,
    ConfigSource,
    choose_pkey,
    parse_network_config,
    select_config,
)
from dranet_nri.errors import ConfigError, RefusedError
from dranet_nri.model import TENANT_PKEY, CharKind, IpoibConfig, IpoibMode, RdmaConfig

UVERBS, RDMA_CM, UMAD, ISSM = CharKind
DATAGRAM, CONNECTED = IpoibMode


def rdma(**fields: object) -> dict[str, object]:
    return {"rdma": fields}


def ipoib(block: object = None, **fields: object) -> dict[str, object]:
    return {"interface": {"type": "IPoIB", "ipoib": block} | fields}


def violations(document: object) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_network_config(document)
    return caught.value.violations


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({}, RdmaConfig(), id="nothing"),
        pytest.param({"rdma": None}, RdmaConfig(), id="null"),
        pytest.param(rdma(), RdmaConfig(), id="an empty block"),
        pytest.param(rdma(name="", charDevices=None), RdmaConfig(), id="blank"),
        pytest.param(rdma(charDevices=[]), RdmaConfig(()), id="no device files at all"),
        pytest.param(
            rdma(charDevices=["umad", "issm"]), RdmaConfig((UMAD, ISSM)), id="a fabric manager's"
        ),
        pytest.param(rdma(name="mlx5_a-0"), RdmaConfig(name="mlx5_a-0"), id="a name"),
        pytest.param(rdma(name="m" * 63), RdmaConfig(name="m" * 63), id="the longest name"),
    ],
)
def test_rdma_block_is_parsed(document: object, expected: RdmaConfig) -> None:
    assert parse_network_config(document).rdma == expected


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        pytest.param({"interface": {"type": "Passthrough"}}, None, id="another type"),
        pytest.param(ipoib(), IpoibConfig(), id="the parent's partition, datagram mode"),
        pytest.param(ipoib({"pkey": "", "mode": ""}), IpoibConfig(), id="blank"),
        pytest.param(ipoib({"pkey": "0x8001"}), IpoibConfig(0x8001), id="hexadecimal"),
        pytest.param(ipoib({"pkey": "0xA"}), IpoibConfig(0x800A), id="short"),
        pytest.param(ipoib({"pkey": 32769}), IpoibConfig(0x8001), id="a number, as YAML's 0x8001"),
        pytest.param(ipoib({"pkey": 1}), IpoibConfig(0x8001), id="always as a full member"),
        pytest.param(ipoib({"pkey": "0x7fff"}), IpoibConfig(0xFFFF), id="the default partition"),
        pytest.param(ipoib({"pkey": "tenant"}), IpoibConfig(TENANT_PKEY), id="the tenant's"),
        pytest.param(
            ipoib({"mode": "connected"}, mtu=65520), IpoibConfig(None, CONNECTED), id="connected"
        ),
        pytest.param(ipoib({"mode": "datagram"}, mtu=4092), IpoibConfig(), id="the largest MTU"),
        pytest.param(ipoib(mtu=72), IpoibConfig(), id="the smallest MTU"),
    ],
)
def test_ipoib_child_is_parsed(document: object, expected: IpoibConfig | None) -> None:
    assert parse_network_config(document).interface.ipoib == expected


KEY = 'must be a P_Key such as "0x8001", 1 to 65535, or "tenant"'


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"rdma": []}, "rdma: list of 0: must be an object"),
        (rdma(chardevices=[]), 'rdma.chardevices: list of 0: unknown field (did you mean "charDevices"?); remove it or use one of: charDevices, name'),
        (rdma(charDevices="uverbs"), 'rdma.charDevices: "uverbs": must be a list'),
        (rdma(charDevices=[1]), "rdma.charDevices[0]: 1: must be a string"),
        (rdma(charDevices=["uverb"]), 'rdma.charDevices[0]: "uverb": must be one of uverbs, rdma_cm, umad, issm (did you mean "uverbs"?)'),
        (rdma(charDevices=["umad", "issm", "umad"]), 'rdma.charDevices[2]: "umad": given twice; keep one'),
        (rdma(name=5), "rdma.name: 5: must be a string"),
        (rdma(name="m" * 64), "is too long; at most 63 bytes fit"),
        (rdma(name="mlx5/0"), 'rdma.name: "mlx5/0": must hold only letters of ASCII, digits, - and _, and begin'),
        (rdma(name="mlx5_%d"), "must hold only letters of ASCII, digits, - and _"),
        (rdma(name="mlx5_0,mlx5_1"), "must hold only letters of ASCII, digits, - and _"),
        (rdma(name="ж"), "must hold only letters of ASCII, digits, - and _"),
        (rdma(name="-m"), "begin with a letter or digit"),
        (rdma(name=".."), "begin with a letter or digit"),
        (ipoib([]), "interface.ipoib: list of 0: must be an object"),
        (ipoib({"pky": 1}), 'interface.ipoib.pky: 1: unknown field (did you mean "pkey"?); remove it or use one of: mode, pkey'),
        (ipoib({"pkey": "8001"}), f'interface.ipoib.pkey: "8001": {KEY}'),
        (ipoib({"pkey": "0x18001"}), f'interface.ipoib.pkey: "0x18001": {KEY}'),
        (ipoib({"pkey": "Tenant"}), f'interface.ipoib.pkey: "Tenant": {KEY}'),
        (ipoib({"pkey": 65536}), f"interface.ipoib.pkey: 65536: {KEY}"),
        (ipoib({"pkey": -1}), f"interface.ipoib.pkey: -1: {KEY}"),
        (ipoib({"pkey": True}), f"interface.ipoib.pkey: true: {KEY}"),
        (ipoib({"pkey": 1.0}), f"interface.ipoib.pkey: 1.0: {KEY}"),
        (ipoib({"pkey": 0}), "interface.ipoib.pkey: 0: names no partition; write the P_Key of one"),
        (ipoib({"pkey": "0x8000"}), 'interface.ipoib.pkey: "0x8000": names no partition'),
        (ipoib({"mode": "connect"}), 'interface.ipoib.mode: "connect": must be one of datagram, connected (did you mean "connected"?)'),
        (ipoib(mtu=4093), "interface.mtu: 4093: must be 72 to 4092 with type IPoIB in datagram mode; correct it, or use mode connected"),
        (ipoib(mtu=71), "interface.mtu: 71: must be 72 to 4092 with type IPoIB"),
        (ipoib({"mode": "connected"}, mtu=65521), "interface.mtu: 65521: must be 68 to 65520 with type IPoIB in connected mode; correct it"),
        (ipoib(mtu="9000"), 'interface.mtu: "9000": must be a whole number'),
        (ipoib(hardwareAddr="80" + ":01" * 19), "not possible with type IPoIB: the kernel makes the address from the port's GUID; remove it"),
        (ipoib(ipvlan={}), "interface.ipvlan: object with no fields: only possible with type IPVLAN; set it, or remove this"),
        ({"interface": {"ipoib": {}}}, "interface.ipoib: object with no fields: only possible with type IPoIB; set it, or remove this"),
        ({"interface": {"type": "IPVLAN", "ipoib": {"pkey": 1}}}, "interface.ipoib: object with pkey: only possible with type IPoIB"),
        ({"interface": {"type": "ipoib"}}, 'interface.type: "ipoib": must be one of Passthrough, IPVLAN, MACVLAN, VLAN, IPoIB (did you mean "IPoIB"?)'),
    ],
    ids=str,
)  # fmt: skip
def test_invalid_rdma_field_is_refused_with_path_value_and_remedy(
    document: object, expected: str
) -> None:
    assert any(expected in line for line in violations(document)), violations(document)


def test_class_and_claim_are_merged_by_field_and_char_devices_are_replaced() -> None:
    base = ipoib({"pkey": "tenant"}, mtu=2044) | rdma(charDevices=["uverbs"], name="hca0")
    above = ipoib({"mode": "connected"}) | rdma(charDevices=["umad", "uverbs"])

    config = select_config(
        [
            ConfigEntry(ConfigSource.CLASS, "dra.net", base),
            ConfigEntry(ConfigSource.CLAIM, "dra.net", above),
        ],
        "nic",
    )

    assert config.rdma == RdmaConfig((UMAD, UVERBS), "hca0")
    assert config.interface.ipoib == IpoibConfig(TENANT_PKEY, CONNECTED)
    assert config.interface.mtu == 2044


# --------------------------------------------------------------------------- choosing the key


@pytest.mark.parametrize(
    ("pkey", "table", "chosen"),
    [
        pytest.param(None, (), None, id="the parent's, whatever the table"),
        pytest.param(0x8001, (0xFFFF, 0x8001), 0x8001, id="in the table"),
        pytest.param(0x8001, (0xFFFF, 0, 0x0001), 0x8001, id="a limited membership will do"),
        pytest.param(0xFFFF, (0x7FFF,), 0xFFFF, id="the default partition"),
        pytest.param(TENANT_PKEY, (0x8014, 0x7FFF, 0, 0), 0x8014, id="the tenant's before"),
        pytest.param(TENANT_PKEY, (0xFFFF, 0x8014), 0x8014, id="the tenant's after"),
        pytest.param(
            TENANT_PKEY, (0x8014, 0x8014, 0x0002), 0x8014, id="repeated, beside a limited"
        ),
    ],
)
def test_pkey_is_chosen_from_the_table(
    pkey: int | None, table: tuple[int, ...], chosen: int | None
) -> None:
    assert choose_pkey(IpoibConfig(pkey), table, "mlx5_0 port 1") == chosen


@pytest.mark.parametrize(
    ("pkey", "table", "text"),
    [
        (0x8005, (0xFFFF, 0x8001, 0), "pkey 0x8005 is not in the table of mlx5_0 port 1: 0xffff, 0x8001; use one of these, or let the subnet manager add the port to the partition"),
        (0x8005, (0, 0x8000), "pkey 0x8005: the table of mlx5_0 port 1 is empty; is a subnet manager running on its fabric?"),
        (TENANT_PKEY, (), 'pkey "tenant": the table of mlx5_0 port 1 is empty; is a subnet manager running on its fabric?'),
        (TENANT_PKEY, (0x7FFF, 0xFFFF, 0x0014), 'pkey "tenant": the table of mlx5_0 port 1 has no full membership beside the default partition: 0x7fff, 0xffff, 0x0014; remove pkey to use the parent\'s'),
        (TENANT_PKEY, (0x8014, 0x7FFF, 0x8015), 'pkey "tenant": the table of mlx5_0 port 1 has several: 0x8014, 0x7fff, 0x8015; write the one you mean'),
    ],
    ids=["absent", "empty slots", "tenant, empty", "tenant, none", "tenant, several"],
)  # fmt: skip
def test_pkey_missing_in_the_table_is_refused_with_the_table(
    pkey: int, table: tuple[int, ...], text: str
) -> None:
    with pytest.raises(RefusedError) as caught:
        choose_pkey(IpoibConfig(pkey), table, "mlx5_0 port 1")

    assert str(caught.value) == text
