// Reads temperatures, and reads and sets fans.
#include "system/gpu.h"
#include "virgate/gpu_state.h"

enum vg_status vg_gpu_temperature(struct vg_gpu *gpu, int *ret_celsius)
{
	VG_ENTRY();
	nvmlTemperature_v1_t info = {.version = nvmlTemperature_v1, .sensorType = NVML_TEMPERATURE_GPU};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_celsius);
	GPU_ASK(nvmlDeviceGetTemperatureV, &info);
	*ret_celsius = info.temperature;
	return VG_OK;
}

enum vg_status vg_gpu_temperature_threshold(struct vg_gpu *gpu, enum vg_gpu_threshold threshold, int *ret_celsius)
{
	VG_ENTRY();
	unsigned celsius;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_celsius);
	if ((unsigned)threshold > VG_GPU_THRESHOLD_GPS_CURR)
		return vg_fail(VG_INVALID, 0, "%d is no threshold: 0 to %d are", threshold, VG_GPU_THRESHOLD_GPS_CURR);
	GPU_ASK(nvmlDeviceGetTemperatureThreshold, (nvmlTemperatureThresholds_t)threshold, &celsius);
	*ret_celsius = (int)celsius;
	return VG_OK;
}

enum vg_status vg_gpu_temperature_margin(struct vg_gpu *gpu, int *ret_degrees)
{
	VG_ENTRY();
	nvmlMarginTemperature_v1_t info = {.version = nvmlMarginTemperature_v1};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_degrees);
	GPU_ASK(nvmlDeviceGetMarginTemperature, &info);
	*ret_degrees = info.marginTemperature;
	return VG_OK;
}

enum vg_status vg_gpu_thermal_sensors(struct vg_gpu *gpu, enum vg_gpu_thermal_target target,
				      struct vg_gpu_thermal_sensor *sensors, size_t capacity, size_t *ret_count)
{
	VG_ENTRY();
	nvmlGpuThermalSettings_t settings = {0};
	enum vg_status status;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_count);
	if (target < VG_GPU_THERMAL_NONE || target > VG_GPU_THERMAL_ALL)
		return vg_fail(VG_INVALID, 0, "%d is no target of a sensor: 0 to %d are", target, VG_GPU_THERMAL_ALL);
	GPU_ASK(nvmlDeviceGetThermalSettings, (unsigned)target, &settings);
	size_t count =
		settings.count < NVML_MAX_THERMAL_SENSORS_PER_GPU ? settings.count : NVML_MAX_THERMAL_SENSORS_PER_GPU;
	if (gpu_list_fits(sensors, capacity, count, "sensors", ret_count, &status))
		for (size_t i = 0; i < count; i++)
			sensors[i] = (struct vg_gpu_thermal_sensor){
				settings.sensor[i].controller, settings.sensor[i].defaultMinTemp,
				settings.sensor[i].defaultMaxTemp, settings.sensor[i].currentTemp,
				(enum vg_gpu_thermal_target)settings.sensor[i].target};
	return status;
}

enum vg_status vg_gpu_cooler(struct vg_gpu *gpu, struct vg_gpu_cooler *ret_cooler)
{
	VG_ENTRY();
	nvmlCoolerInfo_v1_t info = {.version = nvmlCoolerInfo_v1};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_cooler);
	GPU_ASK(nvmlDeviceGetCoolerInfo, &info);
	*ret_cooler = (struct vg_gpu_cooler){(enum vg_gpu_cooler_signal)info.signalType, (unsigned)info.target};
	return VG_OK;
}

GPU_NUMBER(vg_gpu_fan_count, unsigned, nvmlDeviceGetNumFans, unsigned)

static enum vg_status check_fan(struct vg_gpu *gpu, const struct gpu_call *call, unsigned fan)
{
	unsigned count = 0;

	nvmlReturn_t result = call->nvml->nvmlDeviceGetNumFans(call->handle, &count);
	if (result)
		return system_nvml_failed(result, "nvmlDeviceGetNumFans", "%s", gpu->uuid);
	if (fan >= count)
		return vg_fail(count ? VG_INVALID : VG_UNSUPPORTED, 0, "%s has %u fans: there is no number %u",
			       gpu->uuid, count, fan);
	return VG_OK;
}

enum vg_status vg_gpu_fan(struct vg_gpu *gpu, unsigned fan, struct vg_gpu_fan *ret_fan)
{
	VG_ENTRY();
	nvmlFanSpeedInfo_v1_t info = {.version = nvmlFanSpeedInfo_v1, .fan = fan};
	unsigned value = 0, most = 0;
	struct vg_gpu_fan got;
	int policy;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_fan);
	SYSTEM_TRY(check_fan(gpu, &call, fan));
	GPU_FIGURE(&got.speed, value, nvmlDeviceGetFanSpeed_v2, fan, &value);
	GPU_FIGURE(&got.target_speed, value, nvmlDeviceGetTargetFanSpeed, fan, &value);
	GPU_FIGURE(&got.min_speed, value, nvmlDeviceGetMinMaxFanSpeed, &value, &most);
	got.max_speed = got.min_speed < 0 ? -1 : (int)most;
	GPU_FIGURE(&got.rpm, info.speed, nvmlDeviceGetFanSpeedRPM, &info);
	GPU_FIGURE(&policy, value, nvmlDeviceGetFanControlPolicy_v2, fan, &value);
	got.policy = policy > VG_GPU_FAN_MANUAL ? VG_GPU_FAN_UNKNOWN : (enum vg_gpu_fan_policy)policy;
	*ret_fan = got;
	return VG_OK;
}

enum vg_status vg_gpu_set_fan_speed(struct vg_gpu *gpu, unsigned fan, unsigned percent)
{
	VG_ENTRY();
	GPU_CALL(gpu);
	if (percent > 100)
		return vg_fail(VG_INVALID, 0, "a fan cannot run at %u %% of its speed: 0 to 100 can be set", percent);
	SYSTEM_TRY(check_fan(gpu, &call, fan));
	GPU_ASK(nvmlDeviceSetFanSpeed_v2, fan, percent);
	return VG_OK;
}

enum vg_status vg_gpu_set_default_fan_speed(struct vg_gpu *gpu, unsigned fan)
{
	VG_ENTRY();
	GPU_CALL(gpu);
	SYSTEM_TRY(check_fan(gpu, &call, fan));
	GPU_ASK(nvmlDeviceSetDefaultFanSpeed_v2, fan);
	return VG_OK;
}
