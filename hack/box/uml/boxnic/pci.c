// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * boxnic: SR-IOV NICs without hardware, for the tests in a User Mode Linux machine.
 *
 * A NIC is a PCI function whose configuration space is an array, below a root port of its own. The
 * first half of the NICs is behind root bus 0x40 on NUMA node 0, the second half behind root bus
 * 0x80 on NUMA node 1. The PFs are 0000:41:00.0, 0000:42:00.0, ... and 0000:81:00.0, ...; each has up
 * to seven VFs by sriov_numvfs. The drivers are named igb and igbvf, as those of the NICs that QEMU
 * emulates, and slots are named 1, 2, ..., so that udev names the interfaces ens1, ens1v0, ...
 *
 * Parameters:
 *   nics	how many NICs there are: 8, at most 32
 *   machine	the number of the machine, from 1; it is part of the MAC addresses
 *   wire	a net device of the initial network namespace that the wire goes on through
 *
 * The PF with index N, counted over both roots, on NUMA node R has the MAC address 52:54:00:0M:0R:0N,
 * where M is machine - 1. The third byte of its VF number V is V + 1 instead.
 *
 * All ports share one wire (wire.c): each receives what its address filters let through. The embedded
 * switch of a NIC applies the VLAN, spoof check and trust of VFs. A VF whose link state is auto has a
 * carrier while its PF's function has one, whether or not the PF's net device is up.
 *
 * /sys/kernel/debug/boxnic/<PCI address>/ of a PF or VF has these files. Their state is lost with the
 * PCI function, not with the binding of its driver:
 *   carrier	1 or 0: whether the cable is plugged in. A VF has a carrier of its own besides its PF's.
 *   flap	written "N [MS]": carrier off and on N times, MS (10) milliseconds each
 *   speed	what ethtool shows, in Mb/s: 1000
 *   loss	per mille of the frames sent, and of those received, that are dropped: 0; 1000: all
 *   fail	written "OPERATION ERRNO [COUNT]": the next COUNT (1) calls of the operation fail with that
 *		error number, 0 calls none. It shows what is still to fail. Operations: probe sriov open
 *		mtu mac features vlan vf rings channels coalesce pause rss priv-flags reset
 *
 * A function level reset clears the command register and SR-IOV control, as on hardware; the carrier is
 * off meanwhile. ethtool's reset takes the carrier off and on. "ethtool -S" counts both. The module
 * can be unloaded at any time: its buses go with it. Unloading waits, as unbinding does, for a
 * program that has one of the functions open through vfio.
 *
 * Limits: no BARs, no interrupts, no DMA; rates of VFs are stored only; rings, coalescing, pause, RSS
 * and private flags are stored only; a MAC address that the PF sets is in effect when the driver of the VF
 * is bound next. The machine must have no NUMA and no PCI domain 0 of its own.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/pci.h>

#include "boxnic.h"

#define ROOTS 2
#define MAX_NICS 32
#define VF_OFFSET 0x80
#define VF_STRIDE 2
#define EXP 0x40
#define SRIOV 0x100

static int nics = 8;
module_param(nics, int, 0444);
MODULE_PARM_DESC(nics, "number of NICs");
static int machine = 1;
module_param(machine, int, 0444);
MODULE_PARM_DESC(machine, "number of the machine, for MAC addresses");
static char *wire = "";
module_param(wire, charp, 0444);
MODULE_PARM_DESC(wire, "net device that the wire goes on through");

struct root {
	struct pci_bus *bus;
	struct resource numbers;
	struct boxnic_nic *first;
	int number, nics;
};

static struct boxnic_nic *all;
static struct root roots[ROOTS];

static void put(struct boxnic_function *f, int at, int size, u32 value)
{
	for (; size--; value >>= 8)
		f->space[at++] = value;
}

static u32 get(const struct boxnic_function *f, int at, int size)
{
	u32 value = 0;

	while (size--)
		value = value << 8 | f->space[at + size];
	return value;
}

static void fill(struct boxnic_function *f, u32 id, u32 class, u8 header, u16 type)
{
	put(f, PCI_VENDOR_ID, 4, id);
	put(f, PCI_STATUS, 2, PCI_STATUS_CAP_LIST);
	put(f, PCI_CLASS_REVISION, 4, class << 8 | 1);
	put(f, PCI_HEADER_TYPE, 1, header);
	put(f, PCI_CAPABILITY_LIST, 1, EXP);
	put(f, EXP, 2, PCI_CAP_ID_EXP);
	put(f, EXP + PCI_EXP_FLAGS, 2, 2 | type << 4);
	put(f, EXP + PCI_EXP_LNKCAP, 4, PCI_EXP_LNKCAP_SLS_2_5GB | 1 << 4 | PCI_EXP_LNKCAP_DLLLARC);
	put(f, EXP + PCI_EXP_LNKSTA, 2,
	    PCI_EXP_LNKSTA_CLS_2_5GB | PCI_EXP_LNKSTA_NLW_X1 | PCI_EXP_LNKSTA_DLLLA);
	f->writable[PCI_COMMAND] = PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	f->writable[PCI_CACHE_LINE_SIZE] = 0xff;
	f->writable[PCI_INTERRUPT_LINE] = 0xff;
}

static void fill_endpoint(struct boxnic_function *f, struct boxnic_nic *nic, int vf, u32 id)
{
	f->nic = nic;
	f->vf = vf;
	fill(f, id, PCI_CLASS_NETWORK_ETHERNET << 8, PCI_HEADER_TYPE_NORMAL, PCI_EXP_TYPE_ENDPOINT);
	put(f, PCI_SUBSYSTEM_VENDOR_ID, 2, BOXNIC_VENDOR);
	put(f, EXP + PCI_EXP_DEVCAP, 4, PCI_EXP_DEVCAP_FLR | PCI_EXP_DEVCAP_RBER);
}

static void fill_nic(struct boxnic_nic *nic)
{
	struct boxnic_function *pf = &nic->pf;
	int vf;

	fill(&nic->port, 0x000c1b36, PCI_CLASS_BRIDGE_PCI_NORMAL, PCI_HEADER_TYPE_BRIDGE,
	     PCI_EXP_TYPE_ROOT_PORT);
	memset(nic->port.writable + PCI_PRIMARY_BUS, 0xff, 4);
	memset(nic->port.writable + PCI_MEMORY_BASE, 0xff, 4);
	fill_endpoint(pf, nic, -1, BOXNIC_PF_ID << 16 | BOXNIC_VENDOR);
	put(pf, SRIOV, 4, PCI_EXT_CAP_ID_SRIOV | 1 << 16);
	put(pf, SRIOV + PCI_SRIOV_INITIAL_VF, 2, BOXNIC_VFS);
	put(pf, SRIOV + PCI_SRIOV_TOTAL_VF, 2, BOXNIC_VFS);
	put(pf, SRIOV + PCI_SRIOV_VF_OFFSET, 2, VF_OFFSET);
	put(pf, SRIOV + PCI_SRIOV_VF_STRIDE, 2, VF_STRIDE);
	put(pf, SRIOV + PCI_SRIOV_VF_DID, 2, BOXNIC_VF_ID);
	put(pf, SRIOV + PCI_SRIOV_SUP_PGSIZE, 4, 0x553);
	put(pf, SRIOV + PCI_SRIOV_SYS_PGSIZE, 4, 1);
	memset(pf->writable + SRIOV + PCI_SRIOV_CTRL, 0xff, 2);
	memset(pf->writable + SRIOV + PCI_SRIOV_NUM_VF, 0xff, 2);
	for (vf = 0; vf < BOXNIC_VFS; vf++)
		fill_endpoint(&nic->vf[vf], nic, vf, ~0U);
}

static struct boxnic_nic *behind(const struct root *root, u8 bus)
{
	int i;

	for (i = 0; i < root->nics; i++)
		if (bus && get(&root->first[i].port, PCI_SECONDARY_BUS, 1) == bus)
			return &root->first[i];
	return NULL;
}

struct boxnic_function *boxnic_find(struct pci_bus *bus, unsigned int devfn)
{
	struct root *root = bus->sysdata;
	struct boxnic_nic *nic;
	int vf, slot = PCI_SLOT(devfn);

	if (bus->number == root->number)
		return PCI_FUNC(devfn) || slot >= root->nics ? NULL : &root->first[slot].port;
	nic = behind(root, bus->number);
	if (!nic)
		return NULL;
	if (!devfn)
		return &nic->pf;
	vf = devfn - VF_OFFSET;
	if (vf < 0 || vf % VF_STRIDE || vf / VF_STRIDE >= BOXNIC_VFS ||
	    !(get(&nic->pf, SRIOV + PCI_SRIOV_CTRL, 2) & PCI_SRIOV_CTRL_VFE))
		return NULL;
	return &nic->vf[vf / VF_STRIDE];
}

static int config_read(struct pci_bus *bus, unsigned int devfn, int at, int size, u32 *value)
{
	struct boxnic_function *f = boxnic_find(bus, devfn);

	*value = f ? get(f, at, size) : ~0U;
	return f ? PCIBIOS_SUCCESSFUL : PCIBIOS_DEVICE_NOT_FOUND;
}

static void function_level_reset(struct boxnic_function *f)
{
	put(f, PCI_COMMAND, 2, 0);
	if (f->vf < 0)
		put(f, SRIOV + PCI_SRIOV_CTRL, 2, 0);
	atomic64_inc(&f->stats[BOXNIC_RESETS]);
}

static int config_write(struct pci_bus *bus, unsigned int devfn, int at, int size, u32 value)
{
	struct boxnic_function *f = boxnic_find(bus, devfn);

	if (!f)
		return PCIBIOS_DEVICE_NOT_FOUND;
	if (f->nic && at == EXP + PCI_EXP_DEVCTL && value & PCI_EXP_DEVCTL_BCR_FLR)
		function_level_reset(f);
	for (; size--; at++, value >>= 8)
		f->space[at] = (f->space[at] & ~f->writable[at]) | (value & f->writable[at]);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops config_ops = { .read = config_read, .write = config_write };

void boxnic_default_mac(const struct boxnic_function *f, u8 *mac)
{
	const u8 address[ETH_ALEN] = {
		0x52, 0x54, f->vf + 1, machine - 1, f->nic->numa_node, f->nic->index
	};

	ether_addr_copy(mac, address);
}

/* This kernel has no NUMA, so the PCI core has no such attribute. */
static ssize_t numa_node_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct root *root = to_pci_dev(dev)->bus->sysdata;

	return sysfs_emit(buf, "%d\n", (int)(root - roots));
}
static DEVICE_ATTR_RO(numa_node);

static void add_slot(struct boxnic_nic *nic, struct pci_bus *bus)
{
	char name[8];

	snprintf(name, sizeof(name), "%d", nic->index + 1);
	nic->slot = pci_create_slot(bus, 0, name, NULL);
	if (IS_ERR(nic->slot))
		nic->slot = NULL;
}

static int on_pci_bus(struct notifier_block *block, unsigned long action, void *data)
{
	struct pci_dev *pdev = to_pci_dev(data);
	struct boxnic_function *f;

	if (pdev->bus->ops != &config_ops)
		return NOTIFY_DONE;
	f = boxnic_find(pdev->bus, pdev->devfn);
	if (action == BUS_NOTIFY_ADD_DEVICE) {
		if (device_create_file(&pdev->dev, &dev_attr_numa_node))
			pci_warn(pdev, "no attribute numa_node\n");
		if (f && f->nic)
			boxnic_debugfs_add(f, pci_name(pdev));
		if (f && f->nic && f->vf < 0)
			add_slot(f->nic, pdev->bus);
	} else if (action == BUS_NOTIFY_DEL_DEVICE && f && f->nic) {
		boxnic_debugfs_del(f);
		if (f->vf < 0 && f->nic->slot)
			pci_destroy_slot(f->nic->slot);
	}
	return NOTIFY_DONE;
}

static struct notifier_block notifier = { .notifier_call = on_pci_bus };

static int add_root(struct root *root)
{
	struct pci_host_bridge *bridge = pci_alloc_host_bridge(0);
	int err;

	if (!bridge)
		return -ENOMEM;
	root->number = 0x40 + (root - roots) * 0x40;
	root->numbers = (struct resource){
		.name = "bus", .start = root->number, .end = root->number + 0x3f,
		.flags = IORESOURCE_BUS,
	};
	pci_add_resource(&bridge->windows, &root->numbers);
	bridge->ops = &config_ops;
	bridge->sysdata = root;
	bridge->busnr = root->number;
	err = pci_host_probe(bridge);
	if (err) {
		pci_free_host_bridge(bridge);
		return err;
	}
	root->bus = bridge->bus;
	return 0;
}

static void remove_root(struct root *root)
{
	struct pci_host_bridge *bridge;

	if (!root->bus)
		return;
	bridge = to_pci_host_bridge(root->bus->bridge);
	pci_lock_rescan_remove();
	pci_stop_root_bus(root->bus);
	pci_remove_root_bus(root->bus);
	pci_unlock_rescan_remove();
	pci_free_host_bridge(bridge);
}

static void build_nics(void)
{
	int i;

	for (i = 0; i < nics; i++) {
		struct root *root = &roots[i * ROOTS / nics];

		if (!root->nics++)
			root->first = &all[i];
		all[i].index = i;
		all[i].numa_node = root - roots;
		fill_nic(&all[i]);
	}
}

static void remove_all(void)
{
	int i;

	for (i = 0; i < ROOTS; i++)
		remove_root(&roots[i]);
	pci_unregister_driver(&boxnic_pf_driver);
	pci_unregister_driver(&boxnic_vf_driver);
	bus_unregister_notifier(&pci_bus_type, &notifier);
	boxnic_debugfs_exit();
	boxnic_numa_exit();
	boxnic_wire_close();
	kvfree(all);
}

static int __init boxnic_init(void)
{
	int i, err;

	if (nics < 0 || nics > MAX_NICS)
		return -EINVAL;
	all = kvcalloc(nics, sizeof(*all), GFP_KERNEL);
	if (!all)
		return -ENOMEM;
	build_nics();
	err = boxnic_wire_open(wire);
	if (err)
		goto free;
	err = boxnic_numa_init();
	if (err)
		goto close;
	err = pci_register_driver(&boxnic_vf_driver);
	if (err)
		goto forget;
	err = pci_register_driver(&boxnic_pf_driver);
	if (err)
		goto unregister;
	boxnic_debugfs_init();
	bus_register_notifier(&pci_bus_type, &notifier);
	for (i = 0; i < ROOTS && !err; i++)
		err = add_root(&roots[i]);
	if (err)
		remove_all();
	return err;

unregister:
	pci_unregister_driver(&boxnic_vf_driver);
forget:
	boxnic_numa_exit();
close:
	boxnic_wire_close();
free:
	kvfree(all);
	return err;
}
module_init(boxnic_init);
module_exit(remove_all);

MODULE_DESCRIPTION("SR-IOV NICs without hardware");
MODULE_LICENSE("Dual MIT/GPL");
