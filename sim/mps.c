#include "mps.h"

#include <stdlib.h>

#include "context.h"
#include "entry.h"
#include "log.h"
#include "process.h"
#include "region_time.h"

bool sim_mps_is_client(void)
{
	return sim_process.config.slice_ns && sim_process.config.mps;
}

// Parses the percentage of multiprocessors that this client may use. Rounds down to whole pairs of them, as MPS does.
static bool parse_percentage(const char *text, unsigned *ret_sms)
{
	char *end;
	double percent = strtod(text, &end);
	unsigned all = sim_process.config.sms;

	if (end == text || *end || !(percent > 0) || percent > 100)
		return false;
	unsigned sms = (unsigned)(percent * all / 100) / 2 * 2;
	*ret_sms = sms ? sms : all < 2 ? all : 2;
	return true;
}

CUresult sim_mps_start(void)
{
	const char *percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE");

	if (!sim_mps_is_client())
		return CUDA_SUCCESS;
	if (percentage && !parse_percentage(percentage, &sim_process.sms)) {
		sim_warn("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE: \"%s\" is not a percentage above 0, at most 100",
			 percentage);
		return CUDA_ERROR_INVALID_VALUE;
	}
	sim_gate_set(SIM_GATE_MPS);
	return CUDA_SUCCESS;
}

void sim_mps_join_device(struct sim_device *device)
{
	if (!sim_mps_is_client() || atomic_exchange(&device->joined, true))
		return;
	atomic_store(&device->failure_seen, region_time_failure(sim_process.region, device->physical));
}

void sim_mps_publish_failure(const struct sim_context *context, CUresult error)
{
	if (sim_mps_is_client())
		region_time_fail(sim_process.region, context->device->physical, (uint32_t)error);
}

void sim_mps_check_failure(void)
{
	for (int i = 0; i < sim_process.device_count && sim_mps_is_client(); i++) {
		struct sim_device *device = &sim_process.devices[i];
		if (!atomic_load(&device->joined))
			continue;
		uint64_t word = region_time_failure(sim_process.region, device->physical);
		if (atomic_exchange(&device->failure_seen, word) != word)
			sim_context_fail_with_others(device, (CUresult)(word & UINT32_MAX));
	}
}
