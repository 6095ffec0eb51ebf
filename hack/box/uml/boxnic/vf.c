// SPDX-License-Identifier: MIT OR GPL-2.0
/* What a PF sets for its VFs, and shows of them. */
#include <linux/etherdevice.h>

#include "boxnic.h"

static struct boxnic_function *vf_of(struct net_device *dev, int vf)
{
	struct boxnic_port *port = netdev_priv(dev);

	if (vf < 0 || vf >= pci_num_vf(to_pci_dev(dev->dev.parent)))
		return ERR_PTR(-EINVAL);
	return &port->function->nic->vf[vf];
}

/* The VF that is to be set, unless that is to fail. */
static struct boxnic_function *vf_to_set(struct net_device *dev, int vf)
{
	int err = boxnic_fail_port(dev, BOXNIC_VF);

	return err ? ERR_PTR(err) : vf_of(dev, vf);
}

int boxnic_get_vf_config(struct net_device *dev, int vf, struct ifla_vf_info *info)
{
	struct boxnic_function *f = vf_of(dev, vf);

	if (IS_ERR(f))
		return PTR_ERR(f);
	info->vf = vf;
	ether_addr_copy(info->mac, f->set.mac);
	info->vlan = f->set.tci & VLAN_VID_MASK;
	info->qos = f->set.tci >> VLAN_PRIO_SHIFT;
	info->vlan_proto = htons(ETH_P_8021Q);
	info->spoofchk = f->set.spoofchk;
	info->trusted = f->set.trusted;
	info->linkstate = f->set.link_state;
	info->min_tx_rate = f->set.min_rate;
	info->max_tx_rate = f->set.max_rate;
	return 0;
}

int boxnic_get_vf_stats(struct net_device *dev, int vf, struct ifla_vf_stats *stats)
{
	struct boxnic_function *f = vf_of(dev, vf);
	struct rtnl_link_stats64 counted;

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (!f->port)
		return 0;
	dev_get_stats(f->port->dev, &counted);
	stats->rx_packets = counted.rx_packets;
	stats->tx_packets = counted.tx_packets;
	stats->rx_bytes = counted.rx_bytes;
	stats->tx_bytes = counted.tx_bytes;
	return 0;
}

/* A zero address removes the one that was set. */
int boxnic_set_vf_mac(struct net_device *dev, int vf, u8 *mac)
{
	struct boxnic_function *f = vf_to_set(dev, vf);

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (is_multicast_ether_addr(mac))
		return -EINVAL;
	f->set.mac_set = !is_zero_ether_addr(mac);
	if (f->set.mac_set)
		ether_addr_copy(f->set.mac, mac);
	else
		boxnic_default_mac(f, f->set.mac);
	return 0;
}

int boxnic_set_vf_vlan(struct net_device *dev, int vf, u16 vlan, u8 qos, __be16 proto)
{
	struct boxnic_function *f = vf_to_set(dev, vf);

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (vlan > VLAN_VID_MASK || qos > 7)
		return -EINVAL;
	if (proto != htons(ETH_P_8021Q))
		return -EPROTONOSUPPORT;
	WRITE_ONCE(f->set.tci, vlan | qos << VLAN_PRIO_SHIFT);
	return 0;
}

int boxnic_set_vf_rate(struct net_device *dev, int vf, int min_rate, int max_rate)
{
	struct boxnic_function *f = vf_to_set(dev, vf);

	if (IS_ERR(f))
		return PTR_ERR(f);
	if (min_rate < 0 || max_rate < 0 || (max_rate && min_rate > max_rate))
		return -EINVAL;
	f->set.min_rate = min_rate;
	f->set.max_rate = max_rate;
	return 0;
}

int boxnic_set_vf_spoofchk(struct net_device *dev, int vf, bool on)
{
	struct boxnic_function *f = vf_to_set(dev, vf);

	if (!IS_ERR(f))
		f->set.spoofchk = on;
	return PTR_ERR_OR_ZERO(f);
}

int boxnic_set_vf_trust(struct net_device *dev, int vf, bool on)
{
	struct boxnic_function *f = vf_to_set(dev, vf);

	if (!IS_ERR(f))
		f->set.trusted = on;
	return PTR_ERR_OR_ZERO(f);
}

int boxnic_set_vf_link_state(struct net_device *dev, int vf, int state)
{
	struct boxnic_function *f = vf_to_set(dev, vf);

	if (IS_ERR(f))
		return PTR_ERR(f);
	f->set.link_state = state;
	boxnic_update_carrier(f);
	return 0;
}
