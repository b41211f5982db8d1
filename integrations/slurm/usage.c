#include "usage.h"

#include <stdio.h>

#include <virgate/vgpu.h>

#include "request.h"

void usage_describe(const struct vg_vgpu_info *vgpu, const char *node_name, char ret_text[USAGE_TEXT])
{
	char most[REQUEST_SIZE_TEXT], limit[REQUEST_SIZE_TEXT], time[48] = "";

	if (vgpu->gpu_ns_known)
		snprintf(time, sizeof time, ", %.1f s of GPU time", (double)vgpu->gpu_ns / 1e9);
	request_format_size(vgpu->most_charged, most);
	request_format_size(vgpu->memory, limit);
	snprintf(ret_text, USAGE_TEXT, "virgate: %.64s GPU %d, %s of %s used at most%s, %llu requests refused",
		 node_name, vgpu->device, most, limit, time, (unsigned long long)vgpu->refusals);
}
