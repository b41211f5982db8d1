// Reads and sets clocks and performance states.
#include "system/gpu.h"
#include "virgate/gpu_state.h"

static enum vg_status check_clock(enum vg_gpu_clock clock)
{
	if ((unsigned)clock > VG_GPU_CLOCK_VIDEO)
		return vg_fail(VG_INVALID, 0, "%d is no clock: 0 to %d are", clock, VG_GPU_CLOCK_VIDEO);
	return VG_OK;
}

static enum vg_status check_state(unsigned state)
{
	if (state >= NVML_MAX_GPU_PERF_PSTATES)
		return vg_fail(VG_INVALID, 0, "%u is no performance state: 0 to %d are", state,
			       NVML_MAX_GPU_PERF_PSTATES - 1);
	return VG_OK;
}

enum vg_status vg_gpu_clock(struct vg_gpu *gpu, enum vg_gpu_clock clock, enum vg_gpu_clock_id id, unsigned *ret_mhz)
{
	VG_ENTRY();
	unsigned mhz;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_mhz);
	SYSTEM_TRY(check_clock(clock));
	if (id != VG_GPU_CLOCK_CURRENT && id != VG_GPU_CLOCK_CUSTOMER_BOOST_MAX)
		return vg_fail(VG_INVALID, 0, "%d is no clock id: the current one is 0, the highest one 3", id);
	GPU_ASK(nvmlDeviceGetClock, (nvmlClockType_t)clock, (nvmlClockId_t)id, &mhz);
	*ret_mhz = mhz;
	return VG_OK;
}

#define CLOCK_OF(name, entry)                                                               \
	enum vg_status name(struct vg_gpu *gpu, enum vg_gpu_clock clock, unsigned *ret_mhz) \
	{                                                                                   \
		VG_ENTRY();                                                                 \
		unsigned mhz;                                                               \
                                                                                            \
		GPU_CALL(gpu);                                                              \
		SYSTEM_NEEDED(ret_mhz);                                                     \
		SYSTEM_TRY(check_clock(clock));                                             \
		GPU_ASK(entry, (nvmlClockType_t)clock, &mhz);                               \
		*ret_mhz = mhz;                                                             \
		return VG_OK;                                                               \
	}
CLOCK_OF(vg_gpu_clock_max, nvmlDeviceGetMaxClockInfo)
CLOCK_OF(vg_gpu_clock_customer_boost_max, nvmlDeviceGetMaxCustomerBoostClock)

enum vg_status vg_gpu_clock_limits(struct vg_gpu *gpu, enum vg_gpu_clock clock, unsigned performance_state,
				   unsigned *ret_min, unsigned *ret_max)
{
	VG_ENTRY();
	unsigned least, most;

	GPU_CALL(gpu);
	SYSTEM_TRY(check_clock(clock));
	SYSTEM_TRY(check_state(performance_state));
	GPU_ASK(nvmlDeviceGetMinMaxClockOfPState, (nvmlClockType_t)clock, performance_state, &least, &most);
	if (ret_min)
		*ret_min = least;
	if (ret_max)
		*ret_max = most;
	return VG_OK;
}

enum vg_status vg_gpu_clock_offsets(struct vg_gpu *gpu, enum vg_gpu_clock clock, unsigned performance_state,
				    struct vg_gpu_clock_offsets *ret_offsets)
{
	VG_ENTRY();
	nvmlClockOffset_v1_t info = {
		.version = nvmlClockOffset_v1, .type = (nvmlClockType_t)clock, .pstate = performance_state};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_offsets);
	SYSTEM_TRY(check_clock(clock));
	SYSTEM_TRY(check_state(performance_state));
	GPU_ASK(nvmlDeviceGetClockOffsets, &info);
	*ret_offsets =
		(struct vg_gpu_clock_offsets){info.clockOffsetMHz, info.minClockOffsetMHz, info.maxClockOffsetMHz};
	return VG_OK;
}

enum vg_status vg_gpu_auto_boost(struct vg_gpu *gpu, int *ret_enabled, int *ret_default)
{
	VG_ENTRY();
	nvmlEnableState_t enabled, by_default;

	GPU_CALL(gpu);
	GPU_ASK(nvmlDeviceGetAutoBoostedClocksEnabled, &enabled, &by_default);
	if (ret_enabled)
		*ret_enabled = enabled != 0;
	if (ret_default)
		*ret_default = by_default != 0;
	return VG_OK;
}

const char *vg_gpu_clock_reason_name(uint64_t reason)
{
	static const char *const names[] = {"gpu_idle",
					    "applications_clocks_setting",
					    "sw_power_cap",
					    "hw_slowdown",
					    "sync_boost",
					    "sw_thermal_slowdown",
					    "hw_thermal_slowdown",
					    "hw_power_brake_slowdown",
					    "display_clock_setting"};

	if (reason == 0)
		return "none";
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		if (reason == 1ull << i)
			return names[i];
	return "unknown";
}

GPU_NUMBER(vg_gpu_clock_reasons, uint64_t, nvmlDeviceGetCurrentClocksEventReasons, unsigned long long)
GPU_NUMBER(vg_gpu_supported_clock_reasons, uint64_t, nvmlDeviceGetSupportedClocksEventReasons, unsigned long long)

enum vg_status vg_gpu_performance_state(struct vg_gpu *gpu, int *ret_state)
{
	VG_ENTRY();
	nvmlPstates_t state;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_state);
	GPU_ASK(nvmlDeviceGetPerformanceState, &state);
	*ret_state = state < NVML_MAX_GPU_PERF_PSTATES ? (int)state : -1;
	return VG_OK;
}

enum vg_status vg_gpu_supported_performance_states(struct vg_gpu *gpu, unsigned *states, size_t capacity,
						   size_t *ret_count)
{
	VG_ENTRY();
	nvmlPstates_t all[NVML_MAX_GPU_PERF_PSTATES];
	enum vg_status status;
	size_t count = 0;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	for (size_t i = 0; i < NVML_MAX_GPU_PERF_PSTATES; i++)
		all[i] = NVML_PSTATE_UNKNOWN;
	GPU_ASK(nvmlDeviceGetSupportedPerformanceStates, all, sizeof all);
	while (count < NVML_MAX_GPU_PERF_PSTATES && all[count] < NVML_MAX_GPU_PERF_PSTATES)
		count++;
	if (gpu_list_fits(states, capacity, count, "states", ret_count, &status))
		for (size_t i = 0; i < count; i++)
			states[i] = all[i];
	return status;
}

enum vg_status vg_gpu_dynamic_states(struct vg_gpu *gpu, struct vg_gpu_dynamic_states *ret_states)
{
	VG_ENTRY();
	nvmlGpuDynamicPstatesInfo_t info;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_states);
	GPU_ASK(nvmlDeviceGetDynamicPstatesInfo, &info);
	for (int i = 0; i < VG_GPU_DOMAINS; i++) {
		ret_states->domain[i].is_present = info.utilization[i].bIsPresent != 0;
		ret_states->domain[i].percentage = info.utilization[i].percentage;
		ret_states->domain[i].inc_threshold = info.utilization[i].incThreshold;
		ret_states->domain[i].dec_threshold = info.utilization[i].decThreshold;
	}
	return VG_OK;
}
