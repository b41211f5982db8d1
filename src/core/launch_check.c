#include "core/device_resource.h"
#include "core/error.h"
#include "core/launch.h"

#include <limits.h>

static enum vg_status fill_dimension(unsigned ret[3], const unsigned asked[3], const char *name)
{
	if (!asked[0])
		return vg_fail(VG_INVALID, 0, "%s is %u x %u x %u: its first dimension must be given", name, asked[0],
			       asked[1], asked[2]);
	for (int i = 0; i < 3; i++)
		ret[i] = asked[i] ? asked[i] : 1;
	return VG_OK;
}

static CUlaunchAttribute *add_attribute(struct core_launch *launch, CUlaunchAttributeID id)
{
	CUlaunchAttribute *attribute = &launch->attributes[launch->native.numAttrs++];

	attribute->id = id;
	return attribute;
}

static enum vg_status copy_attributes(struct core_launch *launch, const struct vg_launch_config *config)
{
	const CUlaunchAttribute *given = config->attributes;

	if (config->attribute_count && !given)
		return vg_fail(VG_INVALID, 0, "attributes is NULL, but attribute_count is %u", config->attribute_count);
	if (config->attribute_count > CORE_LAUNCH_ATTRIBUTES)
		return vg_fail(VG_INVALID, 0, "%u launch attributes: a launch takes up to %d", config->attribute_count,
			       CORE_LAUNCH_ATTRIBUTES);
	for (unsigned i = 0; i < config->attribute_count; i++) {
		const char *field =
			given[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION && config->cluster[0] ? "cluster"
			: given[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && config->cooperative	   ? "cooperative"
			: given[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
					config->programmatic_stream_serialization
				? "programmatic_stream_serialization"
				: NULL;
		if (field)
			return vg_fail(VG_INVALID, 0,
				       "attributes[%u] says again what the field %s says: use one of them", i, field);
		if (given[i].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
			launch->cooperative |= given[i].value.cooperative != 0;
		launch->attributes[i] = given[i];
	}
	launch->native.numAttrs = config->attribute_count;
	return VG_OK;
}

// Sets the cluster. Converts the grid, which counts clusters in this library, to the driver's grid, which counts
// blocks.
static enum vg_status set_cluster(struct core_launch *launch, const unsigned asked[3], unsigned grid[3],
				  const struct vg_device *device)
{
	unsigned *cluster = launch->cluster;

	CORE_TRY(fill_dimension(cluster, asked, "cluster"));
	if (device->compute_major < 9)
		return vg_fail(VG_UNSUPPORTED, 0,
			       "thread block clusters are not supported: device %d (%s) has compute capability %d.%d, "
			       "they need 9.0",
			       device->ordinal, device->name, device->compute_major, device->compute_minor);
	for (int i = 0; i < 3; i++) {
		if (cluster[i] > UINT_MAX / grid[i])
			return vg_fail(VG_INVALID, 0, "a grid of %u clusters of %u blocks in dimension %d is too large",
				       grid[i], cluster[i], i);
		grid[i] *= cluster[i];
	}
	CUlaunchAttributeValue *value = &add_attribute(launch, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)->value;
	value->clusterDim.x = cluster[0];
	value->clusterDim.y = cluster[1];
	value->clusterDim.z = cluster[2];
	return VG_OK;
}

enum vg_status core_launch_configure(struct core_launch *launch, const struct vg_launch_config *config,
				     const struct vg_device *device)
{
	unsigned grid[3], block[3];

	launch->native = (CUlaunchConfig){0};
	launch->cooperative = config->cooperative != 0;
	launch->cluster[0] = launch->cluster[1] = launch->cluster[2] = 0;
	CORE_TRY(fill_dimension(grid, config->grid, "grid"));
	CORE_TRY(fill_dimension(block, config->block, "block"));
	if (config->attribute_count || config->attributes)
		CORE_TRY(copy_attributes(launch, config));
	if (config->cluster[0] | config->cluster[1] | config->cluster[2])
		CORE_TRY(set_cluster(launch, config->cluster, grid, device));
	if (config->shared_memory > UINT_MAX)
		return vg_fail(VG_INVALID, 0, "%zu bytes of dynamic shared memory: no device has as much",
			       config->shared_memory);
	if (config->cooperative)
		add_attribute(launch, CU_LAUNCH_ATTRIBUTE_COOPERATIVE)->value.cooperative = 1;
	if (config->programmatic_stream_serialization)
		add_attribute(launch, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
			->value.programmaticStreamSerializationAllowed = 1;
	launch->native.gridDimX = grid[0];
	launch->native.gridDimY = grid[1];
	launch->native.gridDimZ = grid[2];
	launch->native.blockDimX = block[0];
	launch->native.blockDimY = block[1];
	launch->native.blockDimZ = block[2];
	launch->native.sharedMemBytes = (unsigned)config->shared_memory;
	core_launch_point(launch);
	return VG_OK;
}

enum vg_status core_launch_check_cooperative(const struct core_launch *launch, const struct vg_kernel *kernel,
					     struct vg_context *context)
{
	const CUlaunchConfig *native = &launch->native;
	CUdevResource resource;
	int able = 0, blocks;

	if (!launch->cooperative)
		return VG_OK;
	CUresult r = core_driver->cuDeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH,
						       context->device->handle);
	if (r)
		return core_driver_failed(r, "cuDeviceGetAttribute", "%s", "");
	if (!able)
		return vg_fail(VG_UNSUPPORTED, 0, "cooperative kernels are not supported by device %d (%s)",
			       context->device->ordinal, context->device->name);
	uint64_t threads = (uint64_t)native->blockDimX * native->blockDimY * native->blockDimZ;
	uint64_t grid = (uint64_t)native->gridDimX * native->gridDimY * native->gridDimZ;
	if (threads > INT_MAX)
		return vg_fail(VG_INVALID, 0, "a block of %llu threads: no device has as many",
			       (unsigned long long)threads);
	r = core_driver->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (CUfunction)kernel->handle, (int)threads,
								     native->sharedMemBytes);
	if (r)
		return core_driver_failed(r, "cuOccupancyMaxActiveBlocksPerMultiprocessor", "kernel \"%s\"",
					  core_kernel_title(kernel));
	// a green context has fewer SMs than the device
	r = core_resource_query(context->device, context, CU_DEV_RESOURCE_TYPE_SM, &resource);
	if (r)
		return core_driver_failed(r, context->green ? "cuGreenCtxGetDevResource" : "cuCtxGetDevResource", "%s",
					  "");
	if (grid > (uint64_t)blocks * resource.sm.smCount)
		return vg_fail(VG_LIMIT, 0,
			       "a cooperative grid of %llu blocks exceeds the limit: %d blocks of %llu threads on each "
			       "of %u SMs are resident at once",
			       (unsigned long long)grid, blocks, (unsigned long long)threads, resource.sm.smCount);
	return VG_OK;
}
