// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The NUMA nodes of the roots: /sys/devices/system/node. User Mode Linux has none of its own.
 *
 * Node 0 has the CPU. Each node has half of the memory, which is told and not so. The distances are
 * those of a server with two sockets.
 */
#include <linux/cpu.h>
#include <linux/device.h>
#include <linux/mm.h>

#include "boxnic.h"

#define NODES 2
#define NEAR 10
#define FAR 20

static const struct bus_type nodes = { .name = "node", .dev_name = "node" };
static struct device *node[NODES];

static ssize_t distance_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d %d\n", dev->id ? FAR : NEAR, dev->id ? NEAR : FAR);
}
static DEVICE_ATTR_RO(distance);

static ssize_t cpulist_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", dev->id ? "" : "0");
}
static DEVICE_ATTR_RO(cpulist);

static ssize_t meminfo_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	unsigned long total = totalram_pages() / NODES << (PAGE_SHIFT - 10);

	return sysfs_emit(buf, "Node %d MemTotal: %8lu kB\n", dev->id, total);
}
static DEVICE_ATTR_RO(meminfo);

static struct attribute *node_attrs[] = {
	&dev_attr_distance.attr, &dev_attr_cpulist.attr, &dev_attr_meminfo.attr, NULL
};
ATTRIBUTE_GROUPS(node);

static void release(struct device *dev)
{
	kfree(dev);
}

static struct device *add_node(int id)
{
	struct device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int err;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->id = id;
	dev->bus = &nodes;
	dev->groups = node_groups;
	dev->release = release;
	err = device_register(dev);
	if (err) {
		put_device(dev);
		return ERR_PTR(err);
	}
	return dev;
}

int boxnic_numa_init(void)
{
	struct device *cpu = get_cpu_device(0);
	int i, err = subsys_system_register(&nodes, NULL);

	for (i = 0; i < NODES && !err; i++) {
		node[i] = add_node(i);
		err = PTR_ERR_OR_ZERO(node[i]);
	}
	if (!err && cpu)
		err = sysfs_create_link(&node[0]->kobj, &cpu->kobj, kobject_name(&cpu->kobj));
	if (err)
		boxnic_numa_exit();
	return err;
}

void boxnic_numa_exit(void)
{
	int i;

	for (i = 0; i < NODES; i++)
		if (!IS_ERR_OR_NULL(node[i]))
			device_unregister(node[i]);
	bus_unregister(&nodes);
}
