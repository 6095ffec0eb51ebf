"""Demonstration of attach and restore in the test machine. hack/demo runs it.

Kernel, containerd, plugin and claims (manifests/examples/two-nics) are real. The machine provides
SR-IOV NICs on two NUMA nodes without hardware.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.box.claims import release_all
from tests.box.containerd import Containerd
from tests.box.cri import ContainerSpec, Cri, CriError, Pod
from tests.box.nics import dress_functions, host_state, make_functions, settled
from tests.box.plugin import Plugin
from tests.box.runtime import Options
from tests.box.waiting import wait_until

EXAMPLE = Path("/repo/manifests/examples/two-nics")
STARTED = time.monotonic()
BOLD, PLAIN = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")


def chapter(title: str, *lines: str) -> None:
    """Print a heading with the elapsed time, then its explanation."""
    print(f"\n{BOLD}[{time.monotonic() - STARTED:4.0f}s] {title}{PLAIN}", flush=True)
    for line in lines:
        print(f"       {line}", flush=True)


def show(text: str) -> None:
    """Print the output of a program, indented."""
    print("\n".join(f"    | {line}" for line in text.rstrip().splitlines()), flush=True)


def run(*command: str) -> str:
    """Print a command, run it, then print and return its output."""
    print(f"    $ {' '.join(command)}", flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    show(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with {done.returncode}")
    return done.stdout


def allocate(uid: str, name: str) -> tuple[str, ...]:
    """Allocate the claim of the example to a pod; return the CDI ids for its containers."""
    command = (
        *("dra-shim", "allocate", "--claim", str(EXAMPLE / "claim.yaml")),
        *("--class", str(EXAMPLE / "class.yaml"), "--node", "box"),
        *("--pod", uid, "--pod-name", f"default/{name}", "--container", "main=fast"),
    )
    run(*command)
    # A second run prints the same, because allocating is idempotent.
    again = (*command, "--output", "json")
    printed = subprocess.run(again, capture_output=True, text=True, check=True).stdout
    return tuple(cdi_device["id"] for cdi_device in json.loads(printed)["claims"][0]["cdi"])


def show_pod(cri: Cri, container: str) -> None:
    """Print the interfaces and metadata that are visible in a container."""
    show(cri.exec(container, "/bin/ip", "addr").stdout)
    show(cri.exec(container, "/bin/sh", "-c", "ip route; env | grep DRA_NET").stdout)
    files = cri.exec(container, "/bin/sh", "-c", "cat $(find /var/run/kubernetes.io -type f)")
    document = json.loads(files.stdout.splitlines()[0])
    devices = document["requests"][0]["devices"]
    show(json.dumps([device["networkData"] for device in devices], indent=1))


def end(cri: Cri, pod: Pod) -> None:
    """Delete the pod and release its claim."""
    print(f"    $ crictl stopp/rmp {pod.name}", flush=True)
    cri.stop_pod(pod.sandbox_id)
    cri.remove_pod(pod.sandbox_id)
    run("dra-shim", "release", "--pod", pod.uid)


def attach_and_return(cri: Cri) -> None:
    """Run a pod with two NICs of one NUMA node, and stop it."""
    chapter(
        "A claim: two virtual functions of one NUMA node, an MTU, a route",
        "dra-shim allocates the devices and records the pod that gets them. In a cluster, the",
        "scheduler allocates and the kubelet calls dra-shim. Here the claim comes from a file.",
    )
    run("cat", str(EXAMPLE / "claim.yaml"))
    run("dra-shim", "validate", str(EXAMPLE / "claim.yaml"), str(EXAMPLE / "class.yaml"))
    ids = allocate("uid-train", "train")
    chapter(
        "The pod starts",
        "containerd calls the plugin through NRI when the sandbox exists. It moves the NICs.",
    )
    pod = cri.run_pod("train", uid="uid-train")
    container = cri.run_container(pod, spec=ContainerSpec(cdi_devices=ids))
    print("    inside the container:", flush=True)
    show_pod(cri, container)
    print("    on the host, without the two NICs:", flush=True)
    run("ip", "-br", "link")
    run("dranet-nri", "status")
    chapter("The pod ends; its NICs return to the host")
    end(cri, pod)


def wait_at_the_gate(cri: Cri, plugin: Plugin) -> None:
    """Show that no container is created without its NICs while the plugin is stopped."""
    chapter(
        "A pod starts while the plugin is stopped",
        "The runtime starts the sandbox without the plugin. But no CDI spec defines the claim's",
        "CDI device yet, so the runtime refuses to create the container.",
    )
    plugin.stop()
    ids = allocate("uid-early", "early")
    pod = cri.run_pod("early", uid="uid-early")
    try:
        cri.create_container(pod, spec=ContainerSpec(cdi_devices=ids))
    except CriError as error:
        show(f"the container waits: {error.details}")
    else:
        raise SystemExit("the container was created without its NICs")
    chapter("The plugin starts again", "It attaches the NICs of the pod and opens the gate.")
    plugin.start()
    started: list[str] = []
    wait_until("the container to be created", lambda: try_container(cri, pod, ids, started), 240)
    show("the container runs:")
    show(cri.exec(started[0], "/bin/ip", "-o", "link").stdout)
    end(cri, pod)


def try_container(cri: Cri, pod: Pod, ids: tuple[str, ...], started: list[str]) -> bool:
    """Create the container, as the kubelet does repeatedly; return whether it runs."""
    try:
        started.append(cri.run_container_once(pod, spec=ContainerSpec(cdi_devices=ids)))
    except CriError:
        return False
    return True


@contextmanager
def running_node() -> Iterator[tuple[Cri, Plugin]]:
    """Start containerd and the plugin, with NICs on the host; end both later.

    The virtual functions end with the machine: the kernel takes a second to remove those of a NIC.
    """
    with ExitStack() as stack:
        runtime = Containerd()
        runtime.start(Options(request_timeout_s=30))
        stack.callback(runtime.stop)
        functions = make_functions()
        dress_functions(functions)
        settled()
        plugin = Plugin()
        plugin.start()
        stack.callback(release_all)
        stack.callback(plugin.stop)
        cri = stack.enter_context(Cri())
        stack.callback(cri.remove_all)
        yield cri, plugin


def main() -> None:
    """Run all chapters; exit with an error if one of them fails."""
    chapter("A node: eight SR-IOV NICs on two NUMA nodes, containerd, no cluster")
    with running_node() as (cri, plugin):
        run("dranet-nri", "inventory")
        warm = cri.run_pod("warm-up")  # makes the runtime's own bridge
        cri.stop_pod(warm.sandbox_id)
        cri.remove_pod(warm.sandbox_id)
        before = host_state()
        attach_and_return(cri)
        wait_at_the_gate(cri, plugin)
        chapter("The host after the pods")
        run("ip", "-br", "addr")
        wait_until("the state of the host to be as before", lambda: host_state() == before, 60)
        show("links, addresses, routes, rules and neighbours are the same as before")
    chapter("Done")


if __name__ == "__main__":
    main()
