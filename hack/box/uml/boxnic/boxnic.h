/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What the files of boxnic share: see pci.c for what boxnic is. */
#ifndef BOXNIC_H
#define BOXNIC_H

#include <linux/ethtool.h>
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/pci.h>

#define BOXNIC_VFS 7
#define BOXNIC_QUEUES 8
#define BOXNIC_RSS_ENTRIES 128
#define BOXNIC_VENDOR 0x8086
#define BOXNIC_PF_ID 0x10c9
#define BOXNIC_VF_ID 0x10ca

/* The operations that the debugfs file "fail" can make fail. */
enum boxnic_op {
	BOXNIC_PROBE,
	BOXNIC_SRIOV,
	BOXNIC_OPEN,
	BOXNIC_MTU,
	BOXNIC_MAC,
	BOXNIC_FEATURES,
	BOXNIC_VLAN,
	BOXNIC_VF,
	BOXNIC_RINGS,
	BOXNIC_CHANNELS,
	BOXNIC_COALESCE,
	BOXNIC_PAUSE,
	BOXNIC_RSS,
	BOXNIC_PRIV_FLAGS,
	BOXNIC_RESET,
	BOXNIC_OPS,
};

/* The counters of "ethtool -S". */
enum boxnic_stat {
	BOXNIC_LOST,
	BOXNIC_SPOOFED,
	BOXNIC_VLAN_DROPPED,
	BOXNIC_RESETS,
	BOXNIC_STATS,
};

/* What the PF has set for a VF, from the moment when SR-IOV is enabled. */
struct boxnic_vf {
	u8 mac[ETH_ALEN];
	u16 tci;			/* 0: no VLAN */
	bool mac_set, trusted, spoofchk;
	int link_state;
	u32 min_rate, max_rate;		/* stored only */
};

/* A PCI function. What follows the two arrays lasts as long as its PCI device, bound or not. */
struct boxnic_function {
	u8 space[PCI_CFG_SPACE_EXP_SIZE];
	u8 writable[PCI_CFG_SPACE_EXP_SIZE];
	struct boxnic_nic *nic;
	int vf;				/* -1: the PF */
	struct boxnic_vf set;
	struct boxnic_port *port;	/* of the bound driver; under RTNL */
	struct dentry *dir;
	bool carrier;
	u32 speed, loss;
	atomic_t fail_left[BOXNIC_OPS];
	int fail_errno[BOXNIC_OPS];
	atomic64_t stats[BOXNIC_STATS];
};

struct boxnic_nic {
	struct boxnic_function port, pf, vf[BOXNIC_VFS];
	struct pci_slot *slot;
	int index, numa_node;
};

/* The net device of a function. */
struct boxnic_port {
	struct net_device *dev;
	struct boxnic_function *function;
	struct list_head on_wire;
	DECLARE_BITMAP(vlans, VLAN_N_VID);
	u32 rx_ring, rx_jumbo_ring, tx_ring, priv_flags;
	struct ethtool_coalesce coalesce;
	u32 rss[BOXNIC_RSS_ENTRIES];
	bool rx_pause, tx_pause;
};

static inline bool boxnic_is_vf(const struct boxnic_port *port)
{
	return port->function->vf >= 0;
}

/* A VF whose MAC address the PF has set may use no other one, unless it is trusted. */
static inline bool boxnic_may_choose_mac(const struct boxnic_port *port)
{
	const struct boxnic_vf *set = &port->function->set;

	return !boxnic_is_vf(port) || !set->mac_set || set->trusted;
}

static inline void boxnic_count(struct boxnic_port *port, enum boxnic_stat stat)
{
	atomic64_inc(&port->function->stats[stat]);
}

extern struct pci_driver boxnic_pf_driver, boxnic_vf_driver;
extern const struct ethtool_ops boxnic_pf_ethtool_ops, boxnic_vf_ethtool_ops;

void boxnic_default_rss(struct net_device *dev);

struct boxnic_function *boxnic_find(struct pci_bus *bus, unsigned int devfn);
void boxnic_default_mac(const struct boxnic_function *f, u8 *mac);

void boxnic_set_carrier(struct boxnic_function *f, bool on);
void boxnic_update_carrier(struct boxnic_function *f);

int boxnic_get_vf_config(struct net_device *dev, int vf, struct ifla_vf_info *info);
int boxnic_get_vf_stats(struct net_device *dev, int vf, struct ifla_vf_stats *stats);
int boxnic_set_vf_mac(struct net_device *dev, int vf, u8 *mac);
int boxnic_set_vf_vlan(struct net_device *dev, int vf, u16 vlan, u8 qos, __be16 proto);
int boxnic_set_vf_rate(struct net_device *dev, int vf, int min_rate, int max_rate);
int boxnic_set_vf_spoofchk(struct net_device *dev, int vf, bool on);
int boxnic_set_vf_trust(struct net_device *dev, int vf, bool on);
int boxnic_set_vf_link_state(struct net_device *dev, int vf, int state);

int boxnic_wire_open(const char *beyond);
void boxnic_wire_close(void);
void boxnic_wire_add(struct boxnic_port *port);
void boxnic_wire_del(struct boxnic_port *port);
netdev_tx_t boxnic_xmit(struct sk_buff *skb, struct net_device *dev);

int boxnic_fail(struct boxnic_function *f, enum boxnic_op op);
int boxnic_fail_port(struct net_device *dev, enum boxnic_op op);
int boxnic_numa_init(void);
void boxnic_numa_exit(void);

void boxnic_debugfs_init(void);
void boxnic_debugfs_exit(void);
void boxnic_debugfs_add(struct boxnic_function *f, const char *name);
void boxnic_debugfs_del(struct boxnic_function *f);

#endif
