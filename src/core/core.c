#include "core/core.h"

#include "base/mutex.h"
#include "base/status.h"
#include "core/device.h"
#include "core/error.h"

#include <pthread.h>

const struct vg_driver *core_driver;
struct core_launching core_launching;
bool core_forked;
static int driver_version;
static struct vg_driver refusing_driver; // the table for forked children; each of its functions fails

static void note_fork(void)
{
	core_forked = core_driver != NULL;
	if (!core_forked)
		return;
	core_driver = &refusing_driver;
	core_launching.launch = refusing_driver.cuLaunchKernelEx;
}

// Sets the error for a driver that did not start. core_driver_failed() cannot be used then, because it calls the driver
// through `core_driver`.
static enum vg_status fail_start(const struct vg_driver *driver, CUresult result)
{
	const char *name = NULL;

	if (driver->cuGetErrorName(result, &name) || !name)
		name = "an unknown error";
	if (result == CUDA_ERROR_NO_DEVICE)
		return vg_fail(VG_NOT_FOUND, result, "cuInit: %s has no CUDA device that this process may use (%s)",
			       driver->path, name);
	return vg_fail(VG_DRIVER, result, "cuInit of %s failed: %s", driver->path, name);
}

static enum vg_status open_locked(void)
{
	const struct vg_driver *driver;
	char problem[4200];

	if (vg_driver_load(&driver, problem, sizeof problem))
		return vg_fail(VG_NO_DRIVER, 0, "%s", problem);
	CUresult r = driver->cuInit(0);
	if (r)
		return fail_start(driver, r);
	core_driver = driver;
	core_launching = (struct core_launching){driver->cuLaunchKernelEx, __builtin_cpu_supports("avx2")};
	CUresult version = driver->cuDriverGetVersion(&driver_version);
	enum vg_status status =
		version ? core_driver_failed(version, "cuDriverGetVersion", "%s", "") : core_devices_open();
	vg_driver_refuse(driver, &refusing_driver);
	core_log_skip(); // earlier users of the driver in this process may have logged messages
	if (status)
		core_driver = NULL;
	else
		pthread_atfork(NULL, NULL, note_fork);
	return status;
}

enum vg_status core_open(void)
{
	static struct vg_mutex lock;
	static _Atomic(bool) open;
	enum vg_status status = VG_OK;

	if (open)
		return VG_OK;
	bool consistent = vg_mutex_lock(&lock);
	if (!consistent && !open)
		status = vg_fail(
			VG_STATE, 0,
			"another thread was opening the driver when this process was forked: open it before, or "
			"start a program of its own (exec)");
	else if (!open) {
		status = open_locked();
		open = status == VG_OK;
	}
	vg_mutex_unlock(&lock);
	return status;
}

int core_driver_version(void)
{
	return driver_version;
}

enum vg_status core_needs_driver(int version, const char *what)
{
	return vg_fail(VG_UNSUPPORTED, 0, "%s: unsupported: needs driver %d.%d, have %d.%d", what, version / 1000,
		       version % 1000 / 10, driver_version / 1000, driver_version % 1000 / 10);
}

enum vg_status core_find_entry(const char *entry, int version, void **ret_entry)
{
	CUdriverProcAddressQueryResult found;
	void *address = NULL;

	CUresult r = driver_version < version ? CUDA_ERROR_NOT_FOUND
					      : core_asked(core_driver->cuGetProcAddress_v2(
							entry, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &found));
	if (r || !address)
		return core_needs_driver(version, entry);
	*ret_entry = address;
	return VG_OK;
}
