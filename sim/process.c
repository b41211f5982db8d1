// Implements cuInit: finds the devices that the process sees, and makes the checks at the start of every driver call.
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "checkpoint.h"
#include "context.h"
#include "cost.h"
#include "entry.h"
#include "fault.h"
#include "host.h"
#include "log.h"
#include "mps.h"
#include "process.h"

struct sim_process sim_process;
_Atomic unsigned sim_gate = SIM_GATE_UNINITIALIZED;
_Thread_local bool sim_in_callback;

static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool forked;

void sim_warn(const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fprintf(stderr, "virgate sim: %s\n", text);
}

bool sim_report_no_space(int status, size_t bytes)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char problem[512];

	if (!region_is_no_space(status))
		return false;
	if (!atomic_flag_test_and_set(&said)) {
		region_format_no_space(sim_process.region->directory, bytes, problem, sizeof problem);
		sim_warn("%s", problem);
	}
	return true;
}

uint64_t sim_clock_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t sim_device_clock_ns(void)
{
	return region_time_now(sim_process.region);
}

void sim_gate_set(unsigned bits)
{
	atomic_fetch_or(&sim_gate, bits);
}
void sim_gate_clear(unsigned bits)
{
	atomic_fetch_and(&sim_gate, ~bits);
}

CUresult sim_enter_slow(enum vg_entry entry)
{
	unsigned gate = atomic_load(&sim_gate);

	if (gate & SIM_GATE_UNINITIALIZED)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (sim_in_callback)
		return CUDA_ERROR_NOT_PERMITTED;
	if (gate & SIM_GATE_LOCKED)
		SIM_TRY(sim_checkpoint_enter(entry));
	if (gate & SIM_GATE_FAULTS)
		SIM_TRY(sim_fault_enter(entry));
	if (gate & SIM_GATE_MPS)
		sim_mps_check_failure();
	if (gate & SIM_GATE_COSTS)
		sim_cost_sleep(entry);
	return CUDA_SUCCESS;
}

// Makes every call fail in a forked child, which has no driver until it executes a program, as on hardware. The child
// must not wait for a lock that a thread of its parent may have held.
static void reset_in_child(void)
{
	atomic_store(&forked, true);
	atomic_store(&sim_gate, SIM_GATE_UNINITIALIZED);
	region_forget_in_child(sim_process.region);
}

// Frees this process's device memory when it exits. If work still uses the memory, leaves that to the next process that
// notices this one's end.
__attribute__((destructor)) static void free_memory_at_exit(void)
{
	if (atomic_load(&forked) || !sim_process.region || sim_has_pending_work())
		return;
	sim_gate_set(SIM_GATE_UNINITIALIZED);
	region_release_all(sim_process.region);
}

static void *reserve_addresses(size_t size, int protection)
{
	void *at = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return at == MAP_FAILED ? NULL : at;
}

// Prints that no addresses are left. The program gets only CUDA_ERROR_OUT_OF_MEMORY, which does not say so.
static CUresult report_no_addresses(uint64_t bytes)
{
	char needed[VG_SIZE_TEXT], limited[VG_SIZE_TEXT];
	struct rlimit limit;

	vg_size_format(bytes, needed);
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
		sim_warn("the simulated GPU needs %s of address space, and this process is limited to %s: lift the "
			 "limit (ulimit -v unlimited)",
			 needed, vg_size_format(limit.rlim_cur, limited));
	else
		sim_warn("the simulated GPU needs %s of address space, which this process does not have in one piece: "
			 "a program built with -fsanitize=thread needs a simulated driver that is built with it, too",
			 needed);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

// Reserves the range of device addresses, the window. It is many times as large as the memory, because programs reserve
// far more than they map.
static CUresult init_window(void)
{
	uint64_t size = sim_process.config.memory * sim_process.config.devices * 32, least = (uint64_t)1 << 40;
#ifdef __SANITIZE_THREAD__ // the sanitizer's shadow memory leaves few addresses
	uint64_t most = (uint64_t)256 << 30;
#else
	uint64_t most = (uint64_t)4 << 40;
#endif
	size = size < least ? least : size;
	size = size > most ? most : size;
	char *at = reserve_addresses(2 * size + SIM_GRANULE, PROT_NONE);
	if (!at)
		return report_no_addresses(2 * size + SIM_GRANULE);
	sim_process.window = ((uintptr_t)at + SIM_GRANULE - 1) / SIM_GRANULE * SIM_GRANULE;
	sim_process.window_size = size;
	sim_process.window_offset = (intptr_t)size;
	return sim_address_start() == CUDA_SUCCESS ? CUDA_SUCCESS : report_no_addresses(2 * size + SIM_GRANULE);
}

static bool init_device(int ordinal, int physical)
{
	struct sim_device *device = &sim_process.devices[ordinal];

	device->ordinal = ordinal;
	device->physical = physical;
	region_uuid(&sim_process.config, physical, (uint8_t *)device->uuid.bytes);
	snprintf(device->pci, sizeof device->pci, "0000:%02X:00.0", physical + 1);
	device->permission = reserve_addresses(sim_process.window_size >> SIM_GRANULE_SHIFT, PROT_READ | PROT_WRITE);
	device->space = (struct ptx_space){.base = sim_process.window,
					   .size = sim_process.window_size,
					   .offset = sim_process.window_offset,
					   .permission = device->permission,
					   .granule_shift = SIM_GRANULE_SHIFT,
					   .other = sim_host_translate,
					   .context = device};
	pthread_mutex_init(&device->lock, NULL);
	pthread_mutex_init(&device->primary_lock, NULL);
	return device->permission != NULL;
}

// Returns the device of an item of CUDA_VISIBLE_DEVICES, which is an index or the beginning of a UUID; -1: not found.
static int find_visible(const char *item)
{
	char *end;

	if (strncasecmp(item, "GPU-", 4) == 0) {
		int found = -1;
		for (unsigned i = 0; i < sim_process.config.devices; i++) {
			uint8_t uuid[16];
			char text[REGION_UUID_TEXT];
			region_uuid(&sim_process.config, (int)i, uuid);
			region_uuid_format(uuid, text);
			if (strncasecmp(text, item, strlen(item)) != 0)
				continue;
			if (found >= 0)
				return -1; // ambiguous
			found = (int)i;
		}
		return found;
	}
	long index = strtol(item, &end, 10);
	return end != item && !*end && index >= 0 && index < (long)sim_process.config.devices ? (int)index : -1;
}

// Lists the visible devices as the driver does. An invalid item ends the list. If an item is repeated, no device is
// visible.
static int list_visible(int ret_physical[SIM_DEVICES])
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	char text[1024], *rest = text, *item;
	int count = 0;

	if (!list) {
		for (unsigned i = 0; i < sim_process.config.devices; i++)
			ret_physical[count++] = (int)i;
		return count;
	}
	snprintf(text, sizeof text, "%s", list);
	while ((item = strsep(&rest, ",")) && count < SIM_DEVICES) {
		item += strspn(item, " \t");
		item[strcspn(item, " \t")] = 0;
		int physical = find_visible(item);
		if (physical < 0)
			break;
		for (int i = 0; i < count; i++)
			if (ret_physical[i] == physical)
				return 0;
		ret_physical[count++] = physical;
	}
	return count;
}

// Warns if CUDA_VISIBLE_DEVICES has the UUID of another simulated node. Then no device of this node is visible. Each
// user and each configuration has a node of its own.
static void report_hidden(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");

	if (list && strncasecmp(list, "GPU-", 4) == 0)
		sim_warn(
			"CUDA_VISIBLE_DEVICES=%.60s names no device of the simulated node in %s (VIRGATE_SIM_DIR names "
			"another one)",
			list, sim_process.config.directory);
}

static CUresult init_process(void)
{
	char problem[400] = "";
	int physical[SIM_DEVICES], count;

	switch (sim_config_read(&sim_process.config, problem, sizeof problem)) {
	case 0:
		break;
	case SIM_CONFIG_UNSET:
		sim_warn("VIRGATE_SIM is not set, but the simulated driver was loaded: set VIRGATE_SIM=1 to use it, or "
			 "remove its directory from LD_LIBRARY_PATH");
		return CUDA_ERROR_NO_DEVICE;
	default:
		sim_warn("%s", problem);
		return CUDA_ERROR_INVALID_VALUE;
	}
	count = list_visible(physical);
	if (count == 0) {
		report_hidden();
		return CUDA_ERROR_NO_DEVICE;
	}
	int status = region_open(&sim_process.config, &sim_process.region, problem, sizeof problem);
	if (status != 0) {
		sim_warn("%s", problem);
		return status > 0		    ? CUDA_ERROR_INVALID_VALUE
		       : region_is_no_space(status) ? CUDA_ERROR_OUT_OF_MEMORY
						    : CUDA_ERROR_OPERATING_SYSTEM;
	}
	SIM_TRY(init_window());
	for (int i = 0; i < count; i++)
		if (!init_device(i, physical[i]))
			return report_no_addresses(2 * sim_process.window_size + SIM_GRANULE);
	sim_process.device_count = count;
	sim_process.sms = sim_process.config.sms;
	pthread_atfork(NULL, NULL, reset_in_child);
	SIM_TRY(sim_fault_start());
	SIM_TRY(sim_cost_start());
	SIM_TRY(sim_mps_start());
	sim_service_start();
	return CUDA_SUCCESS;
}

CUresult CUDAAPI cuInit(unsigned int Flags)
{
	static CUresult failed;
	CUresult result = CUDA_SUCCESS;

	if (atomic_load(&forked))
		return CUDA_ERROR_NOT_INITIALIZED;
	if (Flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!(atomic_load(&sim_gate) & SIM_GATE_UNINITIALIZED))
		return sim_enter(VG_ENTRY_cuInit);
	pthread_mutex_lock(&init_lock);
	if (atomic_load(&sim_gate) & SIM_GATE_UNINITIALIZED) {
		result = failed ? failed : init_process();
		failed = result;
		if (result == CUDA_SUCCESS)
			sim_gate_clear(SIM_GATE_UNINITIALIZED);
	}
	pthread_mutex_unlock(&init_lock);
	return result == CUDA_SUCCESS ? sim_enter(VG_ENTRY_cuInit) : result;
}

unsigned sim_driver_version(void)
{
	static atomic_uint version;
	struct sim_config config;
	char problem[400];

	if (!atomic_load(&version)) // cuInit may not have been called yet
		atomic_store(&version,
			     sim_config_read(&config, problem, sizeof problem) == 0 ? config.driver : CUDA_VERSION);
	return atomic_load(&version);
}

CUresult CUDAAPI cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = (int)sim_driver_version();
	return CUDA_SUCCESS;
}
