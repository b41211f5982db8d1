#include "system/nvml.h"

#include "base/status.h"
#include "virgate/system.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const struct vg_nvml *_Atomic nvml; // the table of NVML's functions; it does not change once it is set
static _Atomic(pid_t) initialised_by;	   // process that initialised NVML, whose state does not survive fork()

// The fork handlers take the lock before a fork, and release it afterwards. A child must not inherit a lock that
// another thread holds, because that thread does not exist in the child.
static void lock_nvml(void)
{
	pthread_mutex_lock(&lock);
}
static void unlock_nvml(void)
{
	pthread_mutex_unlock(&lock);
}
__attribute__((constructor)) static void register_fork_handlers(void)
{
	pthread_atfork(lock_nvml, unlock_nvml, unlock_nvml);
}

static enum vg_status open_locked(void)
{
	const struct vg_nvml *table;
	char problem[4200];

	if (vg_nvml_load(&table, problem, sizeof problem))
		return vg_fail(VG_NO_DRIVER, NVML_ERROR_LIBRARY_NOT_FOUND, "%s", problem);
	nvmlReturn_t result = table->nvmlInitWithFlags(0);
	if (result == NVML_ERROR_LIB_RM_VERSION_MISMATCH)
		return vg_fail(VG_NO_DRIVER, result,
			       "nvmlInit: %s: the NVML library and the loaded kernel module are of different versions: "
			       "reload the module "
			       "or restart the machine",
			       vg_nvml_error_name(result));
	// In a tenant, NVML may be the interposer's library. Its nvmlInit() loads the driver's NVML, from the file that
	// VIRGATE_NVML names if it is set. If that file cannot be loaded, name it in the error.
	const char *named = result == NVML_ERROR_LIBRARY_NOT_FOUND ? secure_getenv("VIRGATE_NVML") : NULL;
	if (named && *named)
		return vg_fail(VG_NO_DRIVER, result,
			       "nvmlInit: %s: %.4000s, which VIRGATE_NVML names, cannot be loaded",
			       vg_nvml_error_name(result), named);
	if (result)
		return system_nvml_failed(result, "nvmlInit", "is the NVIDIA driver loaded?");
	atomic_store(&nvml, table);
	atomic_store(&initialised_by, getpid());
	return VG_OK;
}

enum vg_status system_nvml_open(const struct vg_nvml **ret_nvml)
{
	enum vg_status status = VG_OK;

	if (atomic_load(&initialised_by) != getpid()) {
		lock_nvml();
		if (atomic_load(&initialised_by) != getpid())
			status = open_locked();
		unlock_nvml();
	}
	if (status == VG_OK)
		*ret_nvml = atomic_load(&nvml);
	return status;
}

#define X(name, value) _Static_assert(NVML_ERROR_##name == value, #name);
VG_NVML_ERROR_LIST(X)
#undef X

const char *vg_nvml_error_name(int code)
{
	switch (code) {
	case NVML_SUCCESS:
		return "NVML_SUCCESS";
#define X(name, value) \
	case value:    \
		return "NVML_ERROR_" #name;
		VG_NVML_ERROR_LIST(X)
#undef X
	default:
		return "an unknown NVML error";
	}
}

enum vg_status system_nvml_status(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return VG_OK;
	case NVML_ERROR_NOT_SUPPORTED:
	case NVML_ERROR_FUNCTION_NOT_FOUND:
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH: // the library is older or newer than the structure
		return VG_UNSUPPORTED;
	case NVML_ERROR_NO_PERMISSION:
		return VG_DENIED;
	case NVML_ERROR_NOT_FOUND:
	case NVML_ERROR_GPU_NOT_FOUND:
		return VG_NOT_FOUND;
	case NVML_ERROR_TIMEOUT:
	case NVML_ERROR_NOT_READY:
		return VG_NOT_READY;
	case NVML_ERROR_IN_USE:
		return VG_BUSY;
	case NVML_ERROR_DRIVER_NOT_LOADED:
	case NVML_ERROR_LIBRARY_NOT_FOUND:
		return VG_NO_DRIVER;
	default:
		return VG_NVML;
	}
}

enum vg_status system_nvml_failed(nvmlReturn_t result, const char *call, const char *format, ...)
{
	char asked[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(asked, sizeof asked, format, arguments);
	va_end(arguments);
	if (result == NVML_ERROR_FUNCTION_NOT_FOUND)
		return vg_fail(VG_UNSUPPORTED, result, "%s: the NVML of this machine's driver has no such function%s%s",
			       call, asked[0] ? "; " : "", asked);
	return vg_fail(system_nvml_status(result), result, "%s: %s%s%s", call, vg_nvml_error_name(result),
		       asked[0] ? "; " : "", asked);
}

enum vg_status system_copy_text(char *to, size_t capacity, const char *text)
{
	size_t needed = strlen(text) + 1;

	if (needed > capacity)
		return vg_fail(VG_LIMIT, 0, "the text needs %zu bytes, and there are %zu", needed, capacity);
	memcpy(to, text, needed);
	return VG_OK;
}
