"""Flags of cloud and profile providers, named as in dranet."""

import argparse
from dataclasses import dataclass
from typing import Final

from dra_shim.cloud.names import HINTS, NONE, WEBHOOK, parse_hint, parse_url
from dra_shim.settings.common import argument
from dranet_nri.errors import InvalidValueError

CLOUD: Final = "cloud"
_PROFILES: Final = (CLOUD, WEBHOOK, "none")


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """Sources of attributes and parameters besides node and claim.

    Attributes:
        hint: name of the cloud (HINTS), "" to detect it.
        profiles: "cloud", "webhook" or "none".
        webhook: URL, "" for none.
    """

    hint: str = ""
    profiles: str = CLOUD
    webhook: str = ""

    @property
    def webhook_has_profiles(self) -> bool:
        """Return whether the webhook provides profiles.

        With "cloud", profiles come from the cloud provider, and only the webhook provides profiles.
        """
        by_cloud = self.profiles == CLOUD and self.hint in {"", WEBHOOK}
        return bool(self.webhook) and (by_cloud or self.profiles == WEBHOOK)


def add_provider_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of providers."""
    add = parser.add_argument
    add(
        "--cloud-provider-hint", type=argument(parse_hint), default="", metavar="NAME",
        help=f"cloud that describes devices: {', '.join(HINTS)}; default: detected by the "
        f"firmware, without a request on bare metal; {NONE}: no attributes of clouds",
    )  # fmt: skip
    add(
        "--profile-provider", choices=_PROFILES, default=CLOUD,
        help="what resolves the parameter 'profile'; cloud: the cloud provider, which must be the "
        "webhook (default: %(default)s)",
    )  # fmt: skip
    add(
        "--webhook-url", type=argument(parse_url), default="", metavar="URL",
        help="server for attributes, parameters and profiles: http://…, https://… or unix:///PATH",
    )  # fmt: skip


def providers_from(args: argparse.Namespace) -> ProviderSettings:
    """Return the settings of the parsed flags.

    Raises:
        InvalidValueError: a webhook is required, and no URL is given.
    """
    settings = ProviderSettings(args.cloud_provider_hint, args.profile_provider, args.webhook_url)
    for flag, value in (
        ("--cloud-provider-hint", settings.hint),
        ("--profile-provider", settings.profiles),
    ):
        if value == WEBHOOK and not settings.webhook:
            raise InvalidValueError(f"{flag}={WEBHOOK}: needs --webhook-url")
    return settings
