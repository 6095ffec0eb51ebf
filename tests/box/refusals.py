"""Refusals of pods, and the reasons that they show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.box.cri import Cri, CriError


def is_open(claim: str) -> bool:
    """Whether the claim's gate is open."""
    return Path(f"/var/run/cdi/dra.net-{claim}-claim-uid.json").exists()


def refused(cri: Cri, name: str, reason: str, *, host_network: bool = False) -> str:
    """Assert that a pod with a claim of its name is refused, and why; return the message.

    Its sandbox is rejected; or its container, where the runtime keeps a record of such sandboxes,
    as containerd 2.1 does but not 1.7, nor CRI-O (dranet_nri.nri.runtime_quirks).
    """
    version = cri.version()
    if (version.runtime_name, version.runtime_version.lstrip("v")[:2]) != ("containerd", "2."):
        with pytest.raises(CriError, match=reason) as rejected:
            cri.run_pod(name, host_network=host_network)
        return str(rejected.value)
    pod = cri.run_pod(name, host_network=host_network)
    with pytest.raises(CriError, match=reason) as held:
        cri.create_container(pod)
    assert not is_open(name)
    cri.stop_pod(pod.sandbox_id)
    cri.remove_pod(pod.sandbox_id)
    return str(held.value)
