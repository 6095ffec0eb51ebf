"""Files for nodes beside the DaemonSet: each names its destination and parses there."""

import re
from pathlib import Path

import pytest

NODE = Path(__file__).parents[2] / "manifests" / "node"
RULES = sorted((NODE / "udev").iterdir())
# As rdma-core's own file calls it, whose name ours must have to be read instead (udev(7)).
MODES = {"NAME_FALLBACK", "NAME_KERNEL", "NAME_PCI", "NAME_GUID", "NAME_FIXED"}
MATCH = re.compile(r'(ACTION|SUBSYSTEM|KERNELS|PROGRAM|ENV\{\w+\})(==|!=|=)"([^"]+)"')


@pytest.mark.parametrize(
    "path", [*RULES, *NODE.glob("*/*.conf"), *NODE.glob("*/*.network")], ids=lambda path: path.name
)
def test_node_file_begins_with_its_path(path: Path) -> None:
    target = path.read_text().removeprefix("# ").partition(": ")[0]

    assert target.startswith("/etc/")
    assert Path(target).name == path.name


def rules(path: Path) -> list[list[tuple[str, str, str]]]:
    """Return the rules of a file, those that are commented out included, as udev splits them."""
    lines = [line.removeprefix("#") for line in path.read_text().splitlines()]
    written = [line for line in lines if line.startswith("ACTION")]
    parsed = [[MATCH.fullmatch(part) for part in line.split(", ")] for line in written]
    return [[(part[1], part[2], part[3]) for part in line if part] for line in parsed if all(line)]


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_udev_rules_match_added_devices(path: Path) -> None:
    written = re.findall(r"^#?ACTION", path.read_text(), re.MULTILINE)
    assert len(rules(path)) == len(written), "all can be read"
    for rule in rules(path):
        assert rule[0] in {("ACTION", "==", "add"), ("ACTION", "!=", "remove")}
        assert rule[1][0] == "SUBSYSTEM"


def test_rdma_devices_are_renamed_by_rdma_core() -> None:
    (path,) = (rule for rule in RULES if rule.name == "60-rdma-persistent-naming.rules")
    programs = [value for rule in rules(path) for key, _, value in rule if key == "PROGRAM"]

    assert len(programs) == 2
    for program, kernel, mode, *names in map(str.split, programs):
        assert (program, kernel) == ("rdma_rename", "%k")
        assert mode in MODES
        assert len(names) == (mode == "NAME_FIXED")
