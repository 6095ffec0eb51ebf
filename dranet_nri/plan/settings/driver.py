"""Plans for driver settings of a net device: checks the claim's values, and sets the difference.

Rules:
1. A move keeps them, like offload features (see offloads).
2. Only claimed groups are read, set and restored.
3. The indirection table of receive-side scaling must refer to existing queues: it is set before the
   number of channels decreases, and after it increases.
4. The default table is restored as the default: with a table set by a user, the driver does
   not adapt it to the number of channels (IFF_RXFH_CONFIGURED).
"""

from itertools import accumulate, groupby
from typing import Final

from dranet_nri.errors import RefusedError
from dranet_nri.model import DriverSetting, EthtoolConfig, EthtoolState, LinkState, Ns, RssConfig
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss

_RX_CHANNELS: Final = ("channels.rx", "channels.combined")


def settings_of_claim(config: EthtoolConfig, host: LinkState) -> tuple[DriverSetting, ...]:
    """Return the driver settings of a claim.

    Raises:
        RefusedError: the device does not have the setting, or has a lower maximum.
    """
    settings = {setting.name: setting for setting in _state(host).settings}
    for setting in config.settings if host.ethtool else ():
        found = settings.get(setting.name)
        if found is None:
            listed = ", ".join(sorted(name for name in settings if _same_group(name, setting)))
            raise RefusedError(
                f"ethtool.{setting.name}: device {host.link.name} has no such setting; remove it"
                f" or use one of: {listed or 'none'}"
            )
        if found.maximum and setting.value > found.maximum:
            raise RefusedError(
                f"ethtool.{setting.name} {setting.value} is above what device {host.link.name} can"
                f" do; its maximum is {found.maximum}"
            )
    return config.settings


def rss_table_of_claim(config: EthtoolConfig, host: LinkState) -> tuple[int, ...]:
    """Return the claimed indirection table, () without one.

    Raises:
        RefusedError: the device has no table, or fewer queues or entries.
    """
    claimed = config.rss
    if claimed is None or host.ethtool is None:
        return ()
    name, state = host.link.name, host.ethtool.rss
    if state is None or not state.table:
        raise RefusedError(
            f"ethtool.rss: device {name} has no indirection table for receive-side scaling;"
            " remove it"
        )
    queues = state.queues + _added_queues(config.settings, host.ethtool)
    field, used = _used_queues(claimed)
    if used > queues:
        raise RefusedError(
            f"{field} names {used} receive queues, but device {name} has {queues}; name fewer,"
            " or raise ethtool.channels"
        )
    if sum(claimed.weights) > len(state.table):
        raise RefusedError(
            f"{field}: the sum {sum(claimed.weights)} is above the {len(state.table)} entries that"
            f" the table of device {name} has; lower the weights"
        )
    if claimed.equal:
        return equal_table(claimed.equal, len(state.table))
    return _weighted_table(claimed.weights, len(state.table))


def plan_driver(
    settings: tuple[DriverSetting, ...], table: tuple[int, ...], host: LinkState
) -> tuple[SetDriver | SetRss, ...]:
    """Return the operations on the host that give the device settings and table in the pod."""
    return _plan(settings, table, _state(host), host.link.name, claimed=True)


def restore_driver(
    before: EthtoolState, now: EthtoolState, name: str
) -> tuple[SetDriver | SetRss, ...]:
    """Return the operations that restore the settings of the device with this name on the host."""
    table = before.rss.table if before.rss else ()
    return _plan(before.settings, table, now, name, claimed=False)


def _plan(
    settings: tuple[DriverSetting, ...],
    table: tuple[int, ...],
    now: EthtoolState,
    name: str,
    *,
    claimed: bool,
) -> tuple[SetDriver | SetRss, ...]:
    values = {setting.name: setting.value for setting in now.settings}
    missing = [
        setting
        for setting in settings
        if setting.name in values and values[setting.name] != setting.value
    ]
    groups = [
        SetDriver(Ns.HOST, name, tuple(group), claimed)
        for _, group in groupby(missing, key=lambda setting: setting.group)
    ]
    if not table or now.rss is None or now.rss.table == table:
        return tuple(groups)
    added = _added_queues(settings, now)
    queues = now.rss.queues + added
    default = () if table == equal_table(queues, len(table)) else table
    rss = SetRss(Ns.HOST, name, default, claimed)
    return (rss, *groups) if added < 0 else (*groups, rss)


def equal_table(queues: int, entries: int) -> tuple[int, ...]:
    """Return a table with equal shares (ethtool_rxfh_indir_default, linux/ethtool.h)."""
    return tuple(entry % max(queues, 1) for entry in range(entries))


def _weighted_table(weights: tuple[int, ...], entries: int) -> tuple[int, ...]:
    """Return a table with a share of each queue, as `ethtool -X weight` makes it."""
    ends = tuple(accumulate(weights))
    return tuple(
        next(queue for queue, end in enumerate(ends) if entry * ends[-1] < end * entries)
        for entry in range(entries)
    )


def _used_queues(claimed: RssConfig) -> tuple[str, int]:
    """Return the claimed field, and the number of queues that it needs."""
    if claimed.equal:
        return "ethtool.rss.equal", claimed.equal
    used = (number for number, weight in enumerate(claimed.weights, 1) if weight)
    return "ethtool.rss.weights", max(used)


def _added_queues(settings: tuple[DriverSetting, ...], now: EthtoolState) -> int:
    """Return the change of the number of receive queues by the settings."""
    values = {setting.name: setting.value for setting in now.settings}
    return sum(
        setting.value - values[setting.name]
        for setting in settings
        if setting.name in _RX_CHANNELS and setting.name in values
    )


def _same_group(name: str, setting: DriverSetting) -> bool:
    return name.startswith(f"{setting.group}.")


def _state(host: LinkState) -> EthtoolState:
    return host.ethtool or EthtoolState()
