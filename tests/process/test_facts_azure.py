from pathlib import Path

import pytest

from dranet_nri.facts.azure import azure_host
from dranet_nri.inventory import AzureHost
from tests.fakes.sysfs import FakeSysfs

AZURE = "7783-7084-3265-9085-8269-3286-77"


def with_gpus(root: Path, tag: str) -> None:
    host = FakeSysfs(root)
    host.tell("class/dmi/id/chassis_asset_tag", tag)
    host.pci("0001:00:00.0", ids="10de:2330:0000", base_class="03", root="pci0001:00")
    host.pci("0002:00:00.0", ids="1002:74b5:0000", base_class="12", root="pci0002:00")
    host.pci("0003:00:00.0", ids="1414:5353:0000", base_class="03", root="pci0003:00")
    host.pci("0101:00:00.0", ids="15b3:101e:0000", root="pci0101:00")
    host.pci("0104:00:00.0", ids="10de:22a3:0000", base_class="06", root="pci0104:00")


def test_an_azure_machine_tells_the_domains_of_its_gpus(tmp_path: Path) -> None:
    with_gpus(tmp_path, AZURE)

    assert azure_host(tmp_path) == AzureHost(frozenset({"0001", "0002"}))


@pytest.mark.parametrize("tag", ["", "Default string"])
def test_another_machine_is_none_unless_its_size_is_told(tmp_path: Path, tag: str) -> None:
    with_gpus(tmp_path, tag)

    assert azure_host(tmp_path) is None
    assert azure_host(tmp_path, "Standard_X") == AzureHost(
        frozenset({"0001", "0002"}), "Standard_X"
    )
