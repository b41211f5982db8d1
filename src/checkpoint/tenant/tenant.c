#include "checkpoint/tenant/tenant.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/process/refusal.h"
#include "ledger/guard.h"
#include "system/system.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void tenants_release_slots(struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->count; i++) {
		struct vg_ledger *stand_in = tenants->list[i].stand_in;
		if (stand_in) {
			vg_ledger_guard(stand_in);
			vg_ledger_leave(stand_in);
			(void)vg_ledger_unguard(); // if the ledger was truncated, there is nothing to refund
		}
		vg_ledger_close(stand_in);
		tenants->list[i].stand_in = NULL;
	}
}

void tenants_free(struct tenants *tenants)
{
	tenants_release_slots(tenants);
	for (size_t i = 0; i < tenants->vgpu_count; i++)
		vg_ledger_close(tenants->vgpus[i].ledger);
	free(tenants->list);
	free(tenants->slotless);
	free(tenants->vgpus);
	*tenants = (struct tenants){0};
}

enum vg_status tenant_pids(struct vg_node *node, const char *name, pid_t **ret_pids, size_t *ret_count)
{
	struct vg_vgpu_list *list;
	size_t count = 0;

	enum vg_status status = vg_vgpu_inspect(node, name, &list);
	if (status)
		return status;
	const struct vg_vgpu_info *vgpu = list->vgpus;
	pid_t *pids = calloc(vgpu->tenant_count + 1, sizeof *pids);
	for (size_t i = 0; pids && i < vgpu->tenant_count; i++)
		if (!vgpu->tenants[i].guest && !vgpu->tenants[i].ended && vgpu->tenants[i].pid > 0)
			pids[count++] = (pid_t)vgpu->tenants[i].pid;
	if (!pids)
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", vgpu->tenant_count);
	else if (!vgpu->tenants_known)
		status = vg_fail(VG_DENIED, 0, "who runs inside vGPU %s is for its owner and root to see", name);
	else if (!count)
		status = vg_fail(VG_NOT_FOUND, 0, "nobody runs inside vGPU %s", name);
	vg_vgpu_list_free(list);
	if (status) {
		free(pids);
		return status;
	}
	*ret_pids = pids;
	*ret_count = count;
	return VG_OK;
}

int tenant_owner(pid_t pid, struct vg_ledger_owner *ret_owner)
{
	struct vg_ledger_owner owner = {0};
	char path[64], text[8192];
	struct stat namespace;

	snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)pid);
	if (stat(path, &namespace) < 0)
		return -errno;
	owner.pid_namespace = (uint32_t) namespace.st_ino;
	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	ssize_t length = vg_file_read(path, text, sizeof text);
	char *line = length > 0 ? strstr(text, "\nNSpid:\t") : NULL;
	if (!line)
		return length < 0 ? (int)length : -ENODATA;
	line[1 + strcspn(line + 1, "\n")] = '\0';
	owner.pid = (uint32_t)atoi(strrchr(line, '\t') + 1); // the pid in the process's own namespace
	int r = vg_process_start_time(pid, &owner.start_time);
	*ret_owner = owner;
	return r;
}

// Reads a line of /proc/PID/maps, and returns the path of a shared writable mapping of a file. Only the file's header
// tells whether it is a ledger.
static bool read_mapping(char *line, char **ret_path)
{
	char mode[8];
	int at = 0;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%*s %7s 00000000 %*s %*s %n", mode, &at) != 1 || !at || strcmp(mode, "rw-s") != 0)
		return false;
	*ret_path = line + at;
	return line[at] == '/' && strncmp(line + at, "/dev/", 5) != 0;
}

static enum vg_status add_vgpu(struct tenants *tenants, const char *path, struct vg_ledger *ledger, size_t *ret_index)
{
	struct tenant_vgpu *grown = realloc(tenants->vgpus, (tenants->vgpu_count + 1) * sizeof *grown), *vgpu;
	struct stat info;
	uint8_t uuid[16];

	if (!grown) {
		vg_ledger_close(ledger);
		return vg_fail(VG_NO_MEMORY, 0, "no memory for another vGPU");
	}
	tenants->vgpus = grown;
	vgpu = &grown[tenants->vgpu_count];
	*vgpu = (struct tenant_vgpu){.memory = vg_ledger_limit(ledger),
				     .share = vg_ledger_share(ledger),
				     .ephemeral = vg_ledger_flags(ledger) & VG_LEDGER_EPHEMERAL,
				     .evictable = vg_ledger_flags(ledger) & VG_LEDGER_EVICTABLE,
				     .owner = (uid_t)-1,
				     .group = (gid_t)-1,
				     .ledger = ledger};
	if (stat(path, &info) == 0) {
		vgpu->owner = info.st_uid;
		vgpu->group = info.st_mode & S_IWGRP ? info.st_gid : (gid_t)-1;
	}
	vgpu->swap = vgpu->evictable ? vg_ledger_swap(ledger) : 0;
	vgpu->fixed = vgpu->evictable ? vg_ledger_fixed(ledger) : 0;
	snprintf(vgpu->name, sizeof vgpu->name, "%s", vg_ledger_name(ledger));
	snprintf(vgpu->path, sizeof vgpu->path, "%s", path);
	vg_ledger_uuid(ledger, uuid);
	vg_system_uuid_format(uuid, vgpu->uuid);
	*ret_index = tenants->vgpu_count++;
	return VG_OK;
}

static enum vg_status add_tenant(struct tenants *tenants, const struct tenant *tenant)
{
	struct tenant *grown = realloc(tenants->list, (tenants->count + 1) * sizeof *grown);

	if (!grown)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for another tenant");
	tenants->list = grown;
	grown[tenants->count++] = *tenant;
	return VG_OK;
}

static enum vg_status add_placeless(struct tenants *tenants, pid_t pid)
{
	pid_t *grown = realloc(tenants->slotless, (tenants->slotless_count + 1) * sizeof *grown);

	if (!grown)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for another process");
	tenants->slotless = grown;
	grown[tenants->slotless_count++] = pid;
	return VG_OK;
}

static enum vg_status add_slots(struct tenants *tenants, size_t vgpu, const struct tree_process *process)
{
	const struct tenant_vgpu *of = &tenants->vgpus[vgpu];
	struct tenant tenant = {.pid = process->pid, .vgpu = vgpu};
	enum vg_status status = VG_OK;
	struct vg_ledger_owner owner;
	unsigned int cursor = 0;

	if (tenant_owner(process->pid, &owner))
		return VG_OK; // the process has ended; a later check reports that
	size_t before = tenants->count;
	while (status == VG_OK && vg_ledger_next_tenant(of->ledger, &cursor, &tenant.slot)) {
		if (!tenant.slot.guest && vg_ledger_owner_same(&tenant.slot.owner, &owner))
			status = add_tenant(tenants, &tenant);
	}
	return status || tenants->count > before ? status : add_placeless(tenants, process->pid);
}

// Reads a ledger that a process has mapped, unless it was read for another process before.
static enum vg_status look_at(struct tenants *tenants, const struct tree_process *process, const char *path)
{
	struct vg_ledger *ledger;
	size_t i;

	for (i = 0; i < tenants->vgpu_count && strcmp(tenants->vgpus[i].path, path) != 0; i++)
		;
	if (i < tenants->vgpu_count)
		return add_slots(tenants, i, process);
	if (vg_ledger_open_copy(path, &ledger))
		return VG_OK; // the file is not a ledger
	enum vg_status status = add_vgpu(tenants, path, ledger, &i);
	return status ? status : add_slots(tenants, i, process);
}

static enum vg_status find_of(struct tenants *tenants, const struct tree_process *process)
{
	char path[64], last[PATH_MAX] = "", *line = NULL, *name;
	enum vg_status status = VG_OK;
	size_t capacity = 0;

	snprintf(path, sizeof path, "/proc/%d/maps", (int)process->pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return vg_fail(VG_DENIED, errno, "%s cannot be read: it takes CAP_SYS_PTRACE", path);
	while (status == VG_OK && getline(&line, &capacity, file) > 0) {
		if (!read_mapping(line, &name) || strcmp(name, last) == 0)
			continue;
		snprintf(last, sizeof last, "%s", name);
		status = look_at(tenants, process, name);
	}
	free(line);
	fclose(file);
	return status;
}

static bool has_place(const struct tenants *tenants, pid_t pid, const char *vgpu)
{
	for (size_t i = 0; i < tenants->count; i++)
		if (tenants->list[i].pid == pid && strcmp(tenants->vgpus[tenants->list[i].vgpu].name, vgpu) == 0)
			return true;
	return false;
}

enum vg_status tenants_check_roots(const struct tenants *tenants, const struct tree *tree, const char *name)
{
	for (size_t i = 0; i < tree->root_count; i++)
		if (!has_place(tenants, tree->processes[i].pid, name))
			return vg_fail(VG_STATE, 0,
				       "process %d (%s) does not run inside vGPU %s, of which the daemon says so: it "
				       "has ended meanwhile, or the daemon sees other pids than this program (a "
				       "container): name --pid",
				       (int)tree->processes[i].pid, tree->processes[i].command, name);
	return VG_OK;
}

enum vg_status tenants_refuse_slotless(const struct tenants *tenants, const struct tree *tree)
{
	enum vg_process_state state;

	for (size_t i = 0; i < tree->count; i++)
		for (size_t k = 0; k < tenants->slotless_count && tree->processes[i].cuda; k++)
			if (tenants->slotless[k] == tree->processes[i].pid &&
			    vg_process_state(tree->processes[i].cuda, &state) == VG_OK &&
			    state == VG_PROCESS_CHECKPOINTED)
				return refuse(REFUSE_NO_PLACE, 0,
					      "process %d (%s) has no slot in its vGPU, because its restore was "
					      "killed: end it (kill -9 %d) and restore the image again",
					      (int)tree->processes[i].pid, tree->processes[i].command,
					      (int)tree->processes[i].pid);
	return VG_OK;
}

enum vg_status tenants_refuse_jobs(const struct tenants *tenants)
{
	for (size_t i = 0; i < tenants->vgpu_count; i++)
		if (vg_ledger_flags(tenants->vgpus[i].ledger) & VG_LEDGER_JOB)
			return vg_fail(
				VG_UNSUPPORTED, 0,
				"vGPU %s is one of a job with several GPUs, whose programs can be neither dumped "
				"nor taken off the GPUs: let the job write its own checkpoints",
				tenants->vgpus[i].name);
	return VG_OK;
}

enum vg_status tenants_find(const struct tree *tree, struct tenants *ret_tenants)
{
	enum vg_status status = VG_OK;

	*ret_tenants = (struct tenants){0};
	for (size_t i = 0; i < tree->count && status == VG_OK; i++)
		status = find_of(ret_tenants, &tree->processes[i]);
	if (status)
		tenants_free(ret_tenants);
	return status;
}
