// Starts the interposer in a process, at the first call that needs to know whether the process is in a vGPU. Connects
// the layers: registers functions of higher layers that lower layers call.
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "shim/evict.h"
#include "shim/exported.h"
#include "shim/graph_charge.h"
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

// Makes a forked child charge nothing and allocate nothing. The driver does not work in such a child if the parent has
// used it, and the charges in the child's records belong to the parent. Threads of the parent may have held locks of
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

// Returns whether the program's own CUDA_VISIBLE_DEVICES begins with the vGPU's device. In a vGPU, only index 0 or the
// UUID of that device is valid. The driver reads the list up to the first invalid entry.
static bool names_our_device(const char *visible, const char *uuid)
{
	size_t length;

	while (*visible == ' ')
		visible++;
	length = strcspn(visible, ", ");
	if (length == 1 && *visible == '0')
		return true;
	return length > 4 && strncasecmp(visible, uuid, length) == 0;
}

static void show_only_our_device(const struct vg_ledger *ledger)
{
	const char *visible = secure_getenv("CUDA_VISIBLE_DEVICES");
	uint8_t uuid[16];
	char text[SHIM_UUID_TEXT];

	vg_ledger_uuid(ledger, uuid);
	shim_uuid_text(uuid, text);
	if (visible && !names_our_device(visible, text)) {
		if (*visible)
			setenv("CUDA_VISIBLE_DEVICES", "-1", 1);
		return;
	}
	if (!visible || strcmp(visible, text) != 0)
		setenv("CUDA_VISIBLE_DEVICES", text, 1);
}

static void start_tenant(struct vg_ledger *ledger)
{
	shim_reclaim_set(reclaimers, sizeof reclaimers / sizeof *reclaimers);
	shim_registration_set_descriptor(shim_exported_watcher);
	show_only_our_device(ledger);
	// Makes the driver allocate a module's variables when the module is loaded. The interposer can refuse the load
	// if they exceed the limit; later it could refuse nothing.
	setenv("CUDA_MODULE_DATA_LOADING", "EAGER", 1);
	shim_register(vg_ledger_name(ledger));
	shim_evict_fill_driver();
	shim_turn_start(ledger);
	shim_evict_start(ledger);
}

static enum shim_state start_session(void)
{
	const char *path = secure_getenv("VIRGATE_LEDGER");
	struct vg_ledger *ledger;
	enum shim_state state;

	if (!path || !*path)
		return SHIM_FREE;
	state = shim_session_open(path, &ledger);
	pthread_atfork(NULL, NULL, reset_in_forked_child);
	if (state == SHIM_TENANT)
		start_tenant(ledger);
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
