"""GPU domains of Azure sizes."""

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.inventory import AzureHost
from dranet_nri.inventory.azure import Placement, parse_vm_size, placements

V4_GPUS = frozenset({"0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"})
V5_GPUS = frozenset({"0001", "0002", "0003", "0008", "0009", "000a", "000b", "000c"})


def test_azure_size_selects_the_table_in_any_case() -> None:
    for name in ("Standard_ND96isr_H100_v5", "standard_nd96isr_h100_v5"):
        assert placements(AzureHost(V4_GPUS, name))["0104"] == Placement(0, ("0008",))


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        pytest.param(V4_GPUS, Placement(1, ("0001", "0002")), id="nd-v4"),
        pytest.param(V5_GPUS, Placement(0, ("0001",)), id="nd-v5"),
    ],
)
@pytest.mark.parametrize("size", ["", "Standard_ND96isr_H200_v5"])
def test_gpu_domains_select_the_table_without_a_known_size(
    gpus: frozenset[str], expected: Placement, size: str
) -> None:
    assert placements(AzureHost(gpus, size))["0101"] == expected


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(None, id="not-azure"),
        pytest.param(AzureHost(), id="no-gpus"),
        pytest.param(AzureHost(V4_GPUS & V5_GPUS), id="some-gpus-of-both"),
        pytest.param(AzureHost(V5_GPUS | {"000d"}), id="one-more"),
        pytest.param(AzureHost(frozenset(), "Standard_HB120rs_v3"), id="size-without-gpus"),
    ],
)
def test_no_placement_is_given_without_a_matching_table(host: AzureHost | None) -> None:
    assert not placements(host)


@pytest.mark.parametrize("size", ["Standard_ND96asr_v4", "Standard_ND96isr_H100_v5"])
def test_azure_table_has_eight_nics_and_eight_gpus_spread_evenly(size: str) -> None:
    table = placements(AzureHost(vm_size=size))

    assert sorted(table) == [f"010{n}" for n in range(1, 9)]
    nodes = [placement.numa_node for placement in table.values()]
    assert {nodes.count(node) for node in nodes} == {8 // len(set(nodes))}
    assert len({gpu for placement in table.values() for gpu in placement.gpu_domains}) == 8


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", ""),
        ("Standard_ND96asr_v4", "Standard_ND96asr_v4"),
        (" standard_nd96isr_h100_V5\n", "Standard_ND96isr_H100_v5"),
    ],
)
def test_azure_size_is_normalized(text: str, size: str) -> None:
    assert parse_vm_size(text) == size


@pytest.mark.parametrize("text", ["Standard_HB120rs_v3", " ", "x" * 5000])
def test_azure_size_without_a_table_is_refused_with_the_known_sizes(text: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_vm_size(text)

    assert str(caught.value) == (
        f"--azure-size {text[:40]!r}: the PCIe layout of this VM size is not known; must be of "
        "Standard_ND96asr_v4, Standard_ND96amsr_A100_v4, Standard_ND96isr_H100_v5; without the "
        "flag, the layout is derived from the GPUs"
    )
