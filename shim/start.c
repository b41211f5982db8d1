// Starts the interposer in a process, at the first call that needs to know whether the process is in a vGPU. Connects
// the layers: registers functions of higher layers that lower layers call.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shim/evict.h"
#include "shim/exported.h"
#include "shim/graph_charge.h"
#include "shim/ledgers.h"
#include "shim/log.h"
#include "shim/pool_charge.h"
#include "shim/reclaim.h"
#include "shim/registration.h"
#include "shim/session.h"
#include "shim/stream_refund.h"
#include "shim/turn.h"
#include "shim/uuid.h"

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct shim_reclaimer reclaimers[] = {
	{.reconcile = shim_stream_refunds_reconcile},
	{.reconcile = shim_exported_refund_closed},
	{.reconcile = shim_pools_reconcile, .trim = shim_pools_trim},
	{.reconcile = shim_graphs_reconcile, .trim = shim_graphs_trim},
};

// Makes a forked child charge nothing and allocate nothing. If the parent has used the driver, the driver does not work
// in the child. The charges in the child's records belong to the parent. Threads of the parent may have held locks of
// the records at the fork, so the child takes no such lock.
static void reset_in_forked_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	start_lock = fresh;
	if (shim_counting())
		shim_state = SHIM_FORKED;
	shim_turn_stop();
	shim_evict_stop();
}

struct job {
	struct vg_ledger *ledgers[SHIM_DEVICES];
	unsigned int count;
};

static void format_uuid(const struct vg_ledger *ledger, char ret_text[SHIM_UUID_TEXT])
{
	uint8_t uuid[16];

	vg_ledger_uuid(ledger, uuid);
	shim_uuid_text(uuid, ret_text);
}

// Finds the device that an entry of the program's own CUDA_VISIBLE_DEVICES names: by its index among the devices of the
// job (a vGPU outside a job has index 0), or by the beginning of its UUID. Returns its index; -1: the entry is invalid.
static int find_named(const struct job *job, const char *entry, size_t length)
{
	char uuid[SHIM_UUID_TEXT];
	int index = 0;

	for (size_t i = 0; i < length && i < 3 && index >= 0; i++)
		index = entry[i] >= '0' && entry[i] <= '9' ? index * 10 + entry[i] - '0' : -1;
	if (length && length < 3 && index >= 0)
		return index < (int)job->count ? index : -1;
	for (unsigned int i = 0; i < job->count && length > 4; i++) {
		format_uuid(job->ledgers[i], uuid);
		if (strncasecmp(entry, uuid, length) == 0)
			return (int)i;
	}
	return -1;
}

// Keeps the devices that the program's own CUDA_VISIBLE_DEVICES names, in its order. As the driver does, ends at the
// first invalid entry, and shows no device if one is named twice.
static void choose_named(struct job *job, const char *visible)
{
	struct job chosen = {.count = 0};

	for (;;) {
		visible += strspn(visible, " ");
		size_t length = strcspn(visible, ", ");
		int device = find_named(job, visible, length);
		if (device < 0 || chosen.count == SHIM_DEVICES)
			break;
		for (unsigned int i = 0; i < chosen.count; i++)
			if (chosen.ledgers[i] == job->ledgers[device]) {
				job->count = 0;
				return;
			}
		chosen.ledgers[chosen.count++] = job->ledgers[device];
		visible += length + strspn(visible + length, " ");
		if (*visible++ != ',')
			break;
	}
	*job = chosen;
}

// Returns the position of an entry in a list with commas, and the number of the list's entries; -1: not found.
static int find_entry(const char *list, const char *entry, size_t length, unsigned int *ret_count)
{
	int found = -1;

	*ret_count = 0;
	for (size_t here; *list; list += here + (list[here] == ',')) {
		here = strcspn(list, ",");
		if (found < 0 && here == length && strncmp(list, entry, length) == 0)
			found = (int)*ret_count;
		++*ret_count;
	}
	return found;
}

enum { NUMBERS = 4 * SHIM_DEVICES }; // a list with a number below 100 for each device is shorter

// Translates the numbers that Slurm has set for a task of srun. Without a device cgroup they count the GPUs of the
// node, and equal SLURM_STEP_GPUS. Their positions in SLURM_JOB_GPUS count the devices of the vGPU's job, if that has
// all GPUs of Slurm's job. Returns `visible` if Slurm has not set it, or if it counts other GPUs.
static const char *translate_slurm(const struct job *job, const char *visible, char text[NUMBERS])
{
	const char *step = secure_getenv("SLURM_STEP_GPUS"), *all = secure_getenv("SLURM_JOB_GPUS");
	size_t put = 0;

	if (!step || !all || strcmp(step, visible) != 0)
		return visible;
	for (size_t length; *step; step += length + (step[length] == ',')) {
		unsigned int count;
		length = strcspn(step, ",");
		int position = find_entry(all, step, length, &count);
		if (position < 0 || count != job->count || put + 4 > NUMBERS)
			return visible;
		put += (size_t)snprintf(text + put, NUMBERS - put, "%s%d", put ? "," : "", position);
	}
	return put ? text : visible;
}

// Makes the driver show only devices of the job. If the environment has another CUDA_VISIBLE_DEVICES, which programs
// such as torchrun and mpirun set for each process, shows only those of the job's devices that it names.
static void show_our_devices(struct job *job)
{
	const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
	char numbers[NUMBERS];
	char list[SHIM_DEVICES * (SHIM_UUID_TEXT + 1)] = "";
	size_t length = 0;

	if (visible)
		choose_named(job, translate_slurm(job, visible, numbers));
	for (unsigned int i = 0; i < job->count; i++) {
		if (i)
			list[length++] = ',';
		format_uuid(job->ledgers[i], list + length);
		length += strlen(list + length);
	}
	if (!job->count && visible && *visible)
		strcpy(list, "-1");
	if (!visible || strcmp(visible, list) != 0)
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
}

static void start_tenant(const struct job *job)
{
	shim_reclaim_set(reclaimers, sizeof reclaimers / sizeof *reclaimers);
	shim_registration_set_descriptor(shim_exported_watcher);
	// Makes the driver allocate a module's variables when the module is loaded. The interposer can refuse the load
	// if they exceed the limit; later it could refuse nothing.
	setenv("CUDA_MODULE_DATA_LOADING", "EAGER", 1);
	for (unsigned int i = 0; i < job->count; i++)
		shim_register(vg_ledger_name(job->ledgers[i]));
	shim_evict_fill_driver();
	shim_turn_start(job->ledgers, job->count);
	if (job->count == 1) // vGPUs of a job with several devices are not evictable
		shim_evict_start(job->ledgers[0]);
}

static enum shim_state start_session(void)
{
	struct job job = {.count = 0};
	enum shim_state state = SHIM_TENANT;
	struct vg_ledger *first;
	const char *path;
	int found = shim_ledgers_open(job.ledgers, &path);

	if (found == 0)
		return SHIM_FREE;
	pthread_atfork(NULL, NULL, reset_in_forked_child);
	if (found < 0) {
		shim_log(SHIM_ERROR, "the vGPU's ledger %s cannot be used: %s; CUDA is not available here", path,
			 shim_ledgers_error(found));
		return SHIM_BROKEN;
	}
	job.count = (unsigned int)found;
	first = job.ledgers[0];
	show_our_devices(&job);
	if (!job.count) // the process sees no device, but is a tenant all the same
		job = (struct job){{first}, 1};
	for (unsigned int i = 0; i < job.count && state == SHIM_TENANT; i++)
		state = shim_session_enter(job.ledgers[i]);
	if (state == SHIM_TENANT)
		start_tenant(&job);
	return state;
}

enum shim_state shim_session_start(void)
{
	int saved = errno;

	pthread_mutex_lock(&start_lock);
	if (shim_state == SHIM_UNSET)
		__atomic_store_n((int *)&shim_state, start_session(), __ATOMIC_RELEASE);
	pthread_mutex_unlock(&start_lock);
	errno = saved;
	return (enum shim_state)shim_state;
}
