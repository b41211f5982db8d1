#include "daemon/vgpu.h"

#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/arbiter.h"
#include "daemon/damage.h"
#include "daemon/journal.h"
#include "daemon/launcher.h"
#include "daemon/leftover.h"
#include "daemon/names.h"
#include "daemon/options.h"
#include "daemon/overhead.h"
#include "daemon/path.h"
#include "daemon/registry.h"
#include "daemon/residence.h"
#include "daemon/say.h"
#include "daemon/search.h"
#include "daemon/tenant.h"
#include "daemon/user.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Adds a vGPU with its ledger to the list. Returns NULL if there is no memory.
static struct vgpu *add_to_list(struct node *node, const struct vgpu *wanted, struct vg_ledger *ledger)
{
	struct vgpu *vgpu = malloc(sizeof *vgpu);

	if (!vgpu)
		return NULL;
	*vgpu = *wanted;
	snprintf(vgpu->path, sizeof vgpu->path, "%s/ledgers/%s", node->runtime_dir, vgpu->name);
	vgpu->ledger = ledger;
	vgpu->limit = vgpu->memory;
	user_of(vgpu->owner)->vgpus++;
	names_expect_user(vgpu->owner);
	if (vgpu->group != (gid_t)-1)
		names_expect_group(vgpu->group, vgpu->owner);
	vgpu->next = node->vgpus;
	node->vgpus = vgpu;
	residence_begin(node, vgpu);
	return vgpu;
}

static int make_ledger(const struct node *node, const struct vgpu *wanted, struct vg_ledger **ret_ledger)
{
	char path[PATH_MAX];
	bool measured;
	struct vg_ledger_options options = {.name = wanted->name,
					    .limit = wanted->memory,
					    .share_percent = wanted->terms.share,
					    .swap = wanted->swap,
					    .fixed = wanted->fixed,
					    .owner = node->system_wide ? wanted->owner : (uid_t)-1,
					    .group = wanted->group};

	memcpy(options.uuid, vg_system_device(node->system, wanted->device)->uuid, sizeof options.uuid);
	options.context_overhead = overhead_estimate(node, wanted->device, wanted->owner, &measured);
	options.flags = (node->simulated ? VG_LEDGER_SIMULATED : 0) | (measured ? VG_LEDGER_OVERHEAD_MEASURED : 0) |
			(*wanted->job ? VG_LEDGER_JOB : 0) | (wanted->ephemeral ? VG_LEDGER_EPHEMERAL : 0) |
			(wanted->evictable ? VG_LEDGER_EVICTABLE : 0);
	registry_path(node, wanted, path);
	return vg_ledger_create(path, &options, ret_ledger);
}

static void remove_file(const struct node *node, const struct vgpu *vgpu)
{
	char path[PATH_MAX];

	registry_path(node, vgpu, path);
	unlink(path);
}

int vgpu_add(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu)
{
	struct vg_ledger *ledger;

	int r = make_ledger(node, wanted, &ledger);
	if (r < 0)
		return r;
	struct vgpu *vgpu = add_to_list(node, wanted, ledger);
	if (!vgpu) {
		remove_file(node, wanted);
		vg_ledger_close(ledger);
		return -ENOMEM;
	}
	*ret_vgpu = vgpu;
	return 0;
}

int vgpu_renew(struct node *node, struct vgpu *vgpu)
{
	struct vg_ledger *ledger;

	remove_file(node, vgpu); // another process may have put a file of its own at the path
	int r = make_ledger(node, vgpu, &ledger);
	if (r < 0)
		return r;
	arbiter_forget(vgpu);
	vg_ledger_close(vgpu->ledger);
	vgpu->ledger = ledger;
	vgpu->damage = DAMAGE_NONE;
	vgpu->damage_text = NULL;
	vgpu->was_damaged_at_start = false;
	vgpu->heirs = HEIRS_UNKNOWN;
	vgpu->refusals_in_journal = 0;
	journal_add(node, JOURNAL_RENEWED, &(struct journal_note){.vgpu = vgpu}, "its damaged ledger was made again");
	return 0;
}

// Writes the limit and the share from the state file into the ledger, which the tenants obey. The ledger can have other
// values if a daemon ended after it had written only one of the two files. It can also have them if a tenant has
// changed the ledger.
static void adopt_limit(struct vgpu *vgpu)
{
	uint64_t charged;

	vg_ledger_set_limit(vgpu->ledger, vgpu->memory, &charged);
	vg_ledger_set_share(vgpu->ledger, vgpu->terms.share);
}

// Adds the vGPU with its old ledger, or with a blank one if the old one cannot be opened. *ret_r is 0, or the error of
// opening.
static struct vgpu *add_old(struct node *node, const struct vgpu *wanted, int *ret_r)
{
	struct vg_ledger *ledger;
	char path[PATH_MAX];

	registry_path(node, wanted, path);
	int r = vg_ledger_open(path, &ledger);
	int opened = r < 0 ? vg_ledger_create_blank(&ledger) : 0;
	struct vgpu *vgpu = opened == 0 ? add_to_list(node, wanted, ledger) : NULL;
	if (vgpu)
		arbiter_open_gate(ledger);
	if (!vgpu && opened == 0)
		vg_ledger_close(ledger);
	*ret_r = r;
	if (!vgpu)
		return NULL;
	vgpu->damage = r < 0 ? DAMAGE_CONTENTS : DAMAGE_NONE;
	vgpu->damage_text = r == -ENOENT ? "its file was removed" : r < 0 ? "its file is no ledger" : NULL;
	if (r == 0)
		adopt_limit(vgpu);
	damage_check(node, vgpu);
	return vgpu;
}

// Removes the vGPU from the list, but keeps the file of its ledger.
static void forget_vgpu(struct node *node, struct vgpu *vgpu)
{
	struct vgpu **link = &node->vgpus;

	launcher_drop_all(node, vgpu);
	tenant_drop_all(node, vgpu);
	while (*link != vgpu)
		link = &(*link)->next;
	arbiter_forget(vgpu);
	*link = vgpu->next;
	if (node->scan_next == vgpu)
		node->scan_next = vgpu->next;
	search_forget(vgpu);
	user_of(vgpu->owner)->vgpus--;
	vg_ledger_close(vgpu->ledger);
	free(vgpu->history);
	free(vgpu);
}

static bool is_missing_or_broken(int r)
{
	return r == 0 || r == -ENOENT || r == -EPROTO || r == -ELOOP;
}

int vgpu_adopt(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu)
{
	int r;
	struct vgpu *vgpu = add_old(node, wanted, &r);

	if (!vgpu)
		return r < 0 ? r : -ENOMEM;
	if (!is_missing_or_broken(r)) { // the ledger may be valid, although it cannot be read now
		forget_vgpu(node, vgpu);
		return r;
	}
	vgpu->was_damaged_at_start = vgpu->damage;
	if (!vgpu->damage)
		vgpu->refusals_in_journal = vg_ledger_refusal_count(vgpu->ledger);
	// the vGPU counts as one whose last launcher has just ended, until the caller takes over a launcher
	vgpu->left_ns = vg_clock_monotonic_ns();
	tenant_scan(node, vgpu);
	*ret_vgpu = vgpu;
	return 0;
}

// Reads the terms of a vGPU from its ledger, for a ledger that no state file describes. Returns false if the file is
// not a ledger of this daemon.
static bool read_stray(const struct node *node, const char *path, struct vgpu *stray)
{
	struct vg_ledger *ledger;
	struct stat status;
	uint64_t charged;
	uint8_t uuid[16];

	if (stat(path, &status) < 0 || vg_ledger_open(path, &ledger) != 0)
		return false;
	registry_guard_ledger(ledger);
	vg_ledger_uuid(ledger, uuid);
	vg_ledger_read(ledger, &stray->memory, &charged);
	stray->terms.share = vg_ledger_share(ledger) <= 100 ? vg_ledger_share(ledger) : 0;
	options_read_ledger(ledger, stray);
	registry_guard_ledger(NULL);
	vg_ledger_close(ledger);
	stray->owner = status.st_uid;
	stray->created = (double)vg_clock_realtime_ns() / 1e9;
	if (!registry_find_device(node, uuid, &stray->device))
		return false;
	// Only the ledger has this vGPU's limit, and tenants can write any value there.
	uint64_t most = vg_system_device(node->system, stray->device)->memory;
	if (stray->memory > most)
		stray->memory = most;
	return true;
}

static void adopt_stray(struct node *node, const char *name)
{
	struct vgpu stray = {.ephemeral = true, .group = (gid_t)-1}, *vgpu;
	char path[PATH_MAX];

	snprintf(stray.name, sizeof stray.name, "%.*s", VG_LEDGER_NAME - 1, name);
	registry_path(node, &stray, path);
	if (!registry_name_is_valid(name) || !read_stray(node, path, &stray))
		say("%s/ledgers/%s is no ledger of this node: left alone", node->runtime_dir, name);
	else if (vgpu_adopt(node, &stray, &vgpu) != 0)
		unlink(path);
}

void vgpu_adopt_strays(struct node *node)
{
	char path[PATH_MAX];
	struct dirent *entry;

	path_format(node, path, "ledgers");
	DIR *directory = opendir(path);
	while (directory && (entry = readdir(directory)))
		if (entry->d_name[0] != '.' && !registry_find(node, entry->d_name))
			adopt_stray(node, entry->d_name);
	if (directory)
		closedir(directory);
}

void vgpu_drop(struct node *node, struct vgpu *vgpu)
{
	int left = leftover_open(node, vgpu);
	uid_t owner = vgpu->owner;

	vg_ledger_set_flags(vgpu->ledger, vg_ledger_flags(vgpu->ledger) | VG_LEDGER_REMOVED);
	remove_file(node, vgpu);
	forget_vgpu(node, vgpu);
	leftover_keep(left, owner);
}
