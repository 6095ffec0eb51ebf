"""Command `doctor`: problems of this node's shim that block claims, with remedies."""

import argparse
import asyncio
import os
from typing import Final

from dra_shim.settings.common import state_from
from dra_shim.settings.run import add_access_flags, add_address_flag
from dranet_nri.component.findings import Finding, Severity, show_findings
from dranet_nri.component.output import add_output_flag
from dranet_nri.errors import InvalidValueError
from dranet_nri.facts.host import node_name
from dranet_nri.model import DRIVER_NAME

EXAMPLES: Final = (
    "doctor",
    "doctor --kubeconfig /etc/kubernetes/admin.conf --output yaml",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_access_flags(parser)
    add_address_flag(parser, "where the running shim serves /readyz")
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Check server, shim, kubelet and records, and print the findings; 1 if a check fails.

    Raises:
        InvalidValueError: the kubelet's directory is too long for the path of a socket.
    """
    return show_findings(args.output, asyncio.run(_findings(args)))


async def _findings(args: argparse.Namespace) -> list[Finding]:
    # Imported here: gRPC and the API client would delay other commands by a quarter of a second.
    from dra_shim.commands import doctor_checks
    from dra_shim.kubeapi import ApiClient, HttpClient, rest_config_of
    from dra_shim.kubeletplugin import sockets_of

    found: list[Finding] = []
    try:
        api = ApiClient(HttpClient(rest_config_of(args.kubeconfig, os.environ)))
    except InvalidValueError as error:
        found.append(Finding("API server", Severity.BAD, str(error)))
    else:
        try:
            node = node_name(args.hostname_override)
            found += [finding async for finding in doctor_checks.server_findings(api, node)]
            found += [finding async for finding in doctor_checks.right_findings(api)]
        finally:
            await api.close()
    shim = [finding async for finding in doctor_checks.shim_findings(args.bind_address)]
    ready = all(finding.grade is Severity.OK for finding in shim)
    root = args.kubelet_root_dir
    sockets = sockets_of(root, DRIVER_NAME)
    found += shim
    found += [
        finding async for finding in doctor_checks.kubelet_findings(sockets, root, ready=ready)
    ]
    found += doctor_checks.record_findings(state_from(args))
    return found
