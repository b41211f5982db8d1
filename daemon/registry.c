#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/node.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const struct node *guarded;

// A ledger is its owner's file: who truncates it must not take the daemon along. The mapping
// is replaced by empty memory, and the vGPU is known as damaged from then on.
static void mend_mapping(int signal, siginfo_t *info, void *context)
{
	for (struct vgpu *vgpu = guarded->vgpus; vgpu; vgpu = vgpu->next) {
		void *address;
		size_t length;
		vg_ledger_range(vgpu->ledger, &address, &length);
		if ((char *)info->si_addr < (char *)address || (char *)info->si_addr >= (char *)address + length)
			continue;
		vgpu->damaged = true;
		if (mmap(address, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
		    address)
			return;
	}
	raise(SIGABRT);
}

void registry_guard(struct node *node)
{
	struct sigaction action = {.sa_sigaction = mend_mapping, .sa_flags = SA_SIGINFO};

	guarded = node;
	sigaction(SIGBUS, &action, NULL);
}

struct vgpu *registry_find(const struct node *node, const char *name)
{
	for (struct vgpu *vgpu = node->vgpus; vgpu; vgpu = vgpu->next)
		if (strcmp(vgpu->name, name) == 0)
			return vgpu;
	return NULL;
}

static bool is_alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool registry_name_is_valid(const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= VG_LEDGER_NAME || !is_alphanumeric(*name))
		return false;
	for (const char *at = name; *at; at++)
		if (!is_alphanumeric(*at) && !strchr("._-", *at))
			return false;
	return true;
}

static void set_path(const struct node *node, struct vgpu *vgpu)
{
	snprintf(vgpu->path, sizeof vgpu->path, "%s/ledgers/%s", node->runtime_dir, vgpu->name);
}

static struct vgpu *list(struct node *node, const struct vgpu *wanted, struct vg_ledger *ledger)
{
	struct vgpu *vgpu = malloc(sizeof *vgpu);

	if (!vgpu)
		return NULL;
	*vgpu = *wanted;
	set_path(node, vgpu);
	vgpu->ledger = ledger;
	vgpu->launchers = NULL;
	vgpu->tenants = NULL;
	vgpu->next = node->vgpus;
	node->vgpus = vgpu;
	return vgpu;
}

int registry_add(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu)
{
	struct vgpu named = *wanted;
	struct vg_ledger *ledger;
	bool measured;
	struct vg_ledger_options options = {
		.name = wanted->name, .limit = wanted->memory, .share_percent = wanted->share,
		.owner = node->system_wide ? wanted->owner : (uid_t)-1, .group = wanted->group};

	set_path(node, &named);
	memcpy(options.uuid, vg_system_device(node->system, wanted->device)->uuid, sizeof options.uuid);
	options.context_overhead = overhead_estimate(node, wanted->device, &measured);
	options.flags = (node->simulated ? VG_LEDGER_SIMULATED : 0) | (measured ? VG_LEDGER_OVERHEAD_MEASURED : 0) |
			(wanted->ephemeral ? VG_LEDGER_EPHEMERAL : 0);
	int r = vg_ledger_create(named.path, &options, &ledger);
	if (r < 0)
		return r;
	struct vgpu *vgpu = list(node, wanted, ledger);
	if (!vgpu) {
		unlink(named.path);
		vg_ledger_close(ledger);
		return -ENOMEM;
	}
	*ret_vgpu = vgpu;
	return 0;
}

static bool is_the_same(const struct node *node, const struct vgpu *wanted, const struct vg_ledger *ledger)
{
	uint8_t uuid[16];

	vg_ledger_uuid(ledger, uuid);
	return strcmp(vg_ledger_name(ledger), wanted->name) == 0 &&
	       memcmp(uuid, vg_system_device(node->system, wanted->device)->uuid, sizeof uuid) == 0;
}

// The limit that tenants obey is the ledger's. It differs from what was remembered only where a
// daemon died between the two, except 0: that one was on its way out, and has nobody in it.
static void adopt_limit(struct vgpu *vgpu, uint64_t device_memory)
{
	uint64_t limit, charged;

	vg_ledger_read(vgpu->ledger, &limit, &charged);
	if (limit > 0 && limit <= device_memory)
		vgpu->memory = limit;
	else
		vg_ledger_set_limit(vgpu->ledger, vgpu->memory, &charged);
	vg_ledger_set_share(vgpu->ledger, vgpu->share);
}

int registry_adopt(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu)
{
	struct vgpu named = *wanted, *vgpu;
	struct vg_ledger *ledger;

	set_path(node, &named);
	int r = vg_ledger_open(named.path, &ledger);
	if (r == 0 && !is_the_same(node, wanted, ledger)) {
		vg_ledger_close(ledger);
		r = -EPROTO;
	}
	if (r < 0) {
		if (r != -ENOENT)
			say("the ledger of vGPU %s is no longer one (%s): a new one is made", wanted->name,
			    strerror(-r));
		unlink(named.path);
		return wanted->ephemeral ? 1 : registry_add(node, wanted, ret_vgpu);
	}
	vgpu = list(node, wanted, ledger);
	if (!vgpu) {
		vg_ledger_close(ledger);
		return -ENOMEM;
	}
	adopt_limit(vgpu, vg_system_device(node->system, vgpu->device)->memory);
	tenant_scan(node, vgpu);
	*ret_vgpu = vgpu;
	return 0;
}

static bool find_device(const struct node *node, const uint8_t uuid[16], size_t *ret_device)
{
	for (size_t i = 0; i < vg_system_device_count(node->system); i++) {
		if (memcmp(vg_system_device(node->system, i)->uuid, uuid, 16) == 0) {
			*ret_device = i;
			return true;
		}
	}
	return false;
}

static void adopt_stray(struct node *node, const char *name)
{
	struct vgpu stray = {.ephemeral = true, .group = (gid_t)-1}, *vgpu;
	struct vg_ledger *ledger;
	struct stat status;
	uint64_t charged;
	uint8_t uuid[16];

	bool valid = registry_name_is_valid(name);
	snprintf(stray.name, sizeof stray.name, "%.*s", VG_LEDGER_NAME - 1, name);
	set_path(node, &stray);
	bool good = valid && stat(stray.path, &status) == 0 &&
		    vg_ledger_open(stray.path, &ledger) == 0;
	if (good) {
		vg_ledger_uuid(ledger, uuid);
		vg_ledger_read(ledger, &stray.memory, &charged);
		stray.share = vg_ledger_share(ledger);
		stray.owner = status.st_uid;
		stray.created = (double)vg_clock_realtime_ns() / 1e9;
		good = find_device(node, uuid, &stray.device);
		vg_ledger_close(ledger);
	}
	if (!good)
		say("%s/ledgers/%s is no ledger of this node: left alone", node->runtime_dir, name);
	else if (registry_adopt(node, &stray, &vgpu) != 0)
		unlink(stray.path);
}

void registry_adopt_strays(struct node *node)
{
	char path[PATH_MAX];
	struct dirent *entry;

	snprintf(path, sizeof path, "%s/ledgers", node->runtime_dir);
	DIR *folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.' && !registry_find(node, entry->d_name))
			adopt_stray(node, entry->d_name);
	if (folder)
		closedir(folder);
}

void registry_drop(struct node *node, struct vgpu *vgpu)
{
	struct vgpu **link = &node->vgpus;

	vg_ledger_set_flags(vgpu->ledger, vg_ledger_flags(vgpu->ledger) | VG_LEDGER_REMOVED);
	unlink(vgpu->path);
	launcher_drop_all(node, vgpu);
	tenant_drop_all(node, vgpu);
	while (*link != vgpu)
		link = &(*link)->next;
	*link = vgpu->next;
	vg_ledger_close(vgpu->ledger);
	free(vgpu);
}
