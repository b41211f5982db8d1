// Splits the SMs of one GPU into two groups with a green context each: work in one does not slow down work in the
// other. The remaining SMs stay with the primary context.
#include "check.h"

int main(void)
{
	struct vg_sm_resource *all, *groups[2], *rest;
	struct vg_context *contexts[2];
	struct vg_stream *streams[2];
	struct vg_device *device;
	size_t made;

	check(vg_device_get(0, &device));
	check(vg_device_sm_resource(device, &all));
	printf("%u SMs, to be had in groups of at least %u\n", vg_sm_resource_count(all),
	       vg_sm_resource_min_partition_size(all));
	// A group's size is a multiple of the smallest possible one.
	unsigned step = vg_sm_resource_min_partition_size(all);
	check(vg_sm_resource_split_by_count(all, (int)(vg_sm_resource_count(all) / 2 / step * step), 0, 2, groups,
					    &made, &rest));
	if (made < 2) {
		fprintf(stderr, "green_contexts: this GPU has SMs for %zu group only\n", made);
		return 77;
	}
	for (int i = 0; i < 2; i++) {
		struct vg_context_options options = {.size = sizeof options, .sms = &groups[i], .sm_count = 1};

		check(vg_context_create(device, &options, &contexts[i]));
		check(vg_stream_create(contexts[i], NULL, &streams[i]));
		printf("context %d has %u SMs\n", i, vg_sm_resource_count(groups[i]));
	}
	printf("%u SMs remain\n", vg_sm_resource_count(rest));

	// These are ordinary streams, for kernels, copies and events. One may wait for the other.
	check(vg_stream_wait_stream(streams[1], streams[0]));
	check(vg_stream_sync(streams[1]));

	for (int i = 0; i < 2; i++) { // destroys the objects in any order: objects in use are kept
		vg_context_destroy(contexts[i]);
		vg_stream_destroy(streams[i]);
		vg_sm_resource_destroy(groups[i]);
	}
	vg_sm_resource_destroy(rest);
	vg_sm_resource_destroy(all);
	printf("green_contexts: two contexts shared one GPU\n");
	return 0;
}
