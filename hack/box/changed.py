"""The tiers of hack/test that belong to the files changed since a commit.

Usage: changed.py [--base COMMIT] TIER...

The arguments name all tiers. The selected ones are printed, one a line; the reasons go to standard
error. Changed files are those that differ from COMMIT, by default from the commit where the branch
left main, and untracked ones. The longest entry of ROOMS that a file lies in decides. A file in
none selects every tier.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import PurePath
from typing import Final

EVERY: Final = "every tier"
MAIN: Final = ("origin/main", "main")
# Tests read the documents that say what the program can do.
_TABLE: Final = (
    (EVERY, ".ci pyproject.toml requirements hack/lib.sh hack/test"),
    (EVERY, "tests/capability.py tests/conftest.py tests/reporting.py"),
    ("check", ".gitattributes .gitignore CHANGELOG.md LICENSE"),
    ("check pure", "ARCHITECTURE.md README.md SECURITY.md manifests/docs"),
    ("check process", "Containerfile"),
    ("check", "hack/bench hack/check hack/demo hack/gen-protos hack/lock hack/prove"),
    ("check pure", "hack/cover hack/fuzz hack/golden tests/properties.py"),
    ("check", "hack/gen-reference hack/box/reference.py"),
    ("check cluster", "hack/release"),
    (
        "check process",
        "hack/box/changed.py hack/box/measure.py hack/box/tally.py hack/budgets.toml"
        " hack/tree_rules.py",
    ),
    ("check host vm cluster cluster-vm cluster-oldest process", "hack/box"),
    ("check vm", "hack/box/demo.py"),
    ("check process host vm cluster", "protos dranet_nri/_gen dra_shim/_gen"),
    # Values and rules
    (
        "check pure process kernel host vm cluster",
        "dranet_nri/__init__.py dranet_nri/errors.py dranet_nri/model dranet_nri/py.typed",
    ),
    ("check pure process host cluster", "dranet_nri/config"),
    ("check pure process kernel host vm", "dranet_nri/dhcp dranet_nri/plan dranet_nri/state"),
    ("check pure process kernel vm cluster", "dranet_nri/inventory"),
    # The kernel
    ("check pure process kernel host vm", "dranet_nri/facts dranet_nri/kernel dranet_nri/linux"),
    # Hooks of the runtime
    ("check process kernel host vm", "dranet_nri/attach dranet_nri/hooks"),
    ("check pure process host vm cluster", "dranet_nri/cdi dranet_nri/nri"),
    # Programs
    (
        "check pure process kernel host vm cluster",
        "dranet_nri/__main__.py dranet_nri/cli.py dranet_nri/commands dranet_nri/component"
        " dranet_nri/daemon dranet_nri/settings.py dranet_nri/telemetry",
    ),
    # The shim; the nodes of host and vm allocate with it
    (
        "check pure process host cluster",
        "dra_shim/__init__.py dra_shim/__main__.py dra_shim/cel dra_shim/checkpoint dra_shim/cli.py"
        " dra_shim/commands dra_shim/pool dra_shim/py.typed dra_shim/resourceapi"
        " dra_shim/scheduling dra_shim/settings",
    ),
    (
        "check pure process kernel cluster cluster-oldest",
        "dra_shim/daemon dra_shim/discovery dra_shim/kubeapi dra_shim/kubeletplugin"
        " dra_shim/migration dra_shim/prepare dra_shim/resourceslice dra_shim/status dra_shim/web",
    ),
    # `verify`: hack/prove runs it between two machines, the tier vm some of it
    ("check pure vm cluster-vm", "dra_shim/cloud dra_shim/kubectl dra_shim/verify"),
    # Decisions: prose that no test reads
    (
        "check",
        "dra_shim/DECISIONS.md dranet_nri/DECISIONS.md manifests/DECISIONS.md tests/DECISIONS.md",
    ),
    # Manifests; hack/box/demo.py claims an example
    ("check pure cluster cluster-vm", "manifests/base manifests/components manifests/overlays"),
    ("check pure cluster", "manifests/helm"),
    ("check pure process vm cluster cluster-vm", "manifests/examples"),
    ("check pure host", "manifests/node"),
    # Tests and what they share
    ("check pure", "tests/fuzz tests/golden"),
    ("check pure process", "tests/dra_shim tests/dranet_nri tests/manifests"),
    ("check", "tests/bench"),
    ("check process", "tests/tools"),
    ("check kernel host vm cluster cluster-vm cluster-oldest", "tests/system"),
    ("check kernel", "tests/system/kernel"),
    ("check kernel vm", "tests/system/contract"),
    ("check pure process kernel cluster", "tests/fakes"),
    ("check kernel host", "tests/unwritable.py"),
    ("check process host vm", "tests/prove"),
    ("check process host vm cluster cluster-vm cluster-oldest", "tests/box"),
    ("check host", "tests/system/host tests/system/host_crio"),
    ("check vm", "tests/system/vm tests/system/vm_pair"),
    ("check cluster cluster-vm cluster-oldest", "tests/system/cluster"),
    ("check cluster-oldest", "tests/system/cluster/oldest"),
    ("check cluster-vm", "tests/system/cluster_vm"),
)
ROOMS: Final = {room: tiers for tiers, rooms in _TABLE for room in rooms.split()}


def git(*arguments: str) -> list[str]:
    """Return the names that git prints, each followed by NUL."""
    ran = subprocess.run(("git", *arguments), check=True, capture_output=True, text=True)
    return ran.stdout.split("\0")[:-1]


def base() -> str:
    """Return the commit where this branch left the main branch."""
    for branch in MAIN:
        command = ("git", "merge-base", "HEAD", branch)
        found = subprocess.run(command, check=False, capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.strip()
    sys.exit(f"error: there is none of the branches {', '.join(MAIN)}\n       name a commit")


def changed_files(commit: str) -> list[str]:
    """Return the files that differ from the commit, deleted and untracked ones too."""
    differing = git("diff", "--name-only", "--no-renames", "-z", commit, "--")
    return sorted({*differing, *git("ls-files", "--others", "--exclude-standard", "-z")})


def room_of(file: str) -> str | None:
    """Return the longest entry of the table that the file lies in."""
    places = (file, *map(str, PurePath(file).parents))
    return next((place for place in places if place in ROOMS), None)


def selected(files: list[str], tiers: list[str]) -> dict[str, list[str]]:
    """Return the reasons that select each tier, the tiers in their order."""
    reasons: dict[str, list[str]] = {tier: [] for tier in tiers}
    for file in files:
        room = room_of(file)
        found = EVERY if room is None else ROOMS[room]
        reason = f"{file} (in no room of the table)" if room is None else file
        for tier in tiers if found == EVERY else found.split():
            reasons[tier].append(reason)
    return {tier: found for tier, found in reasons.items() if found}


def main() -> None:
    """Print the selected tiers, and why each is."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--base")
    parser.add_argument("tiers", nargs="+")
    arguments = parser.parse_args()
    files = changed_files(arguments.base or base())
    for tier, reason in selected(files, arguments.tiers).items():
        more = f" and {len(reason) - 1} more" if len(reason) > 1 else ""
        print(f"{tier}: {reason[0]}{more}", file=sys.stderr)
        print(tier)


if __name__ == "__main__":
    main()
