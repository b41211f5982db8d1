#include "base/clock.h"
#include "base/descriptor.h"
#include "daemon/arbiter.h"
#include "daemon/broker.h"
#include "daemon/eviction.h"
#include "daemon/names.h"
#include "daemon/user.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static const struct node *guarded;
static const struct vg_ledger *looked_at; // a ledger that is in no list yet

// Replaces the mapping that the address is in by empty memory.
static bool empty_mapping(const void *at, void *address, size_t length)
{
	return (const char *)at >= (char *)address && (const char *)at < (char *)address + length &&
	       mmap(address, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == address;
}

static bool empty_ledger(const void *at, const struct vg_ledger *ledger)
{
	void *address;
	size_t length;

	vg_ledger_range(ledger, &address, &length);
	return empty_mapping(at, address, length);
}

// A ledger is its owner's file, and in a user's own runtime directory the pages of publications are, too: whoever
// truncates one must not take the daemon along. The vGPU is known as damaged from then on.
static void mend_mapping(int signal, siginfo_t *info, void *context)
{
	for (struct vgpu *vgpu = guarded->vgpus; vgpu; vgpu = vgpu->next) {
		if (!empty_ledger(info->si_addr, vgpu->ledger))
			continue;
		vgpu->damage = DAMAGE_CONTENTS;
		return;
	}
	if ((looked_at && empty_ledger(info->si_addr, looked_at)) || page_empty(guarded, info->si_addr))
		return;
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

void registry_path(const struct node *node, const struct vgpu *vgpu, char path[PATH_MAX])
{
	place_path(node, path, "ledgers/%s", vgpu->name);
}

static struct vgpu *list(struct node *node, const struct vgpu *wanted, struct vg_ledger *ledger)
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
	struct vg_ledger_options options = {
		.name = wanted->name, .limit = wanted->memory, .share_percent = wanted->terms.share,
		.swap = wanted->swap, .fixed = wanted->fixed,
		.owner = node->system_wide ? wanted->owner : (uid_t)-1, .group = wanted->group};

	memcpy(options.uuid, vg_system_device(node->system, wanted->device)->uuid, sizeof options.uuid);
	options.context_overhead = overhead_estimate(node, wanted->device, wanted->owner, &measured);
	options.flags = (node->simulated ? VG_LEDGER_SIMULATED : 0) | (measured ? VG_LEDGER_OVERHEAD_MEASURED : 0) |
			(wanted->ephemeral ? VG_LEDGER_EPHEMERAL : 0) | (wanted->evictable ? VG_LEDGER_EVICTABLE : 0);
	registry_path(node, wanted, path);
	return vg_ledger_create(path, &options, ret_ledger);
}

static void remove_file(const struct node *node, const struct vgpu *vgpu)
{
	char path[PATH_MAX];

	registry_path(node, vgpu, path);
	unlink(path);
}

int registry_add(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu)
{
	struct vg_ledger *ledger;

	int r = make_ledger(node, wanted, &ledger);
	if (r < 0)
		return r;
	struct vgpu *vgpu = list(node, wanted, ledger);
	if (!vgpu) {
		remove_file(node, wanted);
		vg_ledger_close(ledger);
		return -ENOMEM;
	}
	*ret_vgpu = vgpu;
	return 0;
}

int registry_renew(struct node *node, struct vgpu *vgpu)
{
	struct vg_ledger *ledger;

	remove_file(node, vgpu); // what is not ours
	int r = make_ledger(node, vgpu, &ledger);
	if (r < 0)
		return r;
	arbiter_forget(vgpu);
	vg_ledger_close(vgpu->ledger);
	vgpu->ledger = ledger;
	vgpu->damage = DAMAGE_NONE;
	vgpu->damage_text = NULL;
	vgpu->restarts = false;
	vgpu->heirs = HEIRS_UNKNOWN;
	return 0;
}

// The limit that tenants obey is the ledger's. It differs from what is remembered where a daemon died between the two,
// or where somebody wrote it there.
static void adopt_limit(struct vgpu *vgpu)
{
	uint64_t charged;

	vg_ledger_set_limit(vgpu->ledger, vgpu->memory, &charged);
	vg_ledger_set_share(vgpu->ledger, vgpu->terms.share);
}

// Lists the vGPU with the ledger that is there, or with a blank one: *ret_r says why it is of no use, 0: it is.
static struct vgpu *list_old(struct node *node, const struct vgpu *wanted, int *ret_r)
{
	struct vg_ledger *ledger;
	char path[PATH_MAX];

	registry_path(node, wanted, path);
	int r = vg_ledger_open(path, &ledger);
	int opened = r < 0 ? vg_ledger_create_blank(&ledger) : 0;
	struct vgpu *vgpu = opened == 0 ? list(node, wanted, ledger) : NULL;
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
	damage_look(node, vgpu);
	return vgpu;
}

// Takes it off the list; its file stays.
static void forget(struct node *node, struct vgpu *vgpu)
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
	free(vgpu);
}

static bool is_missing_or_broken(int r)
{
	return r == 0 || r == -ENOENT || r == -EPROTO || r == -ELOOP;
}

int registry_adopt(struct node *node, const struct vgpu *wanted, struct vgpu **ret_vgpu)
{
	int r;
	struct vgpu *vgpu = list_old(node, wanted, &r);

	if (!vgpu)
		return r < 0 ? r : -ENOMEM;
	if (!is_missing_or_broken(r)) { // it may be as good as ever
		forget(node, vgpu);
		return r;
	}
	vgpu->restarts = vgpu->damage;
	vgpu->left_ns = vg_clock_monotonic_ns(); // unless there are launchers: the caller adopts them next
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
	char path[PATH_MAX];
	struct stat status;
	uint64_t charged;
	uint8_t uuid[16];

	bool valid = registry_name_is_valid(name);
	snprintf(stray.name, sizeof stray.name, "%.*s", VG_LEDGER_NAME - 1, name);
	registry_path(node, &stray, path);
	bool good = valid && stat(path, &status) == 0 && vg_ledger_open(path, &ledger) == 0;
	if (good) {
		looked_at = ledger;
		vg_ledger_uuid(ledger, uuid);
		vg_ledger_read(ledger, &stray.memory, &charged);
		stray.terms.share = vg_ledger_share(ledger) <= 100 ? vg_ledger_share(ledger) : 0;
		eviction_adopt(ledger, &stray);
		stray.owner = status.st_uid;
		stray.created = (double)vg_clock_realtime_ns() / 1e9;
		good = find_device(node, uuid, &stray.device);
		looked_at = NULL;
		vg_ledger_close(ledger);
		// Nobody else knows its limit: it is the ledger's own word, as far as the device goes.
		if (good && stray.memory > vg_system_device(node->system, stray.device)->memory)
			stray.memory = vg_system_device(node->system, stray.device)->memory;
	}
	if (!good)
		say("%s/ledgers/%s is no ledger of this node: left alone", node->runtime_dir, name);
	else if (registry_adopt(node, &stray, &vgpu) != 0)
		unlink(path);
}

void registry_adopt_strays(struct node *node)
{
	char path[PATH_MAX];
	struct dirent *entry;

	place_path(node, path, "ledgers");
	DIR *folder = opendir(path);
	while (folder && (entry = readdir(folder)))
		if (entry->d_name[0] != '.' && !registry_find(node, entry->d_name))
			adopt_stray(node, entry->d_name);
	if (folder)
		closedir(folder);
}

void registry_drop(struct node *node, struct vgpu *vgpu)
{
	int left = leftover_open(node, vgpu);
	uid_t owner = vgpu->owner;

	vg_ledger_set_flags(vgpu->ledger, vg_ledger_flags(vgpu->ledger) | VG_LEDGER_REMOVED);
	remove_file(node, vgpu);
	forget(node, vgpu);
	leftover_keep(left, owner);
}
