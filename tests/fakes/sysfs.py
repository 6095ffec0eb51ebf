"""A sysfs tree in a temporary directory, with the links and files of a real sysfs.

Only what is asked for exists: a missing file is missing here as it would be there.
"""

import os
from pathlib import Path


class FakeSysfs:
    """Builds devices below root, as /sys shows them."""

    def __init__(self, root: Path, numa_nodes: int = 1) -> None:
        """Make an empty tree with that many NUMA nodes."""
        self.root = root
        self._places: dict[tuple[str, str], Path] = {}
        for node in range(numa_nodes):
            (root / f"devices/system/node/node{node}").mkdir(parents=True)
        self._write(root / "devices/system/node/online", "0")

    def pci(
        self,
        address: str,
        *,
        driver: str = "igb",
        ids: str = "8086:10c9:0000",
        base_class: str = "02",
        root: str = "pci0000:00",
        numa: int = -1,
        physical: str = "",
        vf_limit: int = 0,
        vf_count: int = 0,
    ) -> None:
        """Add a PCI function.

        Args:
            address: "0000:8a:00.0".
            driver: bound kernel driver, "" for none.
            ids: "vendor:device:subsystem device", hex.
            base_class: two hex digits.
            root: the root complex; "a/b/pci0000:00" puts it deeper in the tree.
            numa: what the firmware says.
            physical: address of the PF, which must be there, if this is a VF.
            vf_limit: sriov_totalvfs; the file is there if it is not 0.
            vf_count: sriov_numvfs.
        """
        vendor, device, subsystem = (part.upper().zfill(8) for part in ids.split(":"))
        directory = self._device("pci", address, self.root / "devices" / root / address)
        alias = f"pci:v{vendor}d{device}sv00000000sd{subsystem}bc{base_class}sc00i00"
        self._write(directory / "modalias", alias)
        self._write(directory / "numa_node", str(numa))
        if driver:
            target = self.root / "bus/pci/drivers" / driver
            target.mkdir(parents=True, exist_ok=True)
            self._link(directory / "driver", target)
        if physical:
            self._link(directory / "physfn", self._places["pci", physical])
        if vf_limit:
            self._write(directory / "sriov_totalvfs", str(vf_limit))
            self._write(directory / "sriov_numvfs", str(vf_count))

    def child(self, bus: str, name: str, parent: tuple[str, str]) -> None:
        """Add a device below another: virtio below PCI, a subfunction on the auxiliary bus."""
        self._device(bus, name, self._places[parent] / name)

    def device(self, bus: str, name: str, path: str) -> None:
        """Add a device of any bus at a path below devices ("LNXSYSTM:00/VMBUS:00/<guid>")."""
        self._device(bus, name, self.root / "devices" / path / name)

    def net(
        self,
        name: str,
        parent: tuple[str, str] | None = None,
        *,
        mac: str = "",
        dev_port: int = 0,
        speed: int = -1,
    ) -> None:
        """Add a net device below its parent (bus, name), or a virtual one."""
        above = self._places[parent] if parent else self.root / "devices/virtual"
        directory = above / "net" / name
        self._class("net", name, directory)
        self._write(directory / "address", mac)
        self._write(directory / "dev_port", str(dev_port))
        self._write(directory / "speed", str(speed))
        if parent:
            self._link(directory / "device", above)

    def rdma(
        self,
        name: str,
        parent: tuple[str, str] | None = None,
        *,
        layers: tuple[str, ...] = ("InfiniBand",),
        gids: tuple[str, ...] = (),
        node_type: str = "1: CA",
        guid: str = "0c42:a103:0065:5a1e",
    ) -> None:
        """Add an RDMA device with one port for each link layer; gids are net device names."""
        above = self._places[parent] if parent else self.root / "devices/virtual"
        directory = above / "infiniband" / name
        self._class("infiniband", name, directory)
        self._write(directory / "node_type", node_type)
        self._write(directory / "node_guid", guid)
        if parent:
            self._link(directory / "device", above)
        for number, layer in enumerate(layers, start=1):
            port = directory / "ports" / str(number)
            self._write(port / "state", "4: ACTIVE")
            self._write(port / "rate", "200 Gb/sec (4X HDR)")
            self._write(port / "link_layer", layer)
            for index, netdev in enumerate(gids):
                self._write(port / f"gid_attrs/ndevs/{index}", netdev)

    def write(self, path: str, text: str) -> None:
        """Write text to the file at a path below the root."""
        self._write(self.root / path, text)

    def char_device(self, folder: str, name: str, number: str, rdma_device: str = "") -> None:
        """Add class/<folder>/<name> with its "major:minor" and the RDMA device it serves."""
        directory = self.root / "devices/virtual" / folder / name
        self._class(folder, name, directory)
        if number:
            self._write(directory / "dev", number)
        if rdma_device:
            self._write(directory / "ibdev", rdma_device)

    def _device(self, bus: str, name: str, directory: Path) -> Path:
        directory.mkdir(parents=True)
        subsystem = self.root / "bus" / bus
        (subsystem / "devices").mkdir(parents=True, exist_ok=True)
        self._link(directory / "subsystem", subsystem)
        self._link(subsystem / "devices" / name, directory)
        self._places[bus, name] = directory
        return directory

    def _class(self, kind: str, name: str, directory: Path) -> None:
        directory.mkdir(parents=True)
        (self.root / "class" / kind).mkdir(parents=True, exist_ok=True)
        self._link(self.root / "class" / kind / name, directory)

    def _link(self, path: Path, target: Path) -> None:
        # As kernfs does: up to the target's parent, even where the target lies above the link.
        path.symlink_to(Path(os.path.relpath(target.parent, path.parent)) / target.name)

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
