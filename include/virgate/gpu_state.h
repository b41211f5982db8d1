/* The state of a GPU: clocks, performance states, temperatures, fans, and the InfoROM of its board. Errors as in
 * system.h; arrays as vg_gpu_all() in gpu.h. Any thread. */
#ifndef VIRGATE_GPU_STATE_H
#define VIRGATE_GPU_STATE_H

#include <virgate/gpu.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- clocks, in MHz ---- */

enum vg_gpu_clock { VG_GPU_CLOCK_GRAPHICS, VG_GPU_CLOCK_SM, VG_GPU_CLOCK_MEMORY, VG_GPU_CLOCK_VIDEO };
enum vg_gpu_clock_id {
	VG_GPU_CLOCK_CURRENT = 0,
	VG_GPU_CLOCK_CUSTOMER_BOOST_MAX = 3 /* the highest clock that the board vendor permits */
};
/* These functions read a clock, its maximum, and the maximum of its customer boost. INVALID, UNSUPPORTED. Source:
 * nvmlDeviceGetClock, nvmlDeviceGetMaxClockInfo, nvmlDeviceGetMaxCustomerBoostClock. */
VG_PUBLIC enum vg_status vg_gpu_clock(struct vg_gpu *gpu, enum vg_gpu_clock clock, enum vg_gpu_clock_id id,
				      unsigned *ret_mhz);
VG_PUBLIC enum vg_status vg_gpu_clock_max(struct vg_gpu *gpu, enum vg_gpu_clock clock, unsigned *ret_mhz);
VG_PUBLIC enum vg_status vg_gpu_clock_customer_boost_max(struct vg_gpu *gpu, enum vg_gpu_clock clock,
							 unsigned *ret_mhz);
/* Reads the lowest and the highest value of a clock in a performance state, 0 to 15. Outputs may be NULL. Source:
 * nvmlDeviceGetMinMaxClockOfPState. */
VG_PUBLIC enum vg_status vg_gpu_clock_limits(struct vg_gpu *gpu, enum vg_gpu_clock clock, unsigned performance_state,
					     unsigned *ret_min, unsigned *ret_max);

struct vg_gpu_clock_offsets {
	int offset, min_offset, max_offset;
};
/* Reads the offset of a clock in a performance state, and its limits. Source: nvmlDeviceGetClockOffsets. */
VG_PUBLIC enum vg_status vg_gpu_clock_offsets(struct vg_gpu *gpu, enum vg_gpu_clock clock, unsigned performance_state,
					      struct vg_gpu_clock_offsets *ret_offsets);
/* Reads whether auto boost is on (1 or 0), now and by default. Outputs may be NULL. Source:
 * nvmlDeviceGetAutoBoostedClocksEnabled. */
VG_PUBLIC enum vg_status vg_gpu_auto_boost(struct vg_gpu *gpu, int *ret_enabled, int *ret_default);

/* Why clocks are not higher: NVML's bits. */
enum vg_gpu_clock_reason {
	VG_GPU_CLOCK_REASON_NONE = 0,
	VG_GPU_CLOCK_REASON_GPU_IDLE = 0x1,
	VG_GPU_CLOCK_REASON_APPLICATIONS_CLOCKS_SETTING = 0x2,
	VG_GPU_CLOCK_REASON_SW_POWER_CAP = 0x4,
	VG_GPU_CLOCK_REASON_HW_SLOWDOWN = 0x8,
	VG_GPU_CLOCK_REASON_SYNC_BOOST = 0x10,
	VG_GPU_CLOCK_REASON_SW_THERMAL_SLOWDOWN = 0x20,
	VG_GPU_CLOCK_REASON_HW_THERMAL_SLOWDOWN = 0x40,
	VG_GPU_CLOCK_REASON_HW_POWER_BRAKE_SLOWDOWN = 0x80,
	VG_GPU_CLOCK_REASON_DISPLAY_CLOCK_SETTING = 0x100
};
/* Returns the name of a reason: "sw_power_cap" for one bit, "none" for 0; "unknown" for another value. */
VG_PUBLIC const char *vg_gpu_clock_reason_name(uint64_t reason);
/* These functions read the current reasons that limit the clocks, and the reasons that this GPU can report. Source:
 * nvmlDeviceGetCurrentClocksEventReasons, nvmlDeviceGetSupportedClocksEventReasons. */
VG_PUBLIC enum vg_status vg_gpu_clock_reasons(struct vg_gpu *gpu, uint64_t *ret_reasons);
VG_PUBLIC enum vg_status vg_gpu_supported_clock_reasons(struct vg_gpu *gpu, uint64_t *ret_reasons);

/* ---- performance states: 0 is the fastest, 15 the slowest ---- */

/* Reads the performance state; -1: unknown. Source: nvmlDeviceGetPerformanceState. */
VG_PUBLIC enum vg_status vg_gpu_performance_state(struct vg_gpu *gpu, int *ret_state);
/* Lists the performance states that the GPU supports. Source: nvmlDeviceGetSupportedPerformanceStates. */
VG_PUBLIC enum vg_status vg_gpu_supported_performance_states(struct vg_gpu *gpu, unsigned *states, size_t capacity,
							     size_t *ret_count);

enum { VG_GPU_DOMAINS = 8 };
struct vg_gpu_dynamic_states {
	struct {
		int is_present;
		unsigned percentage; /* percentage of the last second in which the domain was busy */
		/* Percentages above and below which the performance state changes. */
		unsigned inc_threshold, dec_threshold;
	} domain[VG_GPU_DOMAINS]; /* 0: the GPU, 1: its memory, 2: video, 3: the bus */
};
/* Reads how busy each domain is. Source: nvmlDeviceGetDynamicPstatesInfo. */
VG_PUBLIC enum vg_status vg_gpu_dynamic_states(struct vg_gpu *gpu, struct vg_gpu_dynamic_states *ret_states);

/* ---- temperatures, in degrees Celsius ---- */

enum vg_gpu_threshold {
	VG_GPU_THRESHOLD_SHUTDOWN, /* this threshold and the next three usually exist only on GPUs before Ada */
	VG_GPU_THRESHOLD_SLOWDOWN,
	VG_GPU_THRESHOLD_MEM_MAX,
	VG_GPU_THRESHOLD_GPU_MAX,
	VG_GPU_THRESHOLD_ACOUSTIC_MIN,
	VG_GPU_THRESHOLD_ACOUSTIC_CURR,
	VG_GPU_THRESHOLD_ACOUSTIC_MAX,
	VG_GPU_THRESHOLD_GPS_CURR
};
/* These functions read the temperature; one of its thresholds; and the margin to the slowdown. Source:
 * nvmlDeviceGetTemperatureV, nvmlDeviceGetTemperatureThreshold, nvmlDeviceGetMarginTemperature. */
VG_PUBLIC enum vg_status vg_gpu_temperature(struct vg_gpu *gpu, int *ret_celsius);
VG_PUBLIC enum vg_status vg_gpu_temperature_threshold(struct vg_gpu *gpu, enum vg_gpu_threshold threshold,
						      int *ret_celsius);
VG_PUBLIC enum vg_status vg_gpu_temperature_margin(struct vg_gpu *gpu, int *ret_degrees);

enum vg_gpu_thermal_target {
	VG_GPU_THERMAL_UNKNOWN = -1,
	VG_GPU_THERMAL_NONE = 0,
	VG_GPU_THERMAL_GPU = 1,
	VG_GPU_THERMAL_MEMORY = 2,
	VG_GPU_THERMAL_POWER_SUPPLY = 4,
	VG_GPU_THERMAL_BOARD = 8,
	VG_GPU_THERMAL_VCD_BOARD = 9,
	VG_GPU_THERMAL_VCD_INLET = 10,
	VG_GPU_THERMAL_VCD_OUTLET = 11,
	VG_GPU_THERMAL_ALL = 15
};
struct vg_gpu_thermal_sensor {
	int controller; /* NVML's number of the controller; 1: the GPU itself */
	int default_min_celsius, default_max_celsius, celsius;
	enum vg_gpu_thermal_target target; /* what the sensor measures */
};
/* Lists the sensors of a target, at most three. Source: nvmlDeviceGetThermalSettings. */
VG_PUBLIC enum vg_status vg_gpu_thermal_sensors(struct vg_gpu *gpu, enum vg_gpu_thermal_target target,
						struct vg_gpu_thermal_sensor *sensors, size_t capacity,
						size_t *ret_count);

/* ---- cooling ---- */

enum vg_gpu_cooler_signal { VG_GPU_COOLER_NONE, VG_GPU_COOLER_TOGGLE, VG_GPU_COOLER_VARIABLE };
enum vg_gpu_cooler_target { /* bits */
			    VG_GPU_COOLS_NONE = 1,
			    VG_GPU_COOLS_GPU = 2,
			    VG_GPU_COOLS_MEMORY = 4,
			    VG_GPU_COOLS_POWER_SUPPLY = 8
};
struct vg_gpu_cooler {
	enum vg_gpu_cooler_signal signal; /* none, on and off, or variable */
	unsigned targets;		  /* VG_GPU_COOLS_… */
};
/* Reads a cooler. UNSUPPORTED if the chassis has the fans. Source: nvmlDeviceGetCoolerInfo. */
VG_PUBLIC enum vg_status vg_gpu_cooler(struct vg_gpu *gpu, struct vg_gpu_cooler *ret_cooler);
/* Reads the number of fans. Source: nvmlDeviceGetNumFans. */
VG_PUBLIC enum vg_status vg_gpu_fan_count(struct vg_gpu *gpu, unsigned *ret_count);

enum vg_gpu_fan_policy { VG_GPU_FAN_UNKNOWN = -1, VG_GPU_FAN_TEMPERATURE_CONTROLLED, VG_GPU_FAN_MANUAL };
/* -1: unknown. */
struct vg_gpu_fan {
	int speed, target_speed;  /* percent of the fan's nominal speed */
	int min_speed, max_speed; /* percent that can be set */
	int rpm;
	enum vg_gpu_fan_policy policy;
};
/* Reads a fan, counted from 0. INVALID: no such fan. UNSUPPORTED: the GPU has none. Source: nvmlDeviceGetFanSpeed,
 * nvmlDeviceGetTargetFanSpeed, nvmlDeviceGetMinMaxFanSpeed, nvmlDeviceGetFanSpeedRPM, nvmlDeviceGetFanControlPolicy. */
VG_PUBLIC enum vg_status vg_gpu_fan(struct vg_gpu *gpu, unsigned fan, struct vg_gpu_fan *ret_fan);
/* Sets a fixed speed, 0 to 100, or the default. A fixed speed does not rise with the temperature. INVALID, DENIED,
 * UNSUPPORTED. Source: nvmlDeviceSetFanSpeed, nvmlDeviceSetDefaultFanSpeed. */
VG_PUBLIC enum vg_status vg_gpu_set_fan_speed(struct vg_gpu *gpu, unsigned fan, unsigned percent);
VG_PUBLIC enum vg_status vg_gpu_set_default_fan_speed(struct vg_gpu *gpu, unsigned fan);

/* ---- the board's InfoROM ---- */

/* "": unknown. */
struct vg_gpu_inforom {
	char oem_version[16], ecc_version[16], power_version[16], den_version[16];
	char image_version[16];
	char board_part_number[80];
	int checksum_known;
	unsigned checksum; /* checksum of the configuration */
	int flush_known;
	/* Last flush of the black box: microseconds since 1970, and its duration. */
	uint64_t flush_time, flush_duration_us;
};
/* Reads the versions and figures in the board's InfoROM. Source: nvmlDeviceGetInforomVersion,
 * nvmlDeviceGetInforomImageVersion, nvmlDeviceGetBoardPartNumber, nvmlDeviceGetInforomConfigurationChecksum,
 * nvmlDeviceGetLastBBXFlushTime. */
VG_PUBLIC enum vg_status vg_gpu_inforom(struct vg_gpu *gpu, struct vg_gpu_inforom *ret_inforom);
/* Verifies the InfoROM. Returns NVML with the code CORRUPTED_INFOROM if the InfoROM is damaged. Source:
 * nvmlDeviceValidateInforom. */
VG_PUBLIC enum vg_status vg_gpu_validate_inforom(struct vg_gpu *gpu);

struct vg_gpu_repair {
	int channel_pending, tpc_pending; /* 1: memory channels, or SMs, are replaced at the next reset */
};
/* Reads which repairs are pending. Source: nvmlDeviceGetRepairStatus. */
VG_PUBLIC enum vg_status vg_gpu_repair(struct vg_gpu *gpu, struct vg_gpu_repair *ret_repair);

/* ---- fields: any of NVML's numbered figures ---- */

enum vg_gpu_field_type { VG_GPU_FIELD_REAL, VG_GPU_FIELD_UNSIGNED, VG_GPU_FIELD_SIGNED };
struct vg_gpu_field {
	unsigned id, scope;	  /* input: NVML_FI_…, and a link or instance, or 0 */
	enum vg_status status;	  /* status of this field; the rest is valid if the status is VG_OK */
	int code;		  /* nvmlReturn of this field */
	int64_t time, latency_us; /* microseconds since 1970; microseconds of the read */
	enum vg_gpu_field_type type;
	union {
		double real;
		uint64_t number;
		int64_t signed_number;
	} value;
};
/* Reads `count` fields, 1 to 4096, by their id and scope; a field that fails does not fail the call. INVALID, NVML.
 * Source: nvmlDeviceGetFieldValues. */
VG_PUBLIC enum vg_status vg_gpu_fields(struct vg_gpu *gpu, struct vg_gpu_field *fields, size_t count);
/* Resets counters to 0 in the same way; `value` is unchanged. Source: nvmlDeviceClearFieldValues. */
VG_PUBLIC enum vg_status vg_gpu_clear_fields(struct vg_gpu *gpu, struct vg_gpu_field *fields, size_t count);
/* Returns VG_OK, or the first failure of a field, and sets it as the thread's last error. */
VG_PUBLIC enum vg_status vg_gpu_check_fields(const struct vg_gpu_field *fields, size_t count);

#ifdef __cplusplus
}
#endif
#endif
