// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The wire that joins all ports, the address filters of a port, and the embedded switch of a NIC.
 *
 * On the wire the outer VLAN tag of a frame is beside the frame, as after VLAN acceleration. Frames
 * cross network namespaces.
 */
#include <linux/etherdevice.h>
#include <linux/random.h>
#include <linux/rtnetlink.h>

#include "boxnic.h"

static LIST_HEAD(ports);
static DEFINE_SPINLOCK(ports_lock);
static struct net_device *beyond;	/* the net device that the wire goes on through */

static bool lost(struct boxnic_port *port)
{
	u32 loss = READ_ONCE(port->function->loss);

	if (!loss || get_random_u32_below(1000) >= loss)
		return false;
	boxnic_count(port, BOXNIC_LOST);
	return true;
}

static bool is_promiscuous(const struct boxnic_port *port)
{
	return port->dev->flags & IFF_PROMISC &&
	       (!boxnic_is_vf(port) || port->function->set.trusted);
}

static bool is_listed(const struct netdev_hw_addr_list *list, const u8 *address)
{
	const struct netdev_hw_addr *listed;

	netdev_hw_addr_list_for_each(listed, list)
		if (ether_addr_equal(listed->addr, address))
			return true;
	return false;
}

static bool is_own(struct boxnic_port *port, const u8 *address)
{
	bool own = ether_addr_equal(port->dev->dev_addr, address);

	if (own || !boxnic_may_choose_mac(port))
		return own;
	netif_addr_lock_bh(port->dev);
	own = is_listed(&port->dev->uc, address);
	netif_addr_unlock_bh(port->dev);
	return own;
}

static bool accepts_address(struct boxnic_port *port, const u8 *address)
{
	bool accepts;

	if (is_broadcast_ether_addr(address) || is_promiscuous(port))
		return true;
	if (!is_multicast_ether_addr(address))
		return is_own(port, address);
	if (port->dev->flags & (IFF_ALLMULTI | IFF_PROMISC))
		return true;
	netif_addr_lock_bh(port->dev);
	accepts = is_listed(&port->dev->mc, address);
	netif_addr_unlock_bh(port->dev);
	return accepts;
}

static bool accepts_vlan(const struct boxnic_port *port, const struct sk_buff *skb)
{
	u16 tci = READ_ONCE(port->function->set.tci);

	if (tci)
		return skb_vlan_tag_present(skb) && skb_vlan_tag_get_id(skb) == (tci & VLAN_VID_MASK);
	if (!skb_vlan_tag_present(skb) || !skb_vlan_tag_get_id(skb) || is_promiscuous(port))
		return true;
	return !(port->dev->features & NETIF_F_HW_VLAN_CTAG_FILTER) ||
	       test_bit(skb_vlan_tag_get_id(skb), port->vlans);
}

static void deliver(struct boxnic_port *port, struct sk_buff *skb)
{
	unsigned int len = skb->len;

	if (lost(port))
		return;
	skb = skb_clone(skb, GFP_ATOMIC);
	if (!skb)
		return;
	if (READ_ONCE(port->function->set.tci))
		__vlan_hwaccel_clear_tag(skb);
	if (dev_forward_skb(port->dev, skb) == NET_RX_SUCCESS)
		dev_sw_netstats_rx_add(port->dev, len);
}

/* Whether the port is on the wire. An unplugged NIC still connects its own ports. */
static bool is_plugged(const struct boxnic_port *port)
{
	return READ_ONCE(port->function->nic->pf.carrier);
}

static bool are_joined(const struct boxnic_port *from, const struct boxnic_port *to)
{
	if (!from)
		return is_plugged(to);
	return from->function->nic == to->function->nic || (is_plugged(from) && is_plugged(to));
}

static void flood(struct sk_buff *skb, const struct boxnic_port *from)
{
	const u8 *address = eth_hdr(skb)->h_dest;
	struct boxnic_port *port;

	rcu_read_lock();
	list_for_each_entry_rcu(port, &ports, on_wire)
		if (port != from && netif_carrier_ok(port->dev) && are_joined(from, port) &&
		    accepts_vlan(port, skb) && accepts_address(port, address))
			deliver(port, skb);
	rcu_read_unlock();
}

static void send_beyond(struct sk_buff *skb)
{
	skb = skb_clone(skb, GFP_ATOMIC);
	if (!skb)
		return;
	skb_scrub_packet(skb, true);
	skb->dev = beyond;
	dev_queue_xmit(skb);
}

/* Put the VLAN tag beside the frame. Returns NULL, with the frame freed, without memory. */
static struct sk_buff *untag(struct sk_buff *skb)
{
	skb_reset_mac_header(skb);
	if (skb_vlan_tag_present(skb) || !eth_type_vlan(eth_hdr(skb)->h_proto))
		return skb;
	skb->protocol = eth_hdr(skb)->h_proto;
	skb_pull(skb, ETH_HLEN);
	skb = skb_vlan_untag(skb);
	if (skb)
		skb_push(skb, ETH_HLEN);
	return skb;
}

/* What the embedded switch does with a frame of a VF. Returns whether it lets the frame through. */
static bool switch_frame(struct boxnic_port *port, struct sk_buff *skb)
{
	const struct boxnic_vf *set = &port->function->set;
	u16 tci = READ_ONCE(set->tci);

	if (!boxnic_is_vf(port))
		return true;
	if (set->spoofchk && !is_own(port, eth_hdr(skb)->h_source)) {
		boxnic_count(port, BOXNIC_SPOOFED);
		return false;
	}
	if (tci && skb_vlan_tag_present(skb)) {
		boxnic_count(port, BOXNIC_VLAN_DROPPED);
		return false;
	}
	if (tci)
		__vlan_hwaccel_put_tag(skb, htons(ETH_P_8021Q), tci);
	return true;
}

netdev_tx_t boxnic_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct boxnic_port *port = netdev_priv(dev);

	skb_tx_timestamp(skb);
	dev_sw_netstats_tx_add(dev, 1, skb->len);
	skb = untag(skb);
	if (!skb)
		return NETDEV_TX_OK;
	if (switch_frame(port, skb) && !lost(port)) {
		flood(skb, port);
		if (beyond && is_plugged(port))
			send_beyond(skb);
	}
	dev_kfree_skb_any(skb);
	return NETDEV_TX_OK;
}

static rx_handler_result_t from_beyond(struct sk_buff **pskb)
{
	struct sk_buff *skb = skb_share_check(*pskb, GFP_ATOMIC);

	if (skb) {
		skb_push(skb, ETH_HLEN);
		flood(skb, NULL);
		consume_skb(skb);
	}
	return RX_HANDLER_CONSUMED;
}

int boxnic_wire_open(const char *name)
{
	int err;

	if (!*name)
		return 0;
	beyond = dev_get_by_name(&init_net, name);
	if (!beyond)
		return -ENODEV;
	rtnl_lock();
	err = netdev_rx_handler_register(beyond, from_beyond, NULL);
	if (!err)
		dev_set_promiscuity(beyond, 1);
	rtnl_unlock();
	if (err)
		dev_put(beyond);
	return err;
}

void boxnic_wire_close(void)
{
	if (!beyond)
		return;
	rtnl_lock();
	dev_set_promiscuity(beyond, -1);
	netdev_rx_handler_unregister(beyond);
	rtnl_unlock();
	dev_put(beyond);
}

void boxnic_wire_add(struct boxnic_port *port)
{
	spin_lock_bh(&ports_lock);
	list_add_tail_rcu(&port->on_wire, &ports);
	spin_unlock_bh(&ports_lock);
}

/* The frames that are on their way end before unregister_netdevice() does. */
void boxnic_wire_del(struct boxnic_port *port)
{
	spin_lock_bh(&ports_lock);
	list_del_rcu(&port->on_wire);
	spin_unlock_bh(&ports_lock);
}
