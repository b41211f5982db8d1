#include "shim/session.h"

#include <string.h>

#include "base/hot.h"
#include "shim/entries.h"
#include "shim/log.h"

_Atomic int shim_state = SHIM_UNSET;
unsigned int shim_device_count = 1;
static struct vg_ledger *ledgers[SHIM_DEVICES];
static unsigned int entered;	       // number of ledgers in which this process has a slot
static __thread SHIM_TLS int selected; // ordinal of the selected device plus 1; 0: none

enum shim_state shim_session_enter(struct vg_ledger *ledger)
{
	int result = vg_ledger_enter(ledger);

	if (result != 0) {
		shim_log(SHIM_ERROR, "vGPU %s cannot be entered: %s; CUDA is not available here",
			 vg_ledger_name(ledger),
			 result == VG_LEDGER_FULL ? "all its slots are in use" : strerror(-result));
		return SHIM_BROKEN;
	}
	ledgers[entered++] = ledger;
	shim_device_count = entered;
	return SHIM_TENANT;
}

int shim_device_select(unsigned int device)
{
	int before = selected;

	if (device < shim_device_count)
		selected = (int)device + 1;
	return before;
}

void shim_device_restore(const int *before)
{
	selected = *before;
}

VG_COLD static unsigned int find_device(void)
{
	CUdevice device;

	if (selected)
		return (unsigned int)selected - 1;
	// Without a context, the first device is the one that the runtime library would use.
	if (REAL(cuCtxGetDevice)(&device) != CUDA_SUCCESS || device < 0 || (unsigned int)device >= shim_device_count)
		return 0;
	return (unsigned int)device;
}

VG_HOT unsigned int shim_device(void)
{
	return __builtin_expect(shim_device_count == 1, 1) ? 0 : find_device();
}

VG_HOT struct vg_ledger *shim_session_ledger(void)
{
	return shim_counting() ? ledgers[shim_device()] : NULL;
}

struct vg_ledger *shim_session_ledger_of(unsigned int device)
{
	return shim_counting() && device < shim_device_count ? ledgers[device] : NULL;
}
