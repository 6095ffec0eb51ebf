"""`dra-shim explain` from the command line: the decision, its reasons, and all checks."""

import asyncio
import json
import ssl
from pathlib import Path

import pytest
import yaml

from dra_shim.cli import main
from dra_shim.kubeapi import CLAIM, CLASS, SLICE, TEMPLATE, ApiClient, HttpClient, RestConfig
from tests.dra_shim.commands.explained_nodes import a4_highgpu, nd_h100
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.called import Ended, called
from tests.fakes.http import served

pytestmark = pytest.mark.process

CLASSES = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: dranet}
spec: {selectors: [{cel: {expression: device.driver == "dra.net"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.nvidia.com}
spec: {selectors: [{cel: {expression: device.driver == "gpu.nvidia.com"}}]}
"""
PAIR = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair, namespace: ml}
spec:
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}
      - {name: nic, exactly: {deviceClassName: dranet}}
      constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]
      config:
      - requests: [nic]
        opaque: {driver: dra.net, parameters: {interface: {mtu: 4000}}}
"""
ONE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: one}
spec:
  devices:
    requests:
    - name: nic
      exactly:
        deviceClassName: dranet
        selectors: [{cel: {expression: 'device.attributes["dra.net"].numaNode == 1'}}]
"""
SHARED = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: s}
spec:
  driver: dra.net
  nodeName: n1
  pool: {name: n1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: macvlan
    allowMultipleAllocations: true
    capacity: {bandwidth: {value: 100G, requestPolicy: {default: 10G}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: two}
spec:
  devices:
    requests:
    - {name: part, exactly: {deviceClassName: dranet}}
    - {name: look, exactly: {deviceClassName: dranet, adminAccess: true}}
"""
TAKEN = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s, namespace: ml}
spec: {}
status:
  allocation:
    devices:
      results: [{request: nic, driver: dra.net, pool: gke-a4-0, device: %s}]
"""
PART = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %s}
spec:
  devices:
    requests:
    - name: nic
      exactly: {deviceClassName: dranet, capacity: {requests: {dra.net/bandwidth: 40G}}}
"""
PART_STATUS = """
status:
  allocation:
    devices:
      results:
      - {request: nic, driver: dra.net, pool: n1, device: hca, shareID: 5e0f,
         consumedCapacity: {dra.net/bandwidth: 40G}}
"""
SELF = "{devices: {requests: [{name: nic, exactly: {deviceClassName: dranet}}]}}"
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: dev, cluster: {server: "%s"}}]
contexts: [{name: dev, context: {cluster: dev}}]
current-context: dev
"""
INVENTORY = {
    "devices": [
        {"name": f"eth{i}", "attributes": {"dra.net/ifName": f"eth{i}", "dra.net/numaNode": i}}
        for i in range(3)
    ],
    "excluded": [{"name": "eth9", "reason": "carries the default route"}],
}


class Shim:
    """Runs the program in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for name, text in {
            "classes.yaml": CLASSES,
            "pair.yaml": PAIR,
            "one.yaml": ONE,
            "shared.yaml": SHARED,
            "a4.json": a4_highgpu(),
            "nd.json": nd_h100(),
            "inventory.json": json.dumps(INVENTORY),
        }.items():
            (directory / name).write_text(text, "utf-8")

    def run(self, command: str, *arguments: str) -> Ended:
        directories = ("--class", "classes.yaml", "--state-dir", "state", "--run-dir", "run")
        return called(main, command, *arguments, *directories, cwd=self.directory)

    def explain(self, *arguments: str) -> Ended:
        return self.run("explain", *arguments)


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    return Shim(tmp_path)


def test_decision_and_chosen_devices_are_printed_first(shim: Shim) -> None:
    done = shim.explain("pair.yaml", "--slices", "a4.json")

    assert (done.returncode, done.stderr) == (0, "")
    assert "PCIe root" not in done.stdout
    lines = done.stdout.splitlines()
    match = 'matchAttribute resource.kubernetes.io/pcieRoot: other devices have "pci0000:10"'
    assert lines == [
        "decision: the claims can be met",
        "  claim ml/pair: request gpu: gpu.nvidia.com/gke-a4-0/gpu-0",
        "  claim ml/pair: request nic: dra.net/gke-a4-0/pci-0000-11-00-0",
        "claim ml/pair: request gpu: 1 device of class gpu.nvidia.com",
        '  8 devices: selector of class gpu.nvidia.com: device.driver == "gpu.nvidia.com"',
        f"  6 devices: {match}",
        "  1 device (gpu-1): not needed",
        "claim ml/pair: request nic: 1 device of class dranet",
        '  8 devices: selector of class dranet: device.driver == "dra.net"',
        f"  6 devices: {match}",
        "  1 device (pci-0000-21-00-0): not needed",
    ]


def test_verbose_output_shows_every_check(shim: Shim) -> None:
    done = shim.explain("--claim", "pair.yaml", "--slices", "a4.json", "--verbose")

    assert done.returncode == 0
    lines = [line[2:] for line in done.stdout.partition("checks:\n")[2].splitlines()]
    assert lines[:6] == [
        "claim ml/pair: request gpu: 1 device of class gpu.nvidia.com",
        "  device dra.net/gke-a4-0/pci-0000-11-00-0",
        "    failed  availability: given to claim ml/pair request nic",
        "    failed  selector of class gpu.nvidia.com: "
        'device.driver == "gpu.nvidia.com"  [driver is',
        '      "dra.net"]',
        '    passed  matchAttribute resource.kubernetes.io/pcieRoot: is "pci0000:10"',
    ]
    assert "  device gpu.nvidia.com/gke-a4-0/gpu-0: chosen" in lines


def test_output_has_at_most_100_columns(shim: Shim) -> None:
    done = shim.explain("pair.yaml", "--slices", "nd.json", "--verbose")

    assert max(map(len, done.stdout.splitlines())) <= 100


def test_unsatisfiable_claim_shows_the_differing_values_and_exits_with_1(shim: Shim) -> None:
    done = shim.explain("--claim", "pair.yaml", "--slices", "nd.json", "--verbose")

    assert (done.returncode, done.stderr) == (1, "")
    match = "matchAttribute resource.kubernetes.io/pcieRoot"
    text = " ".join(done.stdout.split())
    assert f'failed {match}: is "pci0101:00"; too few other candidates have it too' in text
    assert f"passed {match}" not in text
    assert f"8 devices: {match}: too few other candidates have it too" in text
    assert text.startswith("decision: the claims cannot be met claim ml/pair: request gpu: needs 1")
    assert "adjacent devices can have different PCIe roots" in text
    assert "match resource.kubernetes.io/numaNode instead claim ml/pair" in text


def test_json_output_has_the_decision_and_all_checks(shim: Shim) -> None:
    done = shim.explain("--claim", "pair.yaml", "--slices", "a4.json", "--output", "json")

    found = json.loads(done.stdout)
    assert (found["allocatable"], found["reasons"]) == (True, [])
    assert found["decision"][1] == {
        "claim": "ml/pair", "request": "nic", "driver": "dra.net", "pool": "gke-a4-0",
        "device": "pci-0000-11-00-0", "adminAccess": False, "shareID": "", "consumedCapacity": {},
        "config": {"interface": {"mtu": 4000}},
    }  # fmt: skip
    assert [request["request"] for request in found["requests"]] == ["gpu", "nic"]
    gpu = next(device for device in found["requests"][0]["devices"] if device["device"] == "gpu-0")
    assert gpu["chosen"]
    assert gpu["checks"][2] == {
        "check": "matchAttribute resource.kubernetes.io/pcieRoot",
        "outcome": "passed",
        "text": 'is "pci0000:10"',
        "values": {"resource.kubernetes.io/pcieRoot": '"pci0000:10"'},
    }


def test_device_of_another_claim_is_not_chosen_and_its_holder_is_named(shim: Shim) -> None:
    (shim.directory / "others.yaml").write_text(TAKEN % ("other", "pci-0000-11-00-0"))

    alone = shim.explain("--claim", "pair.yaml", "--slices", "a4.json")
    done = shim.explain("--claim", "pair.yaml", "--slices", "a4.json", "--claims", "others.yaml")

    first = "dra.net/gke-a4-0/pci-0000-11-00-0"
    assert f"nic: {first}" in alone.stdout
    assert f"nic: {first}" not in done.stdout
    assert "1 device (pci-0000-11-00-0): availability: in use by claim ml/other" in done.stdout


def test_allocated_claim_does_not_conflict_with_itself(shim: Shim) -> None:
    taken = TAKEN % ("one", "pci-0000-11-00-0")
    (shim.directory / "all.yaml").write_text(taken)
    (shim.directory / "mine.yaml").write_text(taken.replace("{}", SELF))

    done = shim.explain("--claim", "mine.yaml", "--slices", "a4.json", "--claims", "all.yaml")

    assert "claim ml/one: request nic: dra.net/gke-a4-0/pci-0000-11-00-0" in done.stdout


def test_failing_selector_is_an_error_with_the_remedy(shim: Shim) -> None:
    slices = a4_highgpu().replace("dra.net/numaNode", "dra.net/numa")
    (shim.directory / "a4.json").write_text(slices)

    done = shim.explain("--claim", "one.yaml", "--slices", "a4.json")

    assert done.returncode == 1
    assert "  8 devices: error: selector of the request: " in done.stdout
    assert 'the device has no "numaNode"; guard it' in " ".join(done.stdout.split())


def test_failing_selector_is_no_error_if_the_claim_is_satisfied(shim: Shim) -> None:
    done = shim.explain("one.yaml", "--slices", "a4.json", "--verbose")

    assert done.returncode == 0
    assert "failed  selector of the request: " in done.stdout
    assert "error" not in done.stdout


def test_decision_shows_shares_and_admin_access(shim: Shim) -> None:
    text = shim.explain("--claim", "shared.yaml", "--slices", "shared.yaml")
    found = json.loads(
        shim.explain("--claim", "shared.yaml", "--slices", "shared.yaml", "--output", "json").stdout
    )

    assert text.stdout.splitlines()[1:3] == [
        "  claim default/two: request part: dra.net/n1/macvlan, shared: bandwidth 10G",
        "  claim default/two: request look: dra.net/n1/macvlan, adminAccess: it is not moved",
    ]
    first, second = found["decision"]
    assert len(first["shareID"]) == 36
    assert first["consumedCapacity"] == {"bandwidth": "10G"}
    assert len({first["shareID"], second["shareID"]}) == 2
    assert (second["adminAccess"], second["consumedCapacity"]) == (True, {"bandwidth": "10G"})
    assert second["config"] is None


def test_inventory_shows_holders_and_unpublished_devices(shim: Shim) -> None:
    allocated = shim.run("allocate", "--claim", "one.yaml", "--pod", "p1", "--inventory",
                         "inventory.json", "--node", "n1")  # fmt: skip
    before = sorted(path.name for path in shim.directory.rglob("*"))

    done = shim.explain("--claim", "one.yaml", "--inventory", "inventory.json", "--node", "n1")

    assert allocated.returncode == 0, allocated.stderr
    assert done.returncode == 1
    assert "  1 device (eth1): availability: in use by claim" in done.stdout
    assert "  1 device (eth9): not published: carries the default route" in done.stdout
    assert sorted(path.name for path in shim.directory.rglob("*")) == before


def test_share_in_a_record_and_in_a_claim_is_counted_once(shim: Shim) -> None:
    hca = {"name": "hca", "rdmaDevices": ["mlx5_0"],
           "attributes": {"dra.net/ifName": "eth0", "dra.net/linkSpeed": 100_000}}  # fmt: skip
    (shim.directory / "hca.json").write_text(json.dumps({"devices": [hca]}))
    for name in ("first", "second"):
        (shim.directory / f"{name}.yaml").write_text(PART % name)
    for name, other in (("same", "first"), ("foreign", "third")):
        (shim.directory / f"{name}.yaml").write_text(PART % other + PART_STATUS)
    node = ("--inventory", "hca.json", "--node", "n1", "--shared", "true")

    allocated = shim.run("allocate", "--claim", "first.yaml", "--pod", "p1", *node)
    same = shim.explain("--claim", "second.yaml", "--claims", "same.yaml", *node)
    foreign = shim.explain("--claim", "second.yaml", "--claims", "foreign.yaml", *node)

    assert allocated.returncode == 0, allocated.stderr
    assert same.returncode == 0, same.stdout
    assert "capacity dra.net/bandwidth: needs 40G, 20G is left" in foreign.stdout


def test_inventory_replaces_the_slices_of_our_driver(shim: Shim) -> None:
    done = shim.explain("--claim", "one.yaml", "--slices", "a4.json", "--inventory",
                        "inventory.json", "--output", "json")  # fmt: skip

    found = json.loads(done.stdout)
    assert {(device["driver"], device["pool"]) for device in found["requests"][0]["devices"]} == {
        ("dra.net", "gke-a4-0"), ("gpu.nvidia.com", "gke-a4-0"),
    }  # fmt: skip
    assert found["decision"][0]["device"] == "eth1"


def test_explain_writes_no_files_without_a_state_directory(shim: Shim) -> None:
    before = sorted(path.name for path in shim.directory.rglob("*"))

    done = shim.explain("--claim", "one.yaml", "--inventory", "inventory.json")

    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in shim.directory.rglob("*")) == before


def test_invalid_merged_configuration_makes_the_claim_unsatisfiable(shim: Shim) -> None:
    entry = "    - opaque: {driver: dra.net, parameters: {interface: %s}}\n"
    entries = entry % "{mtu: 1000}" + entry % "{addresses: ['fd00::1/64']}"
    (shim.directory / "bad.yaml").write_text(f"{ONE}    config:\n{entries}")

    done = shim.explain("--claim", "bad.yaml", "--inventory", "inventory.json")

    assert done.returncode == 1
    head, line, *_ = done.stdout.partition("decision: ")[2].splitlines()
    assert head == "the claims cannot be met"
    assert line.startswith("  claim default/one: merged configuration of request nic.interface.mtu")


JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec:
  template:
    spec:
      containers: [{name: main, resources: {claims: [{name: net}]}}]
      resourceClaims: [{name: net, resourceClaimTemplateName: %s}]
"""


def test_job_is_explained_by_the_claims_of_its_pod(shim: Shim) -> None:
    (shim.directory / "job.yaml").write_text(JOB % "pair")

    done = shim.explain("job.yaml", "pair.yaml", "--slices", "a4.json")

    assert done.stdout.startswith("decision: Job ml/train: the claims can be met\n")
    assert "  claim ml/pair: request nic: dra.net/gke-a4-0/pci-0000-11-00-0" in done.stdout


def test_each_workload_of_a_directory_is_explained(shim: Shim) -> None:
    jobs = shim.directory / "jobs"
    jobs.mkdir()
    for name in ("train", "eval"):
        (jobs / f"{name}.yaml").write_text((JOB % "pair").replace("train", name))
    (jobs / "pair.yml").write_text(PAIR)

    text = shim.explain("jobs", "--slices", "a4.json")
    done = shim.explain("jobs", "--slices", "a4.json", "--output", "json")

    decisions = [line for line in text.stdout.splitlines() if line.startswith("decision")]
    assert decisions == [
        "decision: Job ml/eval: the claims can be met",
        "decision: Job ml/train: the claims can be met",
    ]
    items = json.loads(done.stdout)["items"]
    assert [item["workload"] for item in items] == ["Job ml/eval", "Job ml/train"]


def test_missing_template_is_reported_with_its_name(shim: Shim) -> None:
    (shim.directory / "job.yaml").write_text(JOB % "pear")

    done = shim.explain("job.yaml", "pair.yaml", "--slices", "a4.json")

    assert done.returncode == 1
    assert done.stderr == (
        "dra-shim: Job ml/train: resourceClaims net: no ResourceClaimTemplate ml/pear (did you "
        'mean "ml/pair"?); correct the name, create it, or add its file\n'
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILE: none is given; name the manifests"),
        (["--claim", "classes.yaml"], "no ResourceClaim, ResourceClaimTemplate or pod with"),
        (["--claim", "one.yaml", "--slices", "a4.json", "--slices", "nd.json"],
         "the slices are for several nodes; choose with --node: aks-gpu-0, gke-a4-0"),
        (["--claim", "one.yaml", "--slices", "a4.json", "--node", "gke-a4-1"],
         '--node gke-a4-1: no slice is for it (did you mean "gke-a4-0"?); there are gke-a4-0'),
        (["--claim", "one.yaml", "--slices", "missing.yaml"],
         "missing.yaml: cannot be read: No such file or directory; check the path"),
        (["--claim", "one.yaml", "--inventory", "inventory.json", "--azure-size", "Standard_X"],
         "--azure-size Standard_X: not possible with --inventory; give it to the 'dranet-nri"),
    ],
    ids=["nothing", "no-claim", "several-nodes", "other-node", "missing", "size-and-inventory"],
)  # fmt: skip
def test_invalid_file_arguments_are_reported_in_one_line(
    shim: Shim, arguments: list[str], message: str
) -> None:
    done = shim.explain(*arguments)

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"dra-shim: {message}")
    assert done.stderr.count("\n") == 1


def test_slices_claims_templates_and_classes_are_read_from_the_cluster(shim: Shim) -> None:
    slices = json.loads(a4_highgpu().replace("v1beta1", "v1"))["items"]
    for item in slices:
        for device in item["spec"]["devices"]:
            device |= device.pop("basic")
    others = yaml.safe_load_all(TAKEN % ("other", "pci-0000-11-00-0"))
    objects = [
        *((SLICE, document) for document in slices),
        *((CLAIM, document) for document in others),
        *((TEMPLATE, document) for document in yaml.safe_load_all(PAIR)),
        *((CLASS, document) for document in yaml.safe_load_all(CLASSES)),
    ]
    (shim.directory / "job.yaml").write_text(JOB % "pair")

    async def scenario() -> Ended:
        async with served(FakeApiServer()) as url:
            api = ApiClient(HttpClient(RestConfig(url, ssl.create_default_context())))
            for kind, document in objects:
                await api.create(kind, document, document["metadata"].get("namespace", ""))
            await api.close()
            (shim.directory / "config").write_text(KUBECONFIG % url)
            arguments = ("job.yaml", "--cluster", "--kubeconfig", "config")
            return await asyncio.to_thread(called, main, "explain", *arguments, cwd=shim.directory)

    done = asyncio.run(scenario())

    assert (done.returncode, done.stderr) == (0, "")
    assert "  claim ml/pair: request nic: dra.net/gke-a4-0/pci-0000-21-00-0" in done.stdout
    assert "1 device (pci-0000-11-00-0): availability: in use by claim ml/other" in done.stdout
