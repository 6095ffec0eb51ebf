"""A node outside any cloud: no facts and no parameters of devices."""

from collections.abc import Iterable, Mapping

from dra_shim.checkpoint.profiles import ProfileStore
from dra_shim.prepare import Providers
from dra_shim.settings.common import StatePaths
from dranet_nri.model import Device, NetworkConfig


class NoCloud:
    """CloudFacts and CloudParameters without a cloud."""

    def enriched(self, device: Device) -> Device:
        """Return the device unchanged."""
        return device

    async def update_devices(self, _devices: Iterable[Device]) -> bool:
        """Return that there are no new facts."""
        return False

    def parameters(self, _device: Device, _own: NetworkConfig) -> tuple[str, Mapping[str, object]]:
        """Return no parameters."""
        return "", {}


def no_providers(state: StatePaths) -> Providers:
    """Return the providers of a node without any."""
    return Providers(ProfileStore(state.profiles), NoCloud())
