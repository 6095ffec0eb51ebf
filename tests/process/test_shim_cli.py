"""`dra-shim release` and `validate` as people run them, and command lines that are wrong."""

from pathlib import Path

import pytest

from tests.process.shim_bench import CLAIM, CLASS, TEMPLATE, Shim


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    return Shim(tmp_path)


# --------------------------------------------------------------------------- release


@pytest.mark.parametrize(
    "which", [("--claim", "default/fast"), ("--claim", "fast"), ("--pod", "p1"), ()]
)
def test_release_undoes_an_allocation_by_name_pod_or_uid(
    shim: Shim, which: tuple[str, ...]
) -> None:
    shim.allocate("--pod-name", "default/train")
    with shim.records() as reader:
        (record,) = reader.records()

    done = shim.release(*(which or ("--claim-uid", record.claim.uid)))
    again = shim.release(*(which or ("--claim-uid", record.claim.uid)))

    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "released claim default/fast of pod default/train: pci-0000-02-00-0, pci-0000-03-00-0\n",
        "",
    )
    assert again.returncode == 0
    assert again.stdout.startswith("nothing to release: ")
    with shim.records() as reader:
        assert reader.records() == ()


def test_a_released_claim_gets_a_new_nonce(shim: Shim) -> None:
    first = shim.allocate("--container", "main=fast")
    shim.release("--pod", "p1")
    second = shim.allocate("--container", "main=fast")

    assert first.stdout.split()[-1] != second.stdout.split()[-1]


def test_release_moves_a_broken_record_aside_only_when_it_is_named(shim: Shim) -> None:
    directory = shim.home / "state/allocations"
    directory.mkdir(parents=True)
    shim.allocate()
    (directory / "u9.json").write_text('{"version": 99}')

    other = shim.release("--pod", "p1")
    left = (directory / "u9.json").exists()
    named = shim.release("--claim-uid", "u9")

    assert other.returncode == 0
    assert left
    assert "the record of claim u9 cannot be used and was left alone" in other.stderr
    assert named.stdout.startswith("moved aside the record of claim u9: ")
    assert not (directory / "u9.json").exists()


# --------------------------------------------------------------------------- validate


def test_what_is_valid_is_named_and_the_exit_status_is_zero(shim: Shim) -> None:
    pod = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
    nameless = "---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"
    shim.write("all.yaml", f"{CLAIM}---{CLASS}---{TEMPLATE}{pod}{nameless}")

    done = shim.run("validate", "all.yaml", "-", stdin='{"interface": {"mtu": 9000}}')

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "all.yaml: ResourceClaim default/fast is valid",
        "all.yaml: DeviceClass dranet is valid",
        "all.yaml: ResourceClaimTemplate one is valid",
        "all.yaml: Pod p was not checked",
        "all.yaml: Kustomization was not checked",
        "standard input: NetworkConfig is valid",
    ]


def test_every_error_of_every_file_is_a_line_of_file_path_value_and_rule(shim: Shim) -> None:
    shim.write("bad.yaml", CLAIM.replace("mtu: 4000", "mtu: 4").replace("count: 2", "count: two"))
    shim.write("cel.yaml", CLASS.replace("driver ==", "driver +"))
    shim.write("empty.yaml", "---\n")

    done = shim.run("validate", "bad.yaml", "claim.yaml", "cel.yaml", "empty.yaml", "none.yaml")

    assert done.returncode == 1
    assert done.stdout == "claim.yaml: ResourceClaim default/fast is valid\n"
    assert done.stderr.splitlines() == [
        'bad.yaml: spec.devices.requests[0].exactly.count: "two": must be a whole number, without '
        "quotes or a fraction",
        "bad.yaml: spec.devices.config[0].opaque.parameters.interface.mtu: 4: must be 68 to "
        "2147483647",
        'cel.yaml: spec.selectors[0].cel.expression: "device.driver + "dra.net"": gives string; it '
        "must give true or false",
        "empty.yaml: document: holds nothing; check the path",
        "none.yaml: cannot be read: No such file or directory; check the path",
    ]  # fmt: skip


# --------------------------------------------------------------------------- usage


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("validate",),
        ("allocate", "--claim", "claim.yaml"),
        ("allocate", "--claim", "claim.yaml", "--pod", "../x"),
        ("allocate", "--claim", "claim.yaml", "--pod", "p1", "--container", "main"),
        ("allocate", "--claim", "claim.yaml", "--pod", "p1", "--pod-name", "A/b"),
        ("release",),
        ("release", "--pod", "p", "--claim", "c"),
        ("alocate",),
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_ends_with_two_and_the_usage(
    shim: Shim, arguments: tuple[str, ...]
) -> None:
    done = shim.run(*arguments)

    assert done.returncode == 2
    assert done.stderr.startswith("usage: dra-shim")


def test_the_exit_statuses_are_in_the_help(shim: Shim) -> None:
    done = shim.run("allocate", "--help")

    assert done.returncode == 0
    assert "Exit status: 0 done, 1 refused or failed" in " ".join(done.stdout.split())
