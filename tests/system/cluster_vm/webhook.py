"""Webhook that provides an attribute, an MTU, and addresses by profile.

`python3 -m tests.system.cluster_vm.webhook` serves it on the node's loopback until it is killed.
Facts: kubernetes-sigs/dranet, tests/webhook.py and cmd/webhook-whereabouts (its own wire format,
and how it calls an IPAM plugin). The IPAM plugin is host-local, which the node has.
"""

from __future__ import annotations

import json
import os
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

PORT: Final = 8081
PLUGINS: Final = "/opt/cni/bin"
NIC: Final = "dummy1"  # the NIC with the attribute and the MTU
ATTRIBUTE: Final = "dra.net/webhook_attr"
FIXED: Final = "python-profile"  # a profile with one address for all
RANGE: Final = "range-profile"  # a profile with an address of a range for each claim
LEASES: Final = f"/var/lib/cni/networks/{RANGE}"
IPAM: Final = {
    "cniVersion": "1.0.0",
    "name": RANGE,
    "ipam": {"type": "host-local", "ranges": [[{"subnet": "192.168.100.0/24"}]]},
}


def answer(path: str, body: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a request, None if there is no such path."""
    profile = body.get("config", {}).get("profile", "")
    named = body.get("name") == NIC
    match path:
        case "/GetDeviceAttributes":
            return {ATTRIBUTE: {"string": "python"}} if named else {}
        case "/GetDeviceConfig":
            return {"interface": {"mtu": 1450}} if named else {}
        case "/GetProfileConfig" if profile == FIXED:
            return {"interface": {"addresses": ["10.200.200.200/24"]}}
        case "/GetProfileConfig" if profile == RANGE:
            leased = json.loads(ipam("ADD", body["claim"]["metadata"]["uid"], body["device"]))
            return {"interface": {"addresses": [entry["address"] for entry in leased["ips"]]}}
        case "/ReleaseProfileConfig" if profile == RANGE:
            ipam("DEL", body["claim_uid"], body["device"])
            return {}
        case "/GetProfileConfig" | "/ReleaseProfileConfig":
            return {}
    return None


def ipam(command: str, claim_uid: str, device: dict[str, str]) -> str:
    """Return the output of the IPAM plugin, called for a device of a claim."""
    environment = {
        **os.environ,
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": claim_uid,
        "CNI_NETNS": "/dev/null",
        "CNI_IFNAME": device["name"],
        "CNI_PATH": PLUGINS,
    }
    arguments = [f"{PLUGINS}/host-local"]
    return subprocess.run(
        arguments,
        env=environment,
        input=json.dumps(IPAM),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


class Handler(BaseHTTPRequestHandler):
    """The paths of the webhook."""

    def do_GET(self) -> None:
        """Return what the webhook provides."""
        self._send({"cloudProvider": True, "profileProvider": True})

    def do_POST(self) -> None:
        """Answer a request about a device."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._send(answer(self.path, body))

    def _send(self, document: dict[str, Any] | None) -> None:
        text = json.dumps(document or {}).encode()
        self.send_response(404 if document is None else 200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
