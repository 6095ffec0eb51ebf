"""The main job, told step by step inside the node in a box. hack/demo runs it.

Everything is real but the hardware, which QEMU emulates: Debian's kernel, SR-IOV NICs on two NUMA
nodes, containerd, the plugin, and claims from manifests/examples/two-nics.
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
from tests.box.nics import dress_functions, host_state, make_functions, remove_functions, settled
from tests.box.plugin import Plugin
from tests.box.runtime import Options
from tests.box.waiting import wait_until

EXAMPLE = Path("/repo/manifests/examples/two-nics")
STARTED = time.monotonic()
BOLD, PLAIN = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")


def chapter(title: str, *lines: str) -> None:
    """Print a heading, with the time, and what it is about."""
    print(f"\n{BOLD}[{time.monotonic() - STARTED:4.0f}s] {title}{PLAIN}", flush=True)
    for line in lines:
        print(f"       {line}", flush=True)


def show(text: str) -> None:
    """Print what a program printed."""
    print("\n".join(f"    | {line}" for line in text.rstrip().splitlines()), flush=True)


def run(*command: str) -> str:
    """Show a command, run it, show and return what it printed."""
    print(f"    $ {' '.join(command)}", flush=True)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    show(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(f"{command[0]} failed with {done.returncode}")
    return done.stdout


def allocate(uid: str, name: str) -> tuple[str, ...]:
    """Allocate the example's claim to a pod; return the CDI ids its containers must carry."""
    command = (
        *("dra-shim", "allocate", "--claim", str(EXAMPLE / "claim.yaml")),
        *("--class", str(EXAMPLE / "class.yaml"), "--node", "box"),
        *("--pod", uid, "--pod-name", f"default/{name}", "--container", "main=fast"),
    )
    run(*command)
    # Asked again, it says the same: allocating is idempotent.
    again = (*command, "--output", "json")
    printed = subprocess.run(again, capture_output=True, text=True, check=True).stdout
    return tuple(cdi_device["id"] for cdi_device in json.loads(printed)["claims"][0]["cdi"])


def show_pod(cri: Cri, container: str) -> None:
    """Show the pod's interfaces and metadata as its container sees them."""
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
    """Run a pod with two NICs of one NUMA node, and take it down again."""
    chapter(
        "A claim: two virtual functions of one NUMA node, an MTU, a route",
        "dra-shim picks the devices and writes down which pod gets them. In a cluster the",
        "scheduler picks and kubelet asks; here the claim comes from a file.",
    )
    run("cat", str(EXAMPLE / "claim.yaml"))
    run("dra-shim", "validate", str(EXAMPLE / "claim.yaml"), str(EXAMPLE / "class.yaml"))
    ids = allocate("uid-train", "train")
    chapter(
        "The pod starts",
        "containerd calls the plugin through NRI when the sandbox exists; the NICs move in.",
    )
    pod = cri.run_pod("train", uid="uid-train")
    container = cri.run_container(pod, spec=ContainerSpec(cdi_devices=ids))
    print("    inside the container:", flush=True)
    show_pod(cri, container)
    print("    on the host the two are gone:", flush=True)
    run("ip", "-br", "link")
    run("dranet-nri", "status")
    chapter("The pod ends; its NICs come home")
    end(cri, pod)


def wait_at_the_gate(cri: Cri, plugin: Plugin) -> None:
    """Show that a container waits for its NICs while the plugin is away."""
    chapter(
        "The plugin is stopped, and the next pod comes",
        "A missing plugin counts as success for the runtime: the sandbox starts. But the claim's",
        "CDI device has no spec yet, so the runtime itself refuses to create the container.",
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
    chapter("The plugin is back", "It finds the pod, attaches its NICs and opens the gate.")
    plugin.start()
    started: list[str] = []
    wait_until("the container to be let in", lambda: try_container(cri, pod, ids, started), 240)
    show("the container runs:")
    show(cri.exec(started[0], "/bin/ip", "-o", "link").stdout)
    end(cri, pod)


def try_container(cri: Cri, pod: Pod, ids: tuple[str, ...], started: list[str]) -> bool:
    """Create the container as kubelet does, again and again; whether it runs now."""
    try:
        started.append(cri.run_container_once(pod, spec=ContainerSpec(cdi_devices=ids)))
    except CriError:
        return False
    return True


@contextmanager
def running_node() -> Iterator[tuple[Cri, Plugin]]:
    """Start containerd and the plugin, with NICs on the host; end and remove all of it later."""
    with ExitStack() as stack:
        runtime = Containerd()
        runtime.start(Options(request_timeout_s=30))
        stack.callback(runtime.stop)
        functions = make_functions()
        stack.callback(remove_functions)
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
    """Tell the story; exit with an error if any part of it is not true."""
    chapter("A node: eight SR-IOV NICs on two NUMA nodes, containerd, no cluster")
    with running_node() as (cri, plugin):
        run("dranet-nri", "inventory")
        warm = cri.run_pod("warm-up")  # makes the runtime's own bridge
        cri.stop_pod(warm.sandbox_id)
        cri.remove_pod(warm.sandbox_id)
        before = host_state()
        attach_and_return(cri)
        wait_at_the_gate(cri, plugin)
        chapter("The host, as it was: addresses, routes, rules, MTU, names, altnames")
        run("ip", "-br", "addr")
        wait_until("the host to be as it was", lambda: host_state() == before, 60)
        show("links, addresses, routes, rules and neighbours are the same as before")
    chapter("Done")


if __name__ == "__main__":
    main()
