// SPDX-License-Identifier: MIT OR GPL-2.0
/* The net device of a PF or VF, and its PCI drivers. */
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>

#include "boxnic.h"

#define MAX_MTU 9216

static bool has_link(const struct boxnic_function *f)
{
	if (!f->carrier)
		return false;
	if (f->vf < 0 || f->set.link_state == IFLA_VF_LINK_STATE_ENABLE)
		return true;
	return f->set.link_state == IFLA_VF_LINK_STATE_AUTO && f->nic->pf.carrier;
}

void boxnic_update_carrier(struct boxnic_function *f)
{
	struct net_device *dev = f->port ? f->port->dev : NULL;

	if (!dev)
		return;
	if (netif_running(dev) && netif_device_present(dev) && has_link(f))
		netif_carrier_on(dev);
	else
		netif_carrier_off(dev);
}

void boxnic_set_carrier(struct boxnic_function *f, bool on)
{
	int vf;

	ASSERT_RTNL();
	WRITE_ONCE(f->carrier, on);
	boxnic_update_carrier(f);
	for (vf = 0; f->vf < 0 && vf < BOXNIC_VFS; vf++)
		boxnic_update_carrier(&f->nic->vf[vf]);
}

static int port_open(struct net_device *dev)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_OPEN);

	if (err)
		return err;
	boxnic_update_carrier(port->function);
	netif_tx_start_all_queues(dev);
	return 0;
}

static int port_stop(struct net_device *dev)
{
	netif_tx_stop_all_queues(dev);
	netif_carrier_off(dev);
	return 0;
}

static int port_change_mtu(struct net_device *dev, int mtu)
{
	int err = boxnic_fail_port(dev, BOXNIC_MTU);

	if (!err)
		WRITE_ONCE(dev->mtu, mtu);
	return err;
}

static int port_set_mac(struct net_device *dev, void *address)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = boxnic_fail_port(dev, BOXNIC_MAC);
	struct sockaddr *wanted = address;

	if (err)
		return err;
	if (!boxnic_may_choose_mac(port) &&
	    !ether_addr_equal(wanted->sa_data, port->function->set.mac))
		return -EPERM;
	return eth_mac_addr(dev, address);
}

/* The wire reads the device's own lists and flags. */
static void port_set_rx_mode(struct net_device *dev)
{
}

static int port_set_features(struct net_device *dev, netdev_features_t features)
{
	return boxnic_fail_port(dev, BOXNIC_FEATURES);
}

static int port_add_vid(struct net_device *dev, __be16 proto, u16 vid)
{
	struct boxnic_port *port = netdev_priv(dev);
	int err = vid ? boxnic_fail_port(dev, BOXNIC_VLAN) : 0;

	if (!err)
		set_bit(vid, port->vlans);
	return err;
}

static int port_kill_vid(struct net_device *dev, __be16 proto, u16 vid)
{
	struct boxnic_port *port = netdev_priv(dev);

	clear_bit(vid, port->vlans);
	return 0;
}

static const struct net_device_ops port_ops = {
	.ndo_open = port_open,
	.ndo_stop = port_stop,
	.ndo_start_xmit = boxnic_xmit,
	.ndo_change_mtu = port_change_mtu,
	.ndo_set_mac_address = port_set_mac,
	.ndo_validate_addr = eth_validate_addr,
	.ndo_set_rx_mode = port_set_rx_mode,
	.ndo_set_features = port_set_features,
	.ndo_vlan_rx_add_vid = port_add_vid,
	.ndo_vlan_rx_kill_vid = port_kill_vid,
	.ndo_get_vf_config = boxnic_get_vf_config,
	.ndo_get_vf_stats = boxnic_get_vf_stats,
	.ndo_set_vf_mac = boxnic_set_vf_mac,
	.ndo_set_vf_vlan = boxnic_set_vf_vlan,
	.ndo_set_vf_rate = boxnic_set_vf_rate,
	.ndo_set_vf_spoofchk = boxnic_set_vf_spoofchk,
	.ndo_set_vf_trust = boxnic_set_vf_trust,
	.ndo_set_vf_link_state = boxnic_set_vf_link_state,
};

static void port_setup(struct net_device *dev, struct boxnic_function *f)
{
	struct boxnic_port *port = netdev_priv(dev);
	u8 mac[ETH_ALEN];

	port->dev = dev;
	port->function = f;
	port->rx_ring = 256;
	port->rx_jumbo_ring = 256;
	port->tx_ring = 256;
	port->coalesce.rx_coalesce_usecs = 3;
	port->coalesce.tx_coalesce_usecs = 3;
	boxnic_default_mac(f, mac);
	eth_hw_addr_set(dev, f->vf < 0 ? mac : f->set.mac);
	dev->netdev_ops = &port_ops;
	dev->ethtool_ops = f->vf < 0 ? &boxnic_pf_ethtool_ops : &boxnic_vf_ethtool_ops;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->lltx = true;
	dev->priv_flags |= IFF_UNICAST_FLT | IFF_LIVE_ADDR_CHANGE;
	dev->max_mtu = MAX_MTU;
	dev->vlan_features = NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HW_CSUM | NETIF_F_RXCSUM |
			     NETIF_F_GSO_SOFTWARE;
	dev->hw_features = dev->vlan_features | NETIF_F_HW_VLAN_CTAG_TX | NETIF_F_HW_VLAN_CTAG_RX |
			   NETIF_F_HW_VLAN_CTAG_FILTER;
	dev->features = dev->hw_features | NETIF_F_HIGHDMA;
	netif_carrier_off(dev);
}

static int port_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct boxnic_function *f = boxnic_find(pdev->bus, pdev->devfn);
	struct net_device *dev;
	int err;

	err = boxnic_fail(f, BOXNIC_PROBE);
	if (err)
		return err;
	err = pcim_enable_device(pdev);
	if (err)
		return err;
	dev = alloc_etherdev_mq(sizeof(struct boxnic_port), BOXNIC_QUEUES);
	if (!dev)
		return -ENOMEM;
	SET_NETDEV_DEV(dev, &pdev->dev);
	port_setup(dev, f);
	rtnl_lock();
	err = netif_set_real_num_queues(dev, 1, 1) ?: register_netdevice(dev);
	if (!err) {
		f->port = netdev_priv(dev);
		boxnic_wire_add(f->port);
	}
	rtnl_unlock();
	if (err)
		free_netdev(dev);
	else
		pci_set_drvdata(pdev, dev);
	return err;
}

static void port_remove(struct pci_dev *pdev)
{
	struct net_device *dev = pci_get_drvdata(pdev);
	struct boxnic_port *port = netdev_priv(dev);

	if (!pdev->is_virtfn)
		pci_disable_sriov(pdev);
	boxnic_wire_del(port);
	rtnl_lock();
	port->function->port = NULL;
	unregister_netdevice(dev);
	rtnl_unlock();
	free_netdev(dev);
}

static int port_sriov(struct pci_dev *pdev, int count)
{
	struct boxnic_function *pf = boxnic_find(pdev->bus, pdev->devfn);
	int vf, err = boxnic_fail(pf, BOXNIC_SRIOV);

	if (err)
		return err;
	if (!count) {
		pci_disable_sriov(pdev);
		return 0;
	}
	for (vf = 0; vf < count; vf++) {
		struct boxnic_function *f = &pf->nic->vf[vf];

		f->set = (struct boxnic_vf){ .spoofchk = true };
		boxnic_default_mac(f, f->set.mac);
	}
	err = pci_enable_sriov(pdev, count);
	return err ? err : count;
}

/* The core's reset of a PCI function: the net device is detached meanwhile. */
static void port_reset_prepare(struct pci_dev *pdev)
{
	struct net_device *dev = pci_get_drvdata(pdev);

	rtnl_lock();
	netif_device_detach(dev);
	netif_carrier_off(dev);
	rtnl_unlock();
}

static void port_reset_done(struct pci_dev *pdev)
{
	struct boxnic_function *f = boxnic_find(pdev->bus, pdev->devfn);

	rtnl_lock();
	netif_device_attach(f->port->dev);
	boxnic_update_carrier(f);
	rtnl_unlock();
}

static const struct pci_error_handlers port_errors = {
	.reset_prepare = port_reset_prepare,
	.reset_done = port_reset_done,
};

static const struct pci_device_id pf_ids[] = { { PCI_DEVICE(BOXNIC_VENDOR, BOXNIC_PF_ID) }, {} };
static const struct pci_device_id vf_ids[] = { { PCI_DEVICE(BOXNIC_VENDOR, BOXNIC_VF_ID) }, {} };

struct pci_driver boxnic_pf_driver = {
	.name = "igb",
	.id_table = pf_ids,
	.probe = port_probe,
	.remove = port_remove,
	.sriov_configure = port_sriov,
	.err_handler = &port_errors,
};

struct pci_driver boxnic_vf_driver = {
	.name = "igbvf",
	.id_table = vf_ids,
	.probe = port_probe,
	.remove = port_remove,
	.err_handler = &port_errors,
};
