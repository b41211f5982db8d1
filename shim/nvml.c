// Answers NVML calls inside a vGPU. NVML then shows one device, with the size and the processes of the vGPU; in a job,
// one for each vGPU.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ledger/ledger.h"
#include "shim/ledgers.h"
#include "shim/log.h"
#include "shim/nvml_entries.h"
#include "shim/uuid.h"

static struct vg_ledger *ledgers[SHIM_DEVICES]; // only read: a process takes no slot to query NVML
static char uuids[SHIM_DEVICES][SHIM_UUID_TEXT];
static unsigned device_count;
static pthread_once_t open_once = PTHREAD_ONCE_INIT;

static void open_ledgers(void)
{
	const char *path;
	uint8_t uuid[16];
	int count = shim_ledgers_open(ledgers, &path);

	if (count < 0) {
		shim_log(SHIM_WARNING, "the vGPU's ledger %s cannot be read: NVML shows the whole machine", path);
		return;
	}
	for (int i = 0; i < count; i++) {
		vg_ledger_uuid(ledgers[i], uuid);
		shim_uuid_text(uuid, uuids[i]);
	}
	device_count = (unsigned)count;
}

static bool is_inside(void)
{
	pthread_once(&open_once, open_ledgers);
	return device_count > 0;
}

// Returns the index of the job's device that has this handle; -1: it is none of them.
static int find_device(nvmlDevice_t device)
{
	nvmlDevice_t ours;

	for (unsigned i = 0; i < device_count; i++)
		if (REAL(nvmlDeviceGetHandleByUUID)(uuids[i], &ours) == NVML_SUCCESS && ours == device)
			return (int)i;
	return -1;
}

// Returns the ledger with the figures of a device. If the handle is not that of a device of the job, returns the ledger
// of the first device.
static struct vg_ledger *find_ledger(nvmlDevice_t device)
{
	int index = device_count > 1 ? find_device(device) : 0;

	return ledgers[index < 0 ? 0 : index];
}

// Hides devices other than our own from a lookup: the result is the handle of one of them, or "not found".
static nvmlReturn_t hide_others(nvmlReturn_t result, nvmlDevice_t *device)
{
	if (result != NVML_SUCCESS || !is_inside())
		return result;
	if (find_device(*device) >= 0)
		return NVML_SUCCESS;
	*device = NULL;
	return NVML_ERROR_NOT_FOUND;
}

#define GET_COUNT(name)                                    \
	SHIM_EXPORT nvmlReturn_t name(unsigned *count)     \
	{                                                  \
		nvmlReturn_t result = REAL(name)(count);   \
		if (result == NVML_SUCCESS && is_inside()) \
			*count = device_count;             \
		return result;                             \
	}
GET_COUNT(nvmlDeviceGetCount)
GET_COUNT(nvmlDeviceGetCount_v2)

#define GET_HANDLE_BY_INDEX(name)                                             \
	SHIM_EXPORT nvmlReturn_t name(unsigned index, nvmlDevice_t *device)   \
	{                                                                     \
		if (!is_inside())                                             \
			return REAL(name)(index, device);                     \
		if (index >= device_count || !device)                         \
			return NVML_ERROR_INVALID_ARGUMENT;                   \
		return REAL(nvmlDeviceGetHandleByUUID)(uuids[index], device); \
	}
GET_HANDLE_BY_INDEX(nvmlDeviceGetHandleByIndex)
GET_HANDLE_BY_INDEX(nvmlDeviceGetHandleByIndex_v2)

#define GET_HANDLE_BY_NAME(name)                                              \
	SHIM_EXPORT nvmlReturn_t name(const char *text, nvmlDevice_t *device) \
	{                                                                     \
		return hide_others(REAL(name)(text, device), device);         \
	}
GET_HANDLE_BY_NAME(nvmlDeviceGetHandleByUUID)
GET_HANDLE_BY_NAME(nvmlDeviceGetHandleBySerial)
GET_HANDLE_BY_NAME(nvmlDeviceGetHandleByPciBusId)
GET_HANDLE_BY_NAME(nvmlDeviceGetHandleByPciBusId_v2)

SHIM_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index)
{
	nvmlReturn_t result = REAL(nvmlDeviceGetIndex)(device, index);

	if (result == NVML_SUCCESS && is_inside()) {
		int ours = find_device(device);
		*index = ours < 0 ? 0 : (unsigned)ours;
	}
	return result;
}

// The figures that a tenant gets from NVML, as from cuMemGetInfo(). `free` is what is left of the limit, or the
// device's free memory if that is less.
struct memory {
	unsigned long long total, free, used;
};

static struct memory limit_memory(nvmlDevice_t device, unsigned long long real_total, unsigned long long real_free)
{
	uint64_t limit, charged;
	struct memory memory;

	vg_ledger_read(find_ledger(device), &limit, &charged);
	memory.total = limit < real_total ? limit : real_total;
	memory.free = charged < memory.total ? memory.total - charged : 0;
	if (memory.free > real_free)
		memory.free = real_free;
	memory.used = memory.total - memory.free;
	return memory;
}

SHIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t result = REAL(nvmlDeviceGetMemoryInfo)(device, memory);

	if (result == NVML_SUCCESS && is_inside()) {
		struct memory ours = limit_memory(device, memory->total, memory->free);
		*memory = (nvmlMemory_t){ours.total, ours.free, ours.used};
	}
	return result;
}

SHIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlReturn_t result = REAL(nvmlDeviceGetMemoryInfo_v2)(device, memory);

	if (result == NVML_SUCCESS && is_inside()) {
		struct memory ours = limit_memory(device, memory->total, memory->free);
		memory->total = ours.total;
		memory->free = ours.free;
		memory->used = ours.used;
		memory->reserved = 0; // memory of the driver itself is not part of a vGPU
	}
	return result;
}

// Returns true if a pid belongs to a tenant of the vGPU. NVML reports pids of the caller's PID namespace, or of the
// host's.
static bool is_tenant(const struct vg_ledger *ledger, unsigned pid)
{
	struct vg_ledger_tenant tenant;
	unsigned cursor = 0;

	while (vg_ledger_next_tenant(ledger, &cursor, &tenant))
		if (!tenant.guest && (tenant.owner.pid == pid || (tenant.outer_pid && tenant.outer_pid == pid)))
			return true;
	return false;
}

// All lists of processes have the same form: an array of records that begin with the pid. On entry, *count is the
// number of records that fit. On return, it is the number of processes found.
typedef nvmlReturn_t (*list_function)(nvmlDevice_t device, unsigned *count, void *records);

static nvmlReturn_t read_list(list_function real, nvmlDevice_t device, size_t size, char **ret_records,
			      unsigned *ret_count)
{
	unsigned count = 0, spare = 16;
	nvmlReturn_t result = real(device, &count, NULL);
	char *records = NULL;

	for (int tries = 0; result == NVML_ERROR_INSUFFICIENT_SIZE && tries < 4; tries++) {
		free(records);
		count += spare;
		records = calloc(count, size);
		if (!records)
			return NVML_ERROR_MEMORY;
		result = real(device, &count, records);
		spare *= 2;
	}
	if (result != NVML_SUCCESS) {
		free(records);
		return result;
	}
	*ret_records = records;
	*ret_count = records ? count : 0;
	return NVML_SUCCESS;
}

static nvmlReturn_t list_tenants(list_function real, nvmlDevice_t device, unsigned *count, void *records, size_t size)
{
	unsigned all = 0, ours = 0, capacity;
	char *list = NULL;
	nvmlReturn_t result;

	if (!is_inside() || !count)
		return real(device, count, records);
	capacity = records ? *count : 0;
	result = read_list(real, device, size, &list, &all);
	if (result != NVML_SUCCESS)
		return result;
	const struct vg_ledger *ledger = find_ledger(device);
	for (unsigned i = 0; i < all; i++) {
		unsigned pid;
		memcpy(&pid, list + i * size, sizeof pid);
		if (!is_tenant(ledger, pid))
			continue;
		if (ours < capacity)
			memcpy((char *)records + ours * size, list + i * size, size);
		ours++;
	}
	free(list);
	*count = ours;
	return ours > capacity ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

#define LIST(name, type)                                                                              \
	SHIM_EXPORT nvmlReturn_t name(nvmlDevice_t device, unsigned *count, type *records)            \
	{                                                                                             \
		return list_tenants((list_function)REAL(name), device, count, records, sizeof(type)); \
	}

LIST(nvmlDeviceGetComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetComputeRunningProcesses_v3, nvmlProcessInfo_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
LIST(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

SHIM_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_v1_t *list)
{
	nvmlReturn_t result = REAL(nvmlDeviceGetRunningProcessDetailList)(device, list);
	unsigned ours = 0;

	if (result != NVML_SUCCESS || !is_inside() || !list->procArray)
		return result;
	const struct vg_ledger *ledger = find_ledger(device);
	for (unsigned i = 0; i < list->numProcArrayEntries; i++)
		if (is_tenant(ledger, list->procArray[i].pid))
			list->procArray[ours++] = list->procArray[i];
	list->numProcArrayEntries = ours;
	return result;
}

SHIM_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
							 unsigned *count, unsigned long long since)
{
	nvmlReturn_t result = REAL(nvmlDeviceGetProcessUtilization)(device, samples, count, since);
	unsigned ours = 0;

	if (result != NVML_SUCCESS || !is_inside() || !samples)
		return result;
	const struct vg_ledger *ledger = find_ledger(device);
	for (unsigned i = 0; i < *count; i++)
		if (is_tenant(ledger, samples[i].pid))
			samples[ours++] = samples[i];
	*count = ours;
	return result;
}
