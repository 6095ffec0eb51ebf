"""Builds under hack/ that are killed: no process goes on, no mount stays, the next run succeeds.

The build scripts are the real ones. Stand-ins take the place of the programs that do the work.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.box.waiting import wait_until

pytestmark = pytest.mark.process


HACK = Path(__file__).parents[2] / "hack"
STAND_IN = Path(__file__).with_name("build_stand_in")
STAND_INS = (
    *("apt-config", "apt-get", "chroot", "cyclonedx-py", "gcc", "go", "mmdebstrap", "mv", "pip"),
    "python",
)
SOURCE = "ROOT/src/linux/drivers/infiniband/sw/rxe"
DIRECTORIES = (
    SOURCE, "KERNEL/build", "ROOT/etc", "ROOT/proc", "ROOT/tmp", "ROOT/usr/lib/python3.13",
    "ROOT/usr/lib64", "ROOT/usr/sbin", "ROOT/work",
)  # fmt: skip

CACHED = f'source {HACK}/lib.sh; kept built "$BOX/$@"'
ENVIRONMENT = f'source {HACK}/lib.sh; VENV=$CACHE/built; locked built build_venv "$@"'
RENAME = "mv */building.built */built starts"
BEFORE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Build:
    """A kind of build: its command, and three moments of it, as build_stand_in knows them."""

    command: str
    moments: tuple[str, str, str]
    script: str = CACHED


BUILDS = {
    "image": Build(
        "make-image trixie etcd-server extract true /keys",
        ("mmdebstrap * starts", "mmdebstrap * mounted", RENAME),
    ),
    "foreign-image": Build(
        "make-foreign-image trixie arm64 python3",
        ("mmdebstrap * starts", "mmdebstrap * mounted", RENAME),
    ),
    "rxe": Build("make-rxe ROOT BIN/python", ("python * starts", "chroot *make* starts", RENAME)),
    "uml-kernel": Build(
        "uml/make-kernel ROOT /dev/null", ("chroot * starts", "chroot * ends", RENAME)
    ),
    "uml-modules": Build(
        "uml/make-modules ROOT KERNEL", ("chroot * starts", "chroot * ends", RENAME)
    ),
    "uml-module": Build(
        f"uml/make-module boxnic ROOT KERNEL /dev/null {SOURCE}",
        ("chroot * starts", "chroot * ends", RENAME),
    ),
    "kube": Build(
        "make-kube BIN/go ROOT v1.2.3 /nowhere ROOT",
        ("go list * starts", "go build * ends", RENAME),
    ),
    "crio": Build("make-crio BIN/go ROOT", ("go mod * starts", "gcc * ends", RENAME)),
    "helm": Build("make-helm BIN/go ROOT", ("go build * starts", "go build * ends", RENAME)),
    "site": Build("make-site ROOT BIN/python", ("python * starts", "ld-linux* ends", RENAME)),
    "oci-layer": Build(
        "make-oci-layer ROOT amd64 ROOT", ("python * starts", "python *oci.py* ends", RENAME)
    ),
    "oci": Build(
        "make-oci ROOT amd64 ROOT", ("ld-linux* starts", "python *oci.py image* ends", RENAME)
    ),
    "venv": Build(
        "BIN/python", ("python *venv* starts", "pip * starts", "pip * ends"), ENVIRONMENT
    ),
}
MOMENTS = ("early", "midway", "late")


@dataclass(frozen=True, slots=True)
class Started:
    """A build that waits at a moment: its first process, and a pipe that all of them hold open."""

    process: subprocess.Popen[bytes]
    pipe: int

    def wait(self) -> None:
        """Wait until the last process of the build ended."""
        assert select.select([self.pipe], [], [], BEFORE_SECONDS)[0], "a process goes on"
        os.close(self.pipe)
        assert self.process.wait(BEFORE_SECONDS) != 0


class Host:
    """A machine of its own as far as mounts go, with a cache in which one thing is built."""

    def __init__(self, directory: Path, namespaces: list[str], first_process: int) -> None:
        self._directory = directory
        self._cache = directory / "the cache" / "dranet-nri"
        self._enter = ["nsenter", "--target", str(first_process), *namespaces]
        self._mounts = Path(f"/proc/{first_process}/mounts")
        self._environment = os.environ | {
            "XDG_CACHE_HOME": str(self._cache.parent),
            "PATH": f"{directory}/BIN:{os.environ['PATH']}",
            "STOPPED": str(directory / "stopped"),
            "STOP_AT": "never",
        }

    def _command(self, build: Build) -> list[str]:
        arguments = build.command.split()
        for name in ("BIN", "KERNEL", "ROOT"):
            arguments = [word.replace(name, f"{self._directory}/{name}") for word in arguments]
        return ["bash", "-c", build.script, "-", *arguments]

    def start(self, build: Build, moment: str, terminal: int = subprocess.DEVNULL) -> Started:
        """Start a build, as the first process of the terminal if any, and wait for the moment."""
        # Whoever runs the tests below nohup ignores SIGHUP, and a shell cannot undo that.
        session = ["env", "--default-signal=HUP,INT"]
        session += [] if terminal == subprocess.DEVNULL else ["setsid", "--ctty"]
        pipe, held = os.pipe()
        process = subprocess.Popen(
            [*self._enter, *session, *self._command(build)],
            env=self._environment | {"STOP_AT": moment},
            stdin=terminal,
            pass_fds=[held],
        )
        os.close(held)
        stopped = self._directory / "stopped"
        wait_until(moment, lambda: stopped.exists() or process.poll() is not None)
        assert process.poll() is None, "the build ends before the moment"
        return Started(process, pipe)

    def run(self, *command: str) -> None:
        """Run a command to its end."""
        subprocess.run(
            [*self._enter, *command], env=self._environment, stdin=subprocess.DEVNULL, check=True
        )

    def build(self, build: Build) -> None:
        """Run a build to its end; what it leaves is the finished thing alone."""
        self.run(*self._command(build))
        assert (self._cache / "built").exists()
        assert not list(self._cache.glob("building.*"))

    def mounts(self) -> list[str]:
        """Return the mounts below the cache."""
        escaped = str(self._cache).replace(" ", "\\040")
        return [line for line in self._mounts.read_text().splitlines() if escaped in line]

    def left_by_older_checkout(self) -> None:
        """Leave what a killed build used to leave: mounts, one below the other."""
        proc = self._cache / "building.built" / "proc"
        make = 'mkdir -p "$1" && mount -t tmpfs left "$1"'
        for directory in (proc, proc / "sys"):
            self.run("sh", "-c", make, "-", str(directory))


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """Return a host with stand-ins, and with what builds are made from."""
    (tmp_path / "BIN").mkdir()
    for name in STAND_INS:
        (tmp_path / "BIN" / name).symlink_to(STAND_IN)
    for directory in DIRECTORIES:
        (tmp_path / directory).mkdir(parents=True)
    root = tmp_path / "ROOT"
    (root / "etc" / "box-versions").write_text("kernel 6.12\n")
    (root / "usr/lib64/ld-linux-x86-64.so.2").symlink_to(STAND_IN)
    (root / "usr/sbin/ldconfig").symlink_to("/bin/true")
    namespaces = ["--mount"]
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if os.geteuid() != 0:
        namespaces += ["--user", "--preserve-credentials"]
        unshare += ["--user", "--map-root-user"]
    with subprocess.Popen(
        [*unshare, "sh", "-c", "echo; read end"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield Host(tmp_path, namespaces, process.pid)
        process.kill()


@pytest.mark.parametrize("number", range(3), ids=MOMENTS)
@pytest.mark.parametrize(
    ("kind", "signum"),
    [*((kind, signal.SIGKILL) for kind in BUILDS), ("image", signal.SIGTERM)],
    ids=[*BUILDS, "image-terminated"],
)
def test_killed_build_leaves_nothing_and_the_next_run_succeeds(
    host: Host, kind: str, signum: signal.Signals, number: int
) -> None:
    build = BUILDS[kind]
    started = host.start(build, build.moments[number])
    started.process.send_signal(signum)
    started.wait()
    assert host.mounts() == []
    host.build(build)


@pytest.mark.parametrize("number", range(3), ids=MOMENTS)
@pytest.mark.parametrize("lost", [False, True], ids=["interrupted", "lost"])
def test_build_ends_completely_with_its_terminal(host: Host, number: int, *, lost: bool) -> None:
    build = BUILDS["image"]
    terminal, its_end = pty.openpty()
    started = host.start(build, build.moments[number], its_end)
    os.close(its_end)
    if not lost:
        os.write(terminal, b"\x03")
        started.wait()
    os.close(terminal)
    if lost:
        started.wait()
    assert host.mounts() == []
    host.build(build)


def test_leftover_mounts_are_removed(host: Host) -> None:
    host.left_by_older_checkout()
    assert len(host.mounts()) == 2
    host.build(BUILDS["image"])
    assert host.mounts() == []
