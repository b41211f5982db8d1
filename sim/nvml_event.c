// Implements NVML's events and field values. The only events are Xids. A user writes them into a file of the simulated
// node.
#include "nvml.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SET_MAGIC = 0x4e455653, SYSTEM_MAGIC = 0x4e535953, SUPPORTED = 0xff9f, XID = 8, LOOK_MS = 20 };

struct nvmlEventSet_st {
	uint32_t magic;
	// The set ignores the file of Xids up to this offset. It has read those lines, or they were written before it
	// was created.
	off_t read;
	bool has_xids[SIM_DEVICES]; // the devices whose Xids the set reports
};
struct nvmlSystemEventSet_st {
	uint32_t magic;
};

// Waits until the timeout (0: for ever), as NVML does if no event occurs.
static nvmlReturn_t wait_for_timeout(unsigned milliseconds)
{
	const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

	while (milliseconds == 0)
		pause();
	nanosleep(&time, NULL);
	return NVML_ERROR_TIMEOUT;
}

NVML_NUMBER(nvmlDeviceGetSupportedEventTypes, unsigned long long, eventTypes, SUPPORTED)

static int open_xids(const struct nvml_state *now)
{
	char path[sizeof now->config.directory + 8];

	snprintf(path, sizeof path, "%s/xid", now->config.directory);
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

static off_t measure_xids(const struct nvml_state *now)
{
	int fd = open_xids(now);
	off_t length = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;

	if (fd >= 0)
		close(fd);
	return length > 0 ? length : 0;
}

// Reads the lines "INDEX XID" that are new to the set, until one is of a registered device. Returns whether it found
// one.
static bool read_xid(struct nvmlEventSet_st *set, struct nvml_state *now, nvmlEventData_t *data)
{
	int fd = open_xids(now), length;
	unsigned index;
	unsigned long long xid;
	char line[64];
	bool found = false;

	while (fd >= 0 && !found) {
		ssize_t got = pread(fd, line, sizeof line - 1, set->read);
		line[got > 0 ? got : 0] = '\0';
		char *end = strchr(line, '\n');
		if (!end)
			break; // the line is not complete yet
		set->read += end + 1 - line;
		*end = '\0';
		if (sscanf(line, "%u %llu%n", &index, &xid, &length) != 2 || line[length] ||
		    index >= now->config.devices || !set->has_xids[index])
			continue;
		*data = (nvmlEventData_t){.device = &now->devices[index],
					  .eventType = XID,
					  .eventData = xid,
					  .gpuInstanceId = UINT32_MAX,
					  .computeInstanceId = UINT32_MAX};
		found = true;
	}
	if (fd >= 0)
		close(fd);
	return found;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	struct nvmlEventSet_st *created = calloc(1, sizeof *created);
	if (!created)
		return NVML_ERROR_MEMORY;
	created->magic = SET_MAGIC;
	created->read = measure_xids(now);
	*set = created;
	return NVML_SUCCESS;
}

static nvmlReturn_t check_set(nvmlEventSet_t set)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	return set && set->magic == SET_MAGIC ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	NVML_TRY(check_set(set));
	set->magic = 0;
	free(set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set)
{
	struct nvml_state *now;

	NVML_TRY(nvml_device(device, &now));
	NVML_TRY(check_set(set));
	if (eventTypes & ~(unsigned long long)SUPPORTED)
		return NVML_ERROR_NOT_SUPPORTED;
	if (eventTypes & XID)
		set->has_xids[device->index] = true;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms)
{
	const unsigned wanted = timeoutms;
	struct nvml_state *now;

	NVML_TRY(check_set(set));
	NVML_TRY(nvml_state(&now));
	if (!data)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (;;) {
		if (read_xid(set, now, data))
			return NVML_SUCCESS;
		if (wanted && !timeoutms)
			return NVML_ERROR_TIMEOUT;
		unsigned slice = wanted && timeoutms < LOOK_MS ? timeoutms : LOOK_MS;
		wait_for_timeout(slice);
		timeoutms -= wanted ? slice : 0;
	}
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms)
{
	return nvmlEventSetWait_v2(set, data, timeoutms);
}

// ---- events of the system: added and removed devices ---------------------------------------------

nvmlReturn_t nvmlSystemEventSetCreate(nvmlSystemEventSetCreateRequest_v1_t *request)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!request)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (request->version != nvmlSystemEventSetCreateRequest_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	struct nvmlSystemEventSet_st *created = calloc(1, sizeof *created);
	if (!created)
		return NVML_ERROR_MEMORY;
	created->magic = SYSTEM_MAGIC;
	request->set = created;
	return NVML_SUCCESS;
}

static nvmlReturn_t check_system_set(nvmlSystemEventSet_t set)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	return set && set->magic == SYSTEM_MAGIC ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlSystemEventSetFree(nvmlSystemEventSetFreeRequest_v1_t *request)
{
	if (!request)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (request->version != nvmlSystemEventSetCreateRequest_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	NVML_TRY(check_system_set(request->set));
	request->set->magic = 0;
	free(request->set);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemRegisterEvents(nvmlSystemRegisterEventRequest_v1_t *request)
{
	if (!request)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (request->version != nvmlSystemRegisterEventRequest_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	NVML_TRY(check_system_set(request->set));
	return request->eventTypes & ~3ull ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS; // bind and unbind
}

nvmlReturn_t nvmlSystemEventSetWait(nvmlSystemEventSetWaitRequest_v1_t *request)
{
	if (!request)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (request->version != nvmlSystemEventSetWaitRequest_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	NVML_TRY(check_system_set(request->set));
	if (!request->data || request->dataSize == 0)
		return NVML_ERROR_INVALID_ARGUMENT;
	request->numEvent = 0;
	return wait_for_timeout(request->timeoutms);
}

// ---- field values -----------------------------------------------------------------------------------

enum field_action { FIELD_READ, FIELD_CLEAR };

static nvmlReturn_t access_fields(nvmlDevice_t device, int count, nvmlFieldValue_t *values, enum field_action action)
{
	struct nvml_state *now;
	struct timespec time;

	NVML_TRY(nvml_device(device, &now));
	if (count <= 0 || !values)
		return NVML_ERROR_INVALID_ARGUMENT;
	clock_gettime(CLOCK_REALTIME, &time);
	for (int i = 0; i < count; i++) {
		nvmlFieldValue_t *value = &values[i];
		value->timestamp = (long long)time.tv_sec * 1000000 + time.tv_nsec / 1000;
		value->latencyUsec = 0;
		value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		value->value.ullVal = 0;
		value->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		if (action == FIELD_CLEAR ||
		    (value->fieldId != NVML_FI_DEV_NVLINK_LINK_COUNT && value->fieldId != NVML_FI_DEV_POWER_INSTANT))
			continue;
		value->nvmlReturn = NVML_SUCCESS;
		if (value->fieldId == NVML_FI_DEV_POWER_INSTANT)
			(void)nvmlDeviceGetPowerUsage(device, &value->value.uiVal);
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
	return access_fields(device, valuesCount, values, FIELD_READ);
}

nvmlReturn_t nvmlDeviceClearFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values)
{
	return access_fields(device, valuesCount, values, FIELD_CLEAR);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_v1_t *branchInfo, unsigned length)
{
	struct nvml_state *now;

	NVML_TRY(nvml_state(&now));
	if (!branchInfo)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (branchInfo->version != nvmlSystemDriverBranchInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	return nvml_text(branchInfo->branch, length, now->config.driver >= 13000 ? "r580_00" : "r570_00");
}
