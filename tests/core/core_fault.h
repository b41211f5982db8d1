// Makes each driver call of a function that creates an object (a constructor) fail in turn. Nothing may leak: no device
// memory, no reference to a primary context, and (with the address sanitizer) no heap memory. Each failure is tested in
// a child process, since the simulated driver counts calls per process. The test program itself must not use the
// driver.
#pragma once
#include "core_test.h"

#include <cuda.h>
#include <dlfcn.h>
#include <sys/wait.h>

struct fault_subject {
	enum vg_status (*prepare)(void);   // makes what the constructor needs; may be NULL
	enum vg_status (*construct)(void); // on failure it must leave its output NULL
	void (*clean)(void);		   // destroys what prepare and construct made
};

// For prepare functions: returns the status of the call if it failed.
#define TRY(call)                                \
	do {                                     \
		enum vg_status status_ = (call); \
		if (status_)                     \
			return status_;          \
	} while (0)

enum { FAULT_MISSED = 40, FAULT_EARLIER, FAULT_HIT, FAULT_CALLS = 64 };

static inline int fault_primary_is_active(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	CUresult (*state)(CUdevice, unsigned *, int *) = driver ? dlsym(driver, "cuDevicePrimaryCtxGetState") : NULL;
	unsigned flags;
	int active = -1;

	CHECK(state != NULL);
	CHECK_INT(state(0, &flags, &active), CUDA_SUCCESS);
	dlclose(driver);
	return active;
}

static inline int fault_child(const struct fault_subject *subject)
{
	size_t before, after;
	struct vg_device *device;

	if (vg_device_get(0, &device) || vg_device_memory_info(device, &before, NULL) ||
	    (subject->prepare && subject->prepare())) {
		subject->clean();
		return FAULT_EARLIER;
	}
	if (subject->construct() == VG_OK) {
		subject->clean();
		return FAULT_MISSED;
	}
	CHECK_INT(vg_last_error()->status, VG_DRIVER);
	CHECK_INT(vg_last_error()->code, CUDA_ERROR_OPERATING_SYSTEM);
	subject->clean();
	CHECK_INT(fault_primary_is_active(), 0);
	OK(vg_device_memory_info(device, &after, NULL));
	CHECK_INT(after, before);
	return FAULT_HIT;
}

static inline int fault_at(const struct fault_subject *subject, const char *entry, int call)
{
	char fault[128];
	int status;

	pid_t child = fork();
	if (child == 0) {
		snprintf(fault, sizeof fault, "%s:%d=CUDA_ERROR_OPERATING_SYSTEM", entry, call);
		setenv("VIRGATE_SIM_FAULT", fault, 1);
		exit(fault_child(subject));
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (!WIFEXITED(status))
		FAIL("%s, call %d: ended by signal %d", entry, call, WTERMSIG(status));
	return WEXITSTATUS(status);
}

// Makes each driver call of the constructor fail in turn. `entries` has the names of the driver functions that the
// constructor calls, ended by NULL. If it does not call one of them, the test fails.
static inline void fault_every_call(const struct fault_subject *subject, const char *const *entries)
{
	if (!getenv("VIRGATE_SIM"))
		SKIP("faults are injected by the simulated driver");
	for (; *entries; entries++) {
		int hits = 0, result = FAULT_HIT;
		for (int call = 1; call <= FAULT_CALLS && result != FAULT_MISSED; call++) {
			result = fault_at(subject, *entries, call);
			if (result != FAULT_MISSED && result != FAULT_EARLIER && result != FAULT_HIT)
				FAIL("%s, call %d failed: see the output of the child", *entries, call);
			hits += result == FAULT_HIT;
		}
		if (hits == 0 || result != FAULT_MISSED)
			FAIL("%s: %d of its calls failed the constructor", *entries, hits);
	}
}
#define FAULT_EVERY_CALL(subject, ...) fault_every_call(subject, (const char *const[]){__VA_ARGS__, NULL})
