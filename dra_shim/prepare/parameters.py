"""Parameters of a claim, from its class and itself, for each request.

They are read once per Prepare, because providers and the record need them.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dra_shim.resourceapi import AllocatedClaim
from dranet_nri.config import SelectedParameters, select_parameters
from dranet_nri.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ClaimParameters:
    """Parameters of all requests of a claim.

    Attributes:
        valid: request → parameters, without invalid ones.
        violations: those of all requests, each once.
    """

    valid: Mapping[str, SelectedParameters]
    violations: tuple[str, ...] = ()


def claim_parameters(claim: AllocatedClaim, *, first_valid_config: bool) -> ClaimParameters:
    """Return the parameters of all requests of a claim.

    Args:
        claim: the claim.
        first_valid_config: dranet's precedence of configurations, see `select_parameters`.
    """
    valid: dict[str, SelectedParameters] = {}
    violations: list[str] = []
    for request in dict.fromkeys(result.request for result in claim.results):
        try:
            valid[request] = select_parameters(
                claim.configs, request, first_valid_wins=first_valid_config
            )
        except ConfigError as error:
            violations += error.violations
    return ClaimParameters(valid, tuple(dict.fromkeys(violations)))
