#include "shim/session.h"

#include <errno.h>
#include <string.h>

#include "base/hot.h"
#include "shim/log.h"

_Atomic int shim_state = SHIM_UNSET;
static struct vg_ledger *ledger;

enum shim_state shim_session_open(const char *path, struct vg_ledger **ret_ledger)
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
	*ret_ledger = ledger;
	return SHIM_TENANT;
}

VG_HOT struct vg_ledger *shim_session_ledger(void)
{
	return shim_counting() ? ledger : NULL;
}
