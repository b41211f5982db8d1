// Reads the InfoROM of a board, and NVML fields by number.
#include "system/gpu.h"
#include "virgate/gpu_state.h"
#include "virgate/system.h"

#include <stdlib.h>

// Checks the result of reading a text. If NVML does not know the text, sets it to "" and returns VG_OK, so that the
// caller can read the other values.
static enum vg_status check_text(nvmlReturn_t result, const struct vg_gpu *gpu, const char *entry, char *text)
{
	if (result == NVML_SUCCESS)
		return VG_OK;
	text[0] = '\0';
	return system_nvml_is_unknown(result) ? VG_OK : system_nvml_failed(result, entry, "%s", gpu->uuid);
}

static enum vg_status read_versions(const struct vg_gpu *gpu, const struct gpu_call *call,
				    struct vg_gpu_inforom *inforom)
{
	const struct {
		nvmlInforomObject_t object;
		char *text;
		unsigned capacity;
	} versions[] = {
		{NVML_INFOROM_OEM, inforom->oem_version, sizeof inforom->oem_version},
		{NVML_INFOROM_ECC, inforom->ecc_version, sizeof inforom->ecc_version},
		{NVML_INFOROM_POWER, inforom->power_version, sizeof inforom->power_version},
		{NVML_INFOROM_DEN, inforom->den_version, sizeof inforom->den_version},
	};

	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		nvmlReturn_t result = call->nvml->nvmlDeviceGetInforomVersion(call->handle, versions[i].object,
									      versions[i].text, versions[i].capacity);
		SYSTEM_TRY(check_text(result, gpu, "nvmlDeviceGetInforomVersion", versions[i].text));
	}
	return VG_OK;
}

enum vg_status vg_gpu_inforom(struct vg_gpu *gpu, struct vg_gpu_inforom *ret_inforom)
{
	VG_ENTRY();
	struct vg_gpu_inforom got = {0};
	unsigned long long time = 0;
	unsigned long duration = 0;
	int known;

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_inforom);
	SYSTEM_TRY(read_versions(gpu, &call, &got));
	nvmlReturn_t result =
		call.nvml->nvmlDeviceGetInforomImageVersion(call.handle, got.image_version, sizeof got.image_version);
	SYSTEM_TRY(check_text(result, gpu, "nvmlDeviceGetInforomImageVersion", got.image_version));
	result = call.nvml->nvmlDeviceGetBoardPartNumber(call.handle, got.board_part_number,
							 sizeof got.board_part_number);
	SYSTEM_TRY(check_text(result, gpu, "nvmlDeviceGetBoardPartNumber", got.board_part_number));
	result = call.nvml->nvmlDeviceGetInforomConfigurationChecksum(call.handle, &got.checksum);
	SYSTEM_TRY(gpu_figure(result, &(unsigned){1}, gpu, "nvmlDeviceGetInforomConfigurationChecksum", &known));
	got.checksum_known = known > 0;
	result = call.nvml->nvmlDeviceGetLastBBXFlushTime(call.handle, &time, &duration);
	if (result == NVML_ERROR_NOT_READY) // an H200 returns this error if its InfoROM was never flushed
		result = NVML_ERROR_NOT_SUPPORTED;
	SYSTEM_TRY(gpu_figure(result, &(unsigned){1}, gpu, "nvmlDeviceGetLastBBXFlushTime", &known));
	got.flush_known = known > 0;
	got.flush_time = time;
	got.flush_duration_us = duration;
	*ret_inforom = got;
	return VG_OK;
}

GPU_COMMAND(vg_gpu_validate_inforom, nvmlDeviceValidateInforom)

enum vg_status vg_gpu_repair(struct vg_gpu *gpu, struct vg_gpu_repair *ret_repair)
{
	VG_ENTRY();
	nvmlRepairStatus_v1_t info = {.version = nvmlRepairStatus_v1};

	GPU_CALL(gpu);
	SYSTEM_NEEDED(ret_repair);
	GPU_ASK(nvmlDeviceGetRepairStatus, &info);
	*ret_repair = (struct vg_gpu_repair){info.bChannelRepairPending != 0, info.bTpcRepairPending != 0};
	return VG_OK;
}

// ---- fields -------------------------------------------------------------------------------------

static void convert_value(const nvmlFieldValue_t *from, struct vg_gpu_field *to)
{
	to->type = VG_GPU_FIELD_UNSIGNED;
	switch (from->valueType) {
	case NVML_VALUE_TYPE_DOUBLE:
		to->type = VG_GPU_FIELD_REAL;
		to->value.real = from->value.dVal;
		return;
	case NVML_VALUE_TYPE_UNSIGNED_INT:
		to->value.number = from->value.uiVal;
		return;
	case NVML_VALUE_TYPE_UNSIGNED_LONG:
		to->value.number = from->value.ulVal;
		return;
	case NVML_VALUE_TYPE_UNSIGNED_LONG_LONG:
		to->value.number = from->value.ullVal;
		return;
	case NVML_VALUE_TYPE_SIGNED_LONG_LONG:
		to->type = VG_GPU_FIELD_SIGNED;
		to->value.signed_number = from->value.sllVal;
		return;
	case NVML_VALUE_TYPE_SIGNED_INT:
		to->type = VG_GPU_FIELD_SIGNED;
		to->value.signed_number = from->value.siVal;
		return;
	case NVML_VALUE_TYPE_UNSIGNED_SHORT:
		to->value.number = from->value.usVal;
		return;
	}
	to->status = VG_UNSUPPORTED; // NVML's type of value is newer than this library
}

static enum vg_status access_fields(struct vg_gpu *gpu, struct vg_gpu_field *fields, size_t count, bool clear)
{
	struct gpu_call call;

	SYSTEM_TRY(gpu_call_begin(gpu, &call));
	if (!fields || count == 0 || count > 4096)
		return vg_fail(VG_INVALID, 0, "%zu fields%s: 1 to 4096 can be asked for at once", count,
			       fields ? "" : " and no array");
	nvmlFieldValue_t *values = calloc(count, sizeof *values);
	if (!values)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu fields", count);
	for (size_t i = 0; i < count; i++)
		values[i] = (nvmlFieldValue_t){.fieldId = fields[i].id, .scopeId = fields[i].scope};
	nvmlReturn_t result = clear ? call.nvml->nvmlDeviceClearFieldValues(call.handle, (int)count, values)
				    : call.nvml->nvmlDeviceGetFieldValues(call.handle, (int)count, values);
	for (size_t i = 0; i < count && result == NVML_SUCCESS; i++) {
		fields[i].code = values[i].nvmlReturn;
		fields[i].status = system_nvml_status(values[i].nvmlReturn);
		fields[i].time = values[i].timestamp;
		fields[i].latency_us = values[i].latencyUsec;
		if (!clear && values[i].nvmlReturn == NVML_SUCCESS)
			convert_value(&values[i], &fields[i]);
	}
	free(values);
	return result ? system_nvml_failed(result, clear ? "nvmlDeviceClearFieldValues" : "nvmlDeviceGetFieldValues",
					   "%s", gpu->uuid)
		      : VG_OK;
}

enum vg_status vg_gpu_fields(struct vg_gpu *gpu, struct vg_gpu_field *fields, size_t count)
{
	VG_ENTRY();
	return access_fields(gpu, fields, count, false);
}

enum vg_status vg_gpu_clear_fields(struct vg_gpu *gpu, struct vg_gpu_field *fields, size_t count)
{
	VG_ENTRY();
	return access_fields(gpu, fields, count, true);
}

enum vg_status vg_gpu_check_fields(const struct vg_gpu_field *fields, size_t count)
{
	VG_ENTRY();
	if (count)
		SYSTEM_NEEDED(fields);
	for (size_t i = 0; i < count; i++)
		if (fields[i].status)
			return vg_fail(fields[i].status, fields[i].code, "field %u, scope %u: %s", fields[i].id,
				       fields[i].scope, vg_nvml_error_name(fields[i].code));
	return VG_OK;
}
