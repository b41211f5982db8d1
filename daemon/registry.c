#include "daemon/registry.h"

#include "daemon/path.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

static const struct node *guarded;
static const struct vg_ledger *guarded_ledger; // a ledger that is protected, but not in the list yet
static bool (*mend_other_mapping)(const struct node *node, const void *address);

// If the address `fault` is in the mapping, replaces the mapping by empty memory.
static bool empty_mapping(const void *fault, void *address, size_t length)
{
	return (const char *)fault >= (char *)address && (const char *)fault < (char *)address + length &&
	       mmap(address, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == address;
}

static bool empty_ledger(const void *fault, const struct vg_ledger *ledger)
{
	void *address;
	size_t length;

	vg_ledger_range(ledger, &address, &length);
	return empty_mapping(fault, address, length);
}

// Handles SIGBUS. The owner of a ledger can truncate it, which must not end the daemon. From then on the vGPU is
// damaged.
static void mend_mapping(int signal, siginfo_t *info, void *context)
{
	for (struct vgpu *vgpu = guarded->vgpus; vgpu; vgpu = vgpu->next) {
		if (!empty_ledger(info->si_addr, vgpu->ledger))
			continue;
		vgpu->damage = DAMAGE_CONTENTS;
		return;
	}
	if (guarded_ledger && empty_ledger(info->si_addr, guarded_ledger))
		return;
	if (!mend_other_mapping(guarded, info->si_addr))
		raise(SIGABRT);
}

void registry_guard(struct node *node, bool (*mend_other)(const struct node *node, const void *address))
{
	struct sigaction action = {.sa_sigaction = mend_mapping, .sa_flags = SA_SIGINFO};

	guarded = node;
	mend_other_mapping = mend_other;
	sigaction(SIGBUS, &action, NULL);
}

void registry_guard_ledger(const struct vg_ledger *ledger)
{
	guarded_ledger = ledger;
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
	path_format(node, path, "ledgers/%s", vgpu->name);
}

bool registry_find_device(const struct node *node, const uint8_t uuid[16], size_t *ret_device)
{
	for (size_t i = 0; i < vg_system_device_count(node->system); i++) {
		if (memcmp(vg_system_device(node->system, i)->uuid, uuid, 16) == 0) {
			*ret_device = i;
			return true;
		}
	}
	return false;
}
