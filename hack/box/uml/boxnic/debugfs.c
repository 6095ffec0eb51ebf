// SPDX-License-Identifier: MIT OR GPL-2.0
/* What a test can do to a PCI function: the files are described in pci.c. */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>

#include "boxnic.h"

#define MAX_FLAPS 1000
#define MAX_FLAP_MS 1000
#define MAX_LINE 64

static const char *const op_names[BOXNIC_OPS] = {
	[BOXNIC_PROBE] = "probe",
	[BOXNIC_SRIOV] = "sriov",
	[BOXNIC_OPEN] = "open",
	[BOXNIC_MTU] = "mtu",
	[BOXNIC_MAC] = "mac",
	[BOXNIC_FEATURES] = "features",
	[BOXNIC_VLAN] = "vlan",
	[BOXNIC_VF] = "vf",
	[BOXNIC_RINGS] = "rings",
	[BOXNIC_CHANNELS] = "channels",
	[BOXNIC_COALESCE] = "coalesce",
	[BOXNIC_PAUSE] = "pause",
	[BOXNIC_RSS] = "rss",
	[BOXNIC_PRIV_FLAGS] = "priv-flags",
	[BOXNIC_RESET] = "reset",
};

static struct dentry *top;

int boxnic_fail(struct boxnic_function *f, enum boxnic_op op)
{
	return atomic_dec_if_positive(&f->fail_left[op]) < 0 ? 0 : -f->fail_errno[op];
}

int boxnic_fail_port(struct net_device *dev, enum boxnic_op op)
{
	struct boxnic_port *port = netdev_priv(dev);

	return boxnic_fail(port->function, op);
}

static int carrier_get(void *data, u64 *value)
{
	struct boxnic_function *f = data;

	*value = f->carrier;
	return 0;
}

static int carrier_set(void *data, u64 value)
{
	rtnl_lock();
	boxnic_set_carrier(data, value);
	rtnl_unlock();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(carrier_fops, carrier_get, carrier_set, "%llu\n");

static int read_line(const char __user *from, size_t count, char *line)
{
	if (count >= MAX_LINE)
		return -EINVAL;
	if (copy_from_user(line, from, count))
		return -EFAULT;
	line[count] = 0;
	return 0;
}

static ssize_t flap_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct boxnic_function *f = file->private_data;
	char line[MAX_LINE];
	unsigned int flaps, ms = 10, i;
	int err = read_line(from, count, line);

	if (err)
		return err;
	if (sscanf(line, "%u %u", &flaps, &ms) < 1 || flaps > MAX_FLAPS || ms > MAX_FLAP_MS)
		return -EINVAL;
	for (i = 0; i < 2 * flaps; i++) {
		rtnl_lock();
		boxnic_set_carrier(f, i % 2);
		rtnl_unlock();
		msleep(ms);
	}
	return count;
}

static const struct file_operations flap_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.write = flap_write,
};

static int fail_show(struct seq_file *file, void *unused)
{
	struct boxnic_function *f = file->private;
	int op, left;

	for (op = 0; op < BOXNIC_OPS; op++) {
		left = atomic_read(&f->fail_left[op]);
		if (left > 0)
			seq_printf(file, "%s %d %d\n", op_names[op], f->fail_errno[op], left);
	}
	return 0;
}

static ssize_t fail_write(struct file *file, const char __user *from, size_t count, loff_t *at)
{
	struct boxnic_function *f = ((struct seq_file *)file->private_data)->private;
	char line[MAX_LINE], name[16];
	int op, number, calls = 1;
	int err = read_line(from, count, line);

	if (err)
		return err;
	if (sscanf(line, "%15s %d %d", name, &number, &calls) < 2)
		return -EINVAL;
	op = match_string(op_names, BOXNIC_OPS, name);
	if (op < 0 || number < 1 || number > MAX_ERRNO || calls < 0)
		return -EINVAL;
	f->fail_errno[op] = number;
	atomic_set(&f->fail_left[op], calls);
	return count;
}
DEFINE_SHOW_STORE_ATTRIBUTE(fail);

static void set_defaults(struct boxnic_function *f)
{
	int i;

	f->carrier = true;
	f->speed = SPEED_1000;
	f->loss = 0;
	for (i = 0; i < BOXNIC_OPS; i++)
		atomic_set(&f->fail_left[i], 0);
	for (i = 0; i < BOXNIC_STATS; i++)
		atomic64_set(&f->stats[i], 0);
}

void boxnic_debugfs_add(struct boxnic_function *f, const char *name)
{
	set_defaults(f);
	f->dir = debugfs_create_dir(name, top);
	debugfs_create_file_unsafe("carrier", 0600, f->dir, f, &carrier_fops);
	debugfs_create_file("flap", 0200, f->dir, f, &flap_fops);
	debugfs_create_u32("speed", 0600, f->dir, &f->speed);
	debugfs_create_u32("loss", 0600, f->dir, &f->loss);
	debugfs_create_file("fail", 0600, f->dir, f, &fail_fops);
}

void boxnic_debugfs_del(struct boxnic_function *f)
{
	debugfs_remove_recursive(f->dir);
}

void boxnic_debugfs_init(void)
{
	top = debugfs_create_dir("boxnic", NULL);
}

void boxnic_debugfs_exit(void)
{
	debugfs_remove_recursive(top);
}
