#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hot.h"
#include "shim/evict.h"
#include "shim/hello.h"
#include "shim/log.h"
#include "shim/session.h"
#include "shim/turn.h"
#include "shim/uuid.h"

_Atomic int shim_state = SHIM_UNSET;
static struct vg_ledger *ledger;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;

// The driver refuses a fork of a process that used it, and what the child inherited here
// belongs to the parent: nothing is counted in it, and nothing may be allocated. Locks of the
// records may be held by threads that do not exist here; none of them is taken again.
static void after_fork_in_child(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	start_lock = fresh;
	if (shim_counting())
		shim_state = SHIM_FORKED;
	shim_turn_stop();
	shim_evict_stop();
}

// The program may have narrowed the list itself, in the vGPU's own terms: index 0 is its one
// device, any other index or device is none. The driver reads the list up to the first entry
// that names no device.
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

static void show_only_our_device(void)
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

static enum shim_state open_ledger(const char *path)
{
	int result = vg_ledger_open(path, &ledger);

	if (result != 0) {
		shim_log(SHIM_ERROR, "the vGPU's ledger %s cannot be used: %s; CUDA is not available here", path,
			 result == -EPROTO ? "it is not a ledger of this version of Virgate" : strerror(-result));
		return SHIM_BROKEN;
	}
	result = vg_ledger_enter(ledger);
	if (result != 0) {
		shim_log(SHIM_ERROR, "vGPU %s cannot be entered: %s; CUDA is not available here",
			 vg_ledger_name(ledger),
			 result == VG_LEDGER_FULL ? "all its slots are in use" : strerror(-result));
		return SHIM_BROKEN;
	}
	return SHIM_TENANT;
}

static enum shim_state start(void)
{
	const char *path = secure_getenv("VIRGATE_LEDGER");
	enum shim_state state;

	if (!path || !*path)
		return SHIM_FREE;
	state = open_ledger(path);
	pthread_atfork(NULL, NULL, after_fork_in_child);
	if (state == SHIM_TENANT) {
		show_only_our_device();
		// Variables come with the first use of their module, where they can be refused.
		setenv("CUDA_MODULE_DATA_LOADING", "EAGER", 1);
		shim_hello(vg_ledger_name(ledger), false);
		shim_evict_load();
		shim_turn_start(ledger);
		shim_evict_start(ledger);
	}
	return state;
}

enum shim_state shim_session_start(void)
{
	int saved = errno;

	pthread_mutex_lock(&start_lock);
	if (shim_state == SHIM_UNSET)
		__atomic_store_n((int *)&shim_state, start(), __ATOMIC_RELEASE);
	pthread_mutex_unlock(&start_lock);
	errno = saved;
	return (enum shim_state)shim_state;
}

VG_HOT struct vg_ledger *shim_session_ledger(void)
{
	return shim_counting() ? ledger : NULL;
}
