"""Facts of an Azure host, and the size of the machine."""

import json
from pathlib import Path

import pytest

from dra_shim.scheduling.inputs import read_inventory
from dranet_nri.cli import main
from dranet_nri.errors import InvalidValueError
from dranet_nri.facts.azure import azure_host
from dranet_nri.inventory import AzureHost
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


AZURE = "7783-7084-3265-9085-8269-3286-77"


def with_gpus(root: Path, tag: str) -> None:
    host = FakeSysfs(root)
    host.write("class/dmi/id/chassis_asset_tag", tag)
    host.pci("0001:00:00.0", ids="10de:2330:0000", base_class="03", root="pci0001:00")
    host.pci("0002:00:00.0", ids="1002:74b5:0000", base_class="12", root="pci0002:00")
    host.pci("0003:00:00.0", ids="1414:5353:0000", base_class="03", root="pci0003:00")
    host.pci("0101:00:00.0", ids="15b3:101e:0000", root="pci0101:00")
    host.pci("0104:00:00.0", ids="10de:22a3:0000", base_class="06", root="pci0104:00")


def test_azure_host_has_the_pci_domains_of_its_gpus(tmp_path: Path) -> None:
    with_gpus(tmp_path, AZURE)

    assert azure_host(tmp_path) == AzureHost(frozenset({"0001", "0002"}))


@pytest.mark.parametrize("tag", ["", "Default string"])
def test_other_machine_is_an_azure_host_only_with_a_given_size(tmp_path: Path, tag: str) -> None:
    with_gpus(tmp_path, tag)

    assert azure_host(tmp_path) is None
    assert azure_host(tmp_path, "Standard_X") == AzureHost(
        frozenset({"0001", "0002"}), "Standard_X"
    )


NIC = "pci-0105-00-00-0"  # links of the machine's own namespace are in the inventory as well


def with_nic(root: Path) -> None:
    """Show a NIC of an ND v4 whose GPUs are hidden."""
    host = FakeSysfs(root)
    host.write("class/dmi/id/chassis_asset_tag", AZURE)
    host.pci("0105:00:00.0", driver="mlx5_core", root="pci0105:00")


def test_azure_size_adds_gpu_domains_to_the_inventory(tmp_path: Path) -> None:
    with_nic(tmp_path)

    plain, placed = (
        next(
            device
            for device in read_inventory(size, sysfs_root=tmp_path)[0].devices
            if device.name == NIC
        )
        for size in ("", "standard_nd96asr_v4")
    )

    assert plain.attribute("azure.dra.net/gpuDomains") is None
    assert placed.attribute("azure.dra.net/gpuDomains") == "000b,000c"


def test_unknown_azure_size_is_refused_before_the_scan(tmp_path: Path) -> None:
    with pytest.raises(InvalidValueError, match="--azure-size 'Standard_X'"):
        read_inventory("Standard_X", sysfs_root=tmp_path)


def test_inventory_command_accepts_the_azure_size(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_nic(tmp_path)
    command = ("inventory", "--sysfs", str(tmp_path), "--output", "json", "--azure-size")

    assert main([*command, "Standard_ND96asr_v4"]) == 0
    devices = json.loads(capsys.readouterr().out)["devices"]
    assert main([*command, "Standard_X"]) == 1

    (attributes,) = (device["attributes"] for device in devices if device["name"] == NIC)
    assert attributes["azure.dra.net/gpuDomains"] == "000b,000c"
    assert "dranet-nri: --azure-size 'Standard_X': the PCIe layout" in capsys.readouterr().err
