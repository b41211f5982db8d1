// Tests NVML and the driver: the same device, consistent memory figures, the process list, refusals.
#include "conformance.h"

#include "../../src/abi/nvml_abi.h"

// Compares NVML's result with `want` as numbers, since NVML's results and the driver's have different names.
#define ANSWERS(call, want) EQUALS(call, want)

static void *library;
static nvmlDevice_t handle;

static void *entry(const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		FAIL("NVML exports no %s", name);
	return found;
}

#define NVML(name) ((__typeof__(name) *)entry(#name))

static void need_nvml(void)
{
	char uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE], *out = uuid;
	CUuuid ours;

	need_context();
	if (library)
		return;
	library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library)
		FAIL("%s", dlerror());
	CHECK_INT(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	NEED(cuDeviceGetUuid(&ours, device));
	out += sprintf(out, "GPU-");
	for (int i = 0; i < 16; i++)
		out += sprintf(out, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			       (unsigned char)ours.bytes[i]);
	CHECK_INT(NVML(nvmlDeviceGetHandleByUUID)(uuid, &handle), NVML_SUCCESS);
}

CHILD(nvml_before_init)
{
	unsigned count = 0;

	library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!library)
		FAIL("%s", dlerror());
	ANSWERS(NVML(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
	ANSWERS(NVML(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
	ANSWERS(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	ANSWERS(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	ANSWERS(NVML(nvmlShutdown)(), NVML_SUCCESS);
	ANSWERS(NVML(nvmlDeviceGetCount_v2)(&count), NVML_SUCCESS); // counted
	HOLDS(count >= 1);
	ANSWERS(NVML(nvmlShutdown)(), NVML_SUCCESS);
	ANSWERS(NVML(nvmlDeviceGetCount_v2)(&count), NVML_ERROR_UNINITIALIZED);
}

CONFORM(initialisation)
{
	run_child("nvml_before_init", NULL);
}

CONFORM(the_same_device)
{
	char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "", by_cuda[96] = "", uuid[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
	int major = 0, minor = 0, cuda_major = 0, version = 0, by_nvml = 0;
	nvmlPciInfo_t pci;
	CUdevice found = -1;
	unsigned index = 99;
	nvmlDevice_t again = NULL;

	need_nvml();
	ANSWERS(NVML(nvmlDeviceGetName)(handle, name, sizeof name), NVML_SUCCESS);
	WORKS(cuDeviceGetName(by_cuda, sizeof by_cuda, device));
	CHECK_STR(name, by_cuda);
	ANSWERS(NVML(nvmlDeviceGetCudaComputeCapability)(handle, &major, &minor), NVML_SUCCESS);
	WORKS(cuDeviceGetAttribute(&cuda_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
	EQUALS(major, cuda_major);
	ANSWERS(NVML(nvmlDeviceGetPciInfo_v3)(handle, &pci), NVML_SUCCESS);
	WORKS(cuDeviceGetByPCIBusId(&found, pci.busId));
	EQUALS(found, device);
	ANSWERS(NVML(nvmlSystemGetCudaDriverVersion_v2)(&by_nvml), NVML_SUCCESS);
	WORKS(cuDriverGetVersion(&version));
	EQUALS(by_nvml, version);
	ANSWERS(NVML(nvmlDeviceGetUUID)(handle, uuid, sizeof uuid), NVML_SUCCESS);
	EQUALS(strlen(uuid), 40);
	ANSWERS(NVML(nvmlDeviceGetUUID)(handle, uuid, 8), NVML_ERROR_INSUFFICIENT_SIZE);
	ANSWERS(NVML(nvmlDeviceGetIndex)(handle, &index), NVML_SUCCESS);
	ANSWERS(NVML(nvmlDeviceGetHandleByIndex_v2)(index, &again), NVML_SUCCESS);
	HOLDS(again == handle);
}

CONFORM(refusals)
{
	nvmlDevice_t none = NULL;
	nvmlMemory_t memory;
	unsigned count = 0;

	need_nvml();
	ANSWERS(NVML(nvmlDeviceGetHandleByIndex_v2)(99, &none), NVML_ERROR_INVALID_ARGUMENT);
	ANSWERS(NVML(nvmlDeviceGetHandleByIndex_v2)(0, NULL), NVML_ERROR_INVALID_ARGUMENT);
	ANSWERS(NVML(nvmlDeviceGetHandleByUUID)("GPU-00000000-0000-0000-0000-000000000000", &none),
		NVML_ERROR_NOT_FOUND);
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(handle, NULL), NVML_ERROR_INVALID_ARGUMENT);
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(NULL, &memory), NVML_ERROR_INVALID_ARGUMENT);
	ANSWERS(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(handle, &count, NULL), NVML_ERROR_INSUFFICIENT_SIZE);
	HOLDS(count >= 1); // the call with a count of 0 has returned the number of processes
	HOLDS(strlen(NVML(nvmlErrorString)(NVML_ERROR_NOT_FOUND)) > 3);
}

CONFORM(memory)
{
	nvmlMemory_t memory = {0}, before = {0};
	nvmlMemory_v2_t full = {.version = nvmlMemory_v2};
	size_t total = 0;
	CUdeviceptr address;

	need_nvml();
	NEED(cuDeviceTotalMem(&total, device));
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(handle, &before), NVML_SUCCESS);
	EQUALS(before.used + before.free, before.total);
	HOLDS(before.total >= total); // the driver reserves some of the memory
	BETWEEN(before.total - total, 0, 4 * GiB);
	HOLDS(before.used >= memory_used());
	NEED(cuMemAlloc(&address, 256 * MiB));
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(handle, &memory), NVML_SUCCESS);
	EQUALS(memory.used - before.used, 256 * MiB);
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo_v2)(handle, &full), NVML_SUCCESS);
	EQUALS(full.total, memory.total);
	EQUALS(full.used + full.free + full.reserved, full.total);
	EQUALS(full.used + full.reserved, memory.used); // version 1 of the call counts reserved memory as used
	full.version = 7;
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo_v2)(handle, &full), NVML_ERROR_FUNCTION_NOT_FOUND);
	WORKS(cuMemFree(address));
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(handle, &memory), NVML_SUCCESS);
	EQUALS(memory.used, before.used);
}

static unsigned long long used_by_us(void)
{
	nvmlProcessInfo_t processes[256];
	unsigned count = 256;

	ANSWERS(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(handle, &count, processes), NVML_SUCCESS);
	for (unsigned i = 0; i < count; i++)
		if (processes[i].pid == (unsigned)getpid())
			return processes[i].usedGpuMemory;
	differ(__FILE__, __LINE__, "this process is not in the list of %u", count);
	return 0;
}

CONFORM(processes)
{
	unsigned long long before, during;
	CUdeviceptr address;

	need_nvml();
	before = used_by_us();
	HOLDS(before > 0); // its context
	NEED(cuMemAlloc(&address, 64 * MiB));
	during = used_by_us();
	EQUALS(during - before, 64 * MiB);
	WORKS(cuMemFree(address));
	EQUALS(used_by_us(), before);
}

CHILD(hold_context)
{
	alarm(30); // ends the child if the test is killed
	need_context();
	pause();
}

CHILD(only_init)
{
	need_nvml();
	NEED(cuDevicePrimaryCtxReset(device));
	nvmlProcessInfo_t processes[256];
	unsigned count = 256, found = 0;
	ANSWERS(NVML(nvmlDeviceGetComputeRunningProcesses_v3)(handle, &count, processes), NVML_SUCCESS);
	for (unsigned i = 0; i < count; i++)
		found += processes[i].pid == (unsigned)getpid();
	EQUALS(found, 0); // a process without a context is not in the list
}

CONFORM(a_process_without_a_context_is_not_listed)
{
	run_child("only_init", NULL);
}

CONFORM(memory_of_a_killed_process_comes_back)
{
	nvmlMemory_t memory = {0};
	unsigned long long before;

	need_nvml();
	ANSWERS(NVML(nvmlDeviceGetMemoryInfo)(handle, &memory), NVML_SUCCESS);
	before = memory.used;
	pid_t child = start_child("hold_context", NULL);
	double start = seconds();
	while (memory.used < before + MiB && seconds() - start < 10) {
		usleep(10000);
		NVML(nvmlDeviceGetMemoryInfo)(handle, &memory);
	}
	HOLDS(memory.used >= before + MiB);
	kill(child, SIGKILL);
	EQUALS(wait_child(child), 128 + SIGKILL);
	// the memory is free by the time that the child can be reaped
	COMES_TO((NVML(nvmlDeviceGetMemoryInfo)(handle, &memory), memory.used), before);
}

// Checks that the call succeeds or returns NOT_SUPPORTED, as NVML documents for any device.
#define ASKED(call)                                                                                         \
	do {                                                                                                \
		int got_ = (int)(call);                                                                     \
		assertions++;                                                                               \
		if (got_ != NVML_SUCCESS && got_ != NVML_ERROR_NOT_SUPPORTED && got_ != NVML_ERROR_NO_DATA) \
			differ(__FILE__, __LINE__, "%s gave %d", #call, got_);                              \
	} while (0)

CONFORM(figures)
{
	unsigned number = 0, least = 0, most = 0;
	nvmlPstates_t states[NVML_MAX_GPU_PERF_PSTATES];
	unsigned long long reasons = 0;
	char text[96] = "";

	need_nvml();
	ASKED(NVML(nvmlDeviceGetSerial)(handle, text, sizeof text));
	ASKED(NVML(nvmlDeviceGetBoardPartNumber)(handle, text, sizeof text));
	ASKED(NVML(nvmlDeviceGetInforomImageVersion)(handle, text, sizeof text));
	ASKED(NVML(nvmlDeviceGetInforomVersion)(handle, NVML_INFOROM_OEM, text, sizeof text));
	ASKED(NVML(nvmlDeviceGetModuleId)(handle, &number));
	ANSWERS(NVML(nvmlDeviceGetNumaNodeId)(handle, &number), NVML_ERROR_NOT_SUPPORTED);
	ANSWERS(NVML(nvmlDeviceGetSerial)(handle, NULL, 0), NVML_ERROR_INVALID_ARGUMENT);
	ANSWERS(NVML(nvmlDeviceGetClock)(handle, NVML_CLOCK_SM, NVML_CLOCK_ID_CURRENT, &number), NVML_SUCCESS);
	HOLDS(number > 0);
	ANSWERS(NVML(nvmlDeviceGetMaxClockInfo)(handle, NVML_CLOCK_SM, &most), NVML_SUCCESS);
	HOLDS(number <= most);
	ANSWERS(NVML(nvmlDeviceGetClock)(handle, NVML_CLOCK_SM, NVML_CLOCK_ID_CURRENT, NULL),
		NVML_ERROR_INVALID_ARGUMENT);
	ASKED(NVML(nvmlDeviceGetMaxCustomerBoostClock)(handle, NVML_CLOCK_GRAPHICS, &number));
	ASKED(NVML(nvmlDeviceGetMinMaxClockOfPState)(handle, NVML_CLOCK_SM, 0, &least, &most));
	HOLDS(least <= most);
	ANSWERS(NVML(nvmlDeviceGetCurrentClocksEventReasons)(handle, &reasons), NVML_SUCCESS);
	ANSWERS(NVML(nvmlDeviceGetSupportedClocksEventReasons)(handle, &reasons), NVML_SUCCESS);
	HOLDS(reasons != 0);
	ANSWERS(NVML(nvmlDeviceGetPerformanceState)(handle, &number), NVML_SUCCESS);
	BETWEEN(number, 0, 15);
	ASKED(NVML(nvmlDeviceGetSupportedPerformanceStates)(handle, states, sizeof states));
	ANSWERS(NVML(nvmlDeviceGetTemperatureThreshold)(handle, 99, &number), NVML_ERROR_INVALID_ARGUMENT);
	ASKED(NVML(nvmlDeviceGetTemperatureThreshold)(handle, NVML_TEMPERATURE_THRESHOLD_GPU_MAX, &number));
	ANSWERS(NVML(nvmlDeviceGetNumFans)(handle, &number), NVML_SUCCESS); // also succeeds on a device without a fan
	unsigned long long flushed = 0;
	unsigned long took = 0;
	nvmlGpuThermalSettings_t sensors = {0};
	ANSWERS(NVML(nvmlDeviceGetThermalSettings)(handle, 0, &sensors), NVML_SUCCESS);
	BETWEEN(sensors.count, 1, NVML_MAX_THERMAL_SENSORS_PER_GPU);
	ANSWERS(NVML(nvmlDeviceGetLastBBXFlushTime)(handle, &flushed, &took), NVML_SUCCESS);
	ASKED(NVML(nvmlDeviceGetMaxPcieLinkGeneration)(handle, &number));
	ASKED(NVML(nvmlDeviceGetCurrPcieLinkWidth)(handle, &number));
	ASKED(NVML(nvmlDeviceGetPcieThroughput)(handle, NVML_PCIE_UTIL_RX_BYTES, &number));
	ASKED(NVML(nvmlDeviceGetPcieReplayCounter)(handle, &number));
	ANSWERS(NVML(nvmlDeviceGetNvLinkState)(handle, 77, (nvmlEnableState_t *)&number), NVML_ERROR_NOT_SUPPORTED);
	ANSWERS(NVML(nvmlDeviceIsMigDeviceHandle)(handle, &number), NVML_SUCCESS);
	EQUALS(number, 0);
}

// Tests structs with a version field: the library must accept the layout that its version declares.
CONFORM(versioned_structs)
{
	nvmlTemperature_v1_t temperature = {.version = nvmlTemperature_v1};
	nvmlMarginTemperature_v1_t margin = {.version = nvmlMarginTemperature_v1};
	nvmlPciInfoExt_v1_t pci = {.version = nvmlPciInfoExt_v1};
	nvmlRepairStatus_v1_t repair = {.version = nvmlRepairStatus_v1};
	nvmlDeviceAddressingMode_v1_t mode = {.version = nvmlDeviceAddressingMode_v1};
	nvmlClockOffset_v1_t offset = {.version = nvmlClockOffset_v1, .type = NVML_CLOCK_GRAPHICS};
	nvmlSystemDriverBranchInfo_v1_t branch = {.version = nvmlSystemDriverBranchInfo_v1};
	nvmlC2cModeInfo_v1_t c2c = {0};
	nvmlGpuDynamicPstatesInfo_t dynamic;
	nvmlGpuThermalSettings_t thermal;

	need_nvml();
	ANSWERS(NVML(nvmlDeviceGetTemperatureV)(handle, &temperature), NVML_SUCCESS);
	BETWEEN(temperature.temperature, 1, 120);
	ASKED(NVML(nvmlDeviceGetMarginTemperature)(handle, &margin));
	ANSWERS(NVML(nvmlDeviceGetPciInfoExt)(handle, &pci), NVML_SUCCESS);
	EQUALS(pci.baseClass, 3);
	ASKED(NVML(nvmlDeviceGetRepairStatus)(handle, &repair));
	ASKED(NVML(nvmlDeviceGetAddressingMode)(handle, &mode));
	ASKED(NVML(nvmlDeviceGetClockOffsets)(handle, &offset));
	ASKED(NVML(nvmlDeviceGetC2cModeInfoV)(handle, &c2c));
	ASKED(NVML(nvmlDeviceGetDynamicPstatesInfo)(handle, &dynamic));
	ASKED(NVML(nvmlDeviceGetThermalSettings)(handle, 0, &thermal));
	ANSWERS(NVML(nvmlSystemGetDriverBranch)(&branch, sizeof branch.branch), NVML_SUCCESS);
	HOLDS(branch.branch[0] == 'r');
	temperature.version = 7;
	FAILS((CUresult)NVML(nvmlDeviceGetTemperatureV)(handle, &temperature));
}

CONFORM(places)
{
	unsigned long cpus[64] = {0}, nodes[64] = {0};
	nvmlGpuTopologyLevel_t level = 99;
	unsigned count = 0;
	nvmlDevice_t migs;

	need_nvml();
	ASKED(NVML(nvmlDeviceGetMemoryAffinity)(handle, 64, nodes, NVML_AFFINITY_SCOPE_NODE));
	ANSWERS(NVML(nvmlDeviceGetCpuAffinityWithinScope)(handle, 64, cpus, NVML_AFFINITY_SCOPE_SOCKET), NVML_SUCCESS);
	unsigned long any = 0;
	for (int i = 0; i < 64; i++)
		any |= cpus[i];
	HOLDS(any != 0);
	ASKED(NVML(nvmlSystemGetTopologyGpuSet)(0, &count, NULL));
	count = 0;
	ASKED(NVML(nvmlDeviceGetTopologyNearestGpus)(handle, NVML_TOPOLOGY_SYSTEM, &count, NULL));
	ANSWERS(NVML(nvmlDeviceGetTopologyCommonAncestor)(handle, handle, &level), NVML_ERROR_NOT_SUPPORTED);
	nvmlGpuP2PStatus_t peer = 99;
	ANSWERS(NVML(nvmlDeviceGetP2PStatus)(handle, handle, NVML_P2P_CAPS_INDEX_READ, &peer), NVML_SUCCESS);
	EQUALS(peer, NVML_P2P_STATUS_NOT_SUPPORTED); // of itself
	FAILS((CUresult)NVML(nvmlDeviceGetMigDeviceHandleByIndex)(handle, 0, &migs));
}

CONFORM(events_and_fields)
{
	nvmlFieldValue_t values[2] = {{.fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT}, {.fieldId = 99999}};
	nvmlSystemEventSetCreateRequest_v1_t created = {.version = nvmlSystemEventSetCreateRequest_v1};
	unsigned long long types = 0;
	nvmlEventSet_t set = NULL;
	nvmlEventData_t event;

	need_nvml();
	ANSWERS(NVML(nvmlDeviceGetSupportedEventTypes)(handle, &types), NVML_SUCCESS);
	HOLDS(types & NVML_EVENT_TYPE_XID_CRITICAL);
	ANSWERS(NVML(nvmlEventSetCreate)(&set), NVML_SUCCESS);
	ANSWERS(NVML(nvmlDeviceRegisterEvents)(handle, NVML_EVENT_TYPE_XID_CRITICAL, set), NVML_SUCCESS);
	ANSWERS(NVML(nvmlEventSetWait_v2)(set, &event, 20), NVML_ERROR_TIMEOUT);
	ANSWERS(NVML(nvmlEventSetFree)(set), NVML_SUCCESS);
	ANSWERS(NVML(nvmlDeviceGetFieldValues)(handle, 2, values), NVML_SUCCESS); // each field has its own result
	ASKED(values[0].nvmlReturn);
	HOLDS(values[1].nvmlReturn != NVML_SUCCESS);
	ANSWERS(NVML(nvmlDeviceGetFieldValues)(handle, 2, NULL), NVML_ERROR_INVALID_ARGUMENT);
	ASKED(NVML(nvmlSystemEventSetCreate)(&created));
	if (created.set)
		ANSWERS(NVML(nvmlSystemEventSetFree)(&created), NVML_SUCCESS);
}
