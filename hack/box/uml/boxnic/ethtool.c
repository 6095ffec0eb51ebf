// SPDX-License-Identifier: MIT OR GPL-2.0
/* What ethtool shows and sets of a port. */
#include <linux/ethtool.h>
#include <linux/linkmode.h>

#include "boxnic.h"

#define MAX_RING 4096
#define MIN_RING 64
#define MAX_USECS 10000

static const char stat_names[BOXNIC_STATS][ETH_GSTRING_LEN] = {
	[BOXNIC_LOST] = "lost",
	[BOXNIC_SPOOFED] = "tx_spoofed",
	[BOXNIC_VLAN_DROPPED] = "tx_vlan_dropped",
	[BOXNIC_RESETS] = "resets",
};

static const char flag_names[][ETH_GSTRING_LEN] = { "legacy-rx" };

static void get_drvinfo(struct net_device *dev, struct ethtool_drvinfo *info)
{
	strscpy(info->driver, dev_driver_string(dev->dev.parent), sizeof(info->driver));
	strscpy(info->version, "boxnic", sizeof(info->version));
	strscpy(info->fw_version, "1.0", sizeof(info->fw_version));
	strscpy(info->bus_info, dev_name(dev->dev.parent), sizeof(info->bus_info));
}

static int get_link_ksettings(struct net_device *dev, struct ethtool_link_ksettings *settings)
{
	struct boxnic_port *port = netdev_priv(dev);
	bool up = netif_carrier_ok(dev);

	ethtool_link_ksettings_zero_link_mode(settings, supported);
	ethtool_link_ksettings_add_link_mode(settings, supported, 1000baseT_Full);
	ethtool_link_ksettings_add_link_mode(settings, supported, Autoneg);
	ethtool_link_ksettings_add_link_mode(settings, supported, TP);
	linkmode_copy(settings->link_modes.advertising, settings->link_modes.supported);
	settings->base.speed = up ? port->function->speed : SPEED_UNKNOWN;
	settings->base.duplex = up ? DUPLEX_FULL : DUPLEX_UNKNOWN;
	settings->base.autoneg = AUTONEG_ENABLE;
	settings->base.port = PORT_TP;
	return 0;
}

static void get_ringparam(struct net_device *dev, struct ethtool_ringparam *rings,
			  struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	struct boxnic_port *port = netdev_priv(dev);

	rings->rx_max_pending = MAX_RING;
	rings->rx_jumbo_max_pending = MAX_RING;
	rings->tx_max_pending = MAX_RING;
	rings->rx_pending = port->rx_ring;
	rings->rx_jumbo_pending = port->rx_jumbo_ring;
	rings->tx_pending = port->tx_ring;
}

static int set_ringparam(struct net_device *dev, struct ethtool_ringparam *rings,
			 struct kernel_ethtool_ringparam *kernel, struct netlink_ext_ack *extack)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_RINGS);

	if (err)
		return err;
	if (rings->rx_pending < MIN_RING || rings->rx_jumbo_pending < MIN_RING ||
	    rings->tx_pending < MIN_RING)
		return -EINVAL;
	port->rx_ring = rings->rx_pending;
	port->rx_jumbo_ring = rings->rx_jumbo_pending;
	port->tx_ring = rings->tx_pending;
	return 0;
}

static void get_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	channels->max_combined = BOXNIC_QUEUES;
	channels->combined_count = dev->real_num_tx_queues;
}

static int set_channels(struct net_device *dev, struct ethtool_channels *channels)
{
	int err = boxnic_fail_port(dev, BOXNIC_CHANNELS);

	if (err)
		return err;
	err = netif_set_real_num_queues(dev, channels->combined_count, channels->combined_count);
	if (!err && !netif_is_rxfh_configured(dev))
		boxnic_default_rss(dev);
	return err;
}

void boxnic_default_rss(struct net_device *dev)
{
	struct boxnic_port *port = netdev_priv(dev);
	int i;

	for (i = 0; i < BOXNIC_RSS_ENTRIES; i++)
		port->rss[i] = ethtool_rxfh_indir_default(i, dev->real_num_rx_queues);
}

static u32 get_rx_ring_count(struct net_device *dev)
{
	return dev->real_num_rx_queues;
}

static u32 get_rxfh_indir_size(struct net_device *dev)
{
	return BOXNIC_RSS_ENTRIES;
}

static int get_rxfh(struct net_device *dev, struct ethtool_rxfh_param *rxfh)
{
	struct boxnic_port *port = netdev_priv(dev);

	rxfh->hfunc = ETH_RSS_HASH_TOP;
	if (rxfh->indir)
		memcpy(rxfh->indir, port->rss, sizeof(port->rss));
	return 0;
}

static int set_rxfh(struct net_device *dev, struct ethtool_rxfh_param *rxfh,
		    struct netlink_ext_ack *extack)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_RSS);

	if (err)
		return err;
	if (rxfh->key || rxfh->hfunc != ETH_RSS_HASH_NO_CHANGE)
		return -EOPNOTSUPP;
	if (rxfh->indir)
		memcpy(port->rss, rxfh->indir, sizeof(port->rss));
	return 0;
}

static int get_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			struct kernel_ethtool_coalesce *kernel, struct netlink_ext_ack *extack)
{
	struct boxnic_port *port = netdev_priv(dev);

	*coalesce = port->coalesce;
	return 0;
}

static int set_coalesce(struct net_device *dev, struct ethtool_coalesce *coalesce,
			struct kernel_ethtool_coalesce *kernel, struct netlink_ext_ack *extack)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_COALESCE);

	if (err)
		return err;
	if (coalesce->rx_coalesce_usecs > MAX_USECS || coalesce->tx_coalesce_usecs > MAX_USECS)
		return -EINVAL;
	port->coalesce = *coalesce;
	return 0;
}

static void get_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct boxnic_port *port = netdev_priv(dev);

	pause->rx_pause = port->rx_pause;
	pause->tx_pause = port->tx_pause;
}

static int set_pauseparam(struct net_device *dev, struct ethtool_pauseparam *pause)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_PAUSE);

	if (err)
		return err;
	if (pause->autoneg)
		return -EINVAL;
	port->rx_pause = pause->rx_pause;
	port->tx_pause = pause->tx_pause;
	return 0;
}

static int get_sset_count(struct net_device *dev, int set)
{
	switch (set) {
	case ETH_SS_STATS:
		return BOXNIC_STATS;
	case ETH_SS_PRIV_FLAGS:
		return ARRAY_SIZE(flag_names);
	default:
		return -EOPNOTSUPP;
	}
}

static void get_strings(struct net_device *dev, u32 set, u8 *data)
{
	if (set == ETH_SS_STATS)
		memcpy(data, stat_names, sizeof(stat_names));
	else if (set == ETH_SS_PRIV_FLAGS)
		memcpy(data, flag_names, sizeof(flag_names));
}

static void get_ethtool_stats(struct net_device *dev, struct ethtool_stats *stats, u64 *data)
{
	struct boxnic_port *port = netdev_priv(dev);
	int i;

	for (i = 0; i < BOXNIC_STATS; i++)
		data[i] = atomic64_read(&port->function->stats[i]);
}

static u32 get_priv_flags(struct net_device *dev)
{
	struct boxnic_port *port = netdev_priv(dev);

	return port->priv_flags;
}

static int set_priv_flags(struct net_device *dev, u32 flags)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_PRIV_FLAGS);

	if (!err)
		port->priv_flags = flags;
	return err;
}

static int reset(struct net_device *dev, u32 *flags)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_RESET);

	if (err)
		return err;
	boxnic_count(port, BOXNIC_RESETS);
	netif_carrier_off(dev);
	boxnic_update_carrier(port->function);
	*flags = 0;
	return 0;
}

#define COMMON_OPS \
	.get_drvinfo = get_drvinfo, \
	.get_link = ethtool_op_get_link, \
	.get_link_ksettings = get_link_ksettings, \
	.get_ts_info = ethtool_op_get_ts_info, \
	.get_ringparam = get_ringparam, \
	.set_ringparam = set_ringparam, \
	.get_channels = get_channels, \
	.set_channels = set_channels, \
	.get_coalesce = get_coalesce, \
	.set_coalesce = set_coalesce, \
	.get_rx_ring_count = get_rx_ring_count, \
	.get_rxfh_indir_size = get_rxfh_indir_size, \
	.get_rxfh = get_rxfh, \
	.set_rxfh = set_rxfh, \
	.get_pauseparam = get_pauseparam, \
	.set_pauseparam = set_pauseparam, \
	.get_sset_count = get_sset_count, \
	.get_strings = get_strings, \
	.get_ethtool_stats = get_ethtool_stats, \
	.get_priv_flags = get_priv_flags, \
	.set_priv_flags = set_priv_flags, \
	.reset = reset

/* A VF has settings of coalescing that its PF lacks: tests see a device of either kind. */
const struct ethtool_ops boxnic_pf_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_USECS,
	COMMON_OPS,
};

const struct ethtool_ops boxnic_vf_ethtool_ops = {
	.supported_coalesce_params = ETHTOOL_COALESCE_USECS | ETHTOOL_COALESCE_USECS_IRQ |
				     ETHTOOL_COALESCE_MAX_FRAMES | ETHTOOL_COALESCE_MAX_FRAMES_IRQ |
				     ETHTOOL_COALESCE_USE_ADAPTIVE,
	COMMON_OPS,
};
