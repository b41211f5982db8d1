// Finds the limit that a launch exceeds, after the launch failed or when the launch is prepared.
#include "core/error.h"
#include "core/launch.h"
#include "core/object_code.h"

#include <stdio.h>

enum { PORTABLE_CLUSTER = 8 }; // maximum number of blocks that every device with clusters supports in a cluster

static unsigned read_device_limit(const struct vg_device *device, CUdevice_attribute attribute)
{
	int value;

	return core_asked(core_driver->cuDeviceGetAttribute(&value, attribute, device->handle)) || value < 0
		       ? UINT32_MAX
		       : (unsigned)value;
}

// Reads an attribute of the kernel that limits a launch. Returns -1 if the driver does not know the attribute.
static int read_kernel_limit(const struct vg_kernel *kernel, const struct vg_device *device,
			     CUfunction_attribute attribute)
{
	int value;

	return core_asked(core_driver->cuKernelGetAttribute(&value, attribute, kernel->handle, device->handle)) ? -1
														: value;
}

static enum vg_status check_dimensions(const char *name, const unsigned asked[3], const CUdevice_attribute limits[3],
				       const struct vg_device *device)
{
	for (int i = 0; i < 3; i++) {
		unsigned most = read_device_limit(device, limits[i]);
		if (asked[i] > most)
			return vg_fail(VG_INVALID, 0,
				       "a %s of %u x %u x %u: device %d takes at most %u in dimension %c", name,
				       asked[0], asked[1], asked[2], device->ordinal, most, "xyz"[i]);
	}
	return VG_OK;
}

// Checks the cluster against the cluster size in the kernel's source, if the source has one.
static enum vg_status check_required_cluster(const struct core_launch *launch, const struct vg_kernel *kernel,
					     const struct vg_device *device)
{
	const unsigned *asked = launch->cluster;
	const unsigned grid[] = {launch->native.gridDimX, launch->native.gridDimY, launch->native.gridDimZ};
	int made[3];

	for (int i = 0; i < 3; i++)
		made[i] = read_kernel_limit(kernel, device,
					    (CUfunction_attribute)(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i));
	for (int i = 0; i < 3 && made[0] > 0 && made[1] > 0 && made[2] > 0; i++) {
		if (asked[0] && asked[i] != (unsigned)made[i])
			return vg_fail(VG_INVALID, 0,
				       "a cluster of %u x %u x %u blocks: kernel \"%s\" is made for %d x %d x %d",
				       asked[0], asked[1], asked[2], core_kernel_title(kernel), made[0], made[1],
				       made[2]);
		if (grid[i] % (unsigned)made[i])
			return vg_fail(VG_INVALID, 0,
				       "a grid of %u x %u x %u blocks: kernel \"%s\" is made for clusters of %d x %d x "
				       "%d, and needs whole ones",
				       grid[0], grid[1], grid[2], core_kernel_title(kernel), made[0], made[1], made[2]);
	}
	return VG_OK;
}

static enum vg_status check_cluster(const struct core_launch *launch, const struct vg_kernel *kernel,
				    const struct vg_device *device)
{
	const unsigned *asked = launch->cluster;

	CORE_TRY(check_required_cluster(launch, kernel, device));
	if ((uint64_t)asked[0] * asked[1] * asked[2] > PORTABLE_CLUSTER &&
	    !read_kernel_limit(kernel, device, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED))
		return vg_fail(VG_INVALID, 0,
			       "a cluster of %u x %u x %u blocks: kernel \"%s\" takes %d unless "
			       "VG_KERNEL_NON_PORTABLE_CLUSTER_SIZE_ALLOWED "
			       "is set",
			       asked[0], asked[1], asked[2], core_kernel_title(kernel), PORTABLE_CLUSTER);
	if (!asked[0] && read_kernel_limit(kernel, device, CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) <= 0 &&
	    read_kernel_limit(kernel, device, CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET) > 0)
		return vg_fail(VG_INVALID, 0, "kernel \"%s\" must be launched with a cluster: set the field cluster",
			       core_kernel_title(kernel));
	return VG_OK;
}

static enum vg_status check_kernel(const struct core_launch *launch, const struct vg_kernel *kernel,
				   const struct vg_device *device)
{
	const CUlaunchConfig *native = &launch->native;
	uint64_t threads = (uint64_t)native->blockDimX * native->blockDimY * native->blockDimZ;

	int most = read_kernel_limit(kernel, device, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	if (most >= 0 && threads > (uint64_t)most)
		return vg_fail(VG_INVALID, 0, "a block of %llu threads: kernel \"%s\" takes at most %d on device %d",
			       (unsigned long long)threads, core_kernel_title(kernel), most, device->ordinal);
	int shared = read_kernel_limit(kernel, device, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
	if (shared >= 0 && native->sharedMemBytes > (unsigned)shared)
		return vg_fail(
			VG_INVALID, 0,
			"%u bytes of dynamic shared memory: kernel \"%s\" may use %d on device %d; raise that with "
			"vg_kernel_set_attribute(VG_KERNEL_MAX_DYNAMIC_SHARED_SIZE_BYTES), the device has up to %u",
			native->sharedMemBytes, core_kernel_title(kernel), shared, device->ordinal,
			read_device_limit(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN));
	return check_cluster(launch, kernel, device);
}

enum vg_status core_launch_check_limits(const struct core_launch *launch, const struct vg_kernel *kernel,
					const struct vg_device *device)
{
	static const CUdevice_attribute of_grid[] = {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
						     CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
						     CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z};
	static const CUdevice_attribute of_block[] = {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
						      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
						      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z};
	const CUlaunchConfig *native = &launch->native;
	const unsigned grid[] = {native->gridDimX, native->gridDimY, native->gridDimZ};
	const unsigned block[] = {native->blockDimX, native->blockDimY, native->blockDimZ};

	CORE_TRY(check_dimensions("grid", grid, of_grid, device));
	CORE_TRY(check_dimensions("block", block, of_block, device));
	return check_kernel(launch, kernel, device);
}

// Returns whether a launch failed because of the kernel's code, which the driver may compile at the first launch.
static bool is_about_code(CUresult result)
{
	switch (result) {
	case CUDA_ERROR_INVALID_IMAGE:
	case CUDA_ERROR_INVALID_PTX:
	case CUDA_ERROR_INVALID_SOURCE:
	case CUDA_ERROR_NO_BINARY_FOR_GPU:
	case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
	case CUDA_ERROR_JIT_COMPILER_NOT_FOUND:
		return true;
	default:
		return false;
	}
}

enum vg_status core_launch_failed(CUresult result, const struct core_launch *launch, const struct vg_kernel *kernel,
				  const struct vg_device *device, const char *call)
{
	const CUlaunchConfig *native = &launch->native;
	char what[400];

	snprintf(what, sizeof what,
		 "kernel \"%.100s\", grid %u x %u x %u, block %u x %u x %u, %u bytes of shared memory, %u attributes",
		 core_kernel_title(kernel), native->gridDimX, native->gridDimY, native->gridDimZ, native->blockDimX,
		 native->blockDimY, native->blockDimZ, native->sharedMemBytes, native->numAttrs);
	enum vg_status status = kernel->code && is_about_code(result)
					? core_code_failed(kernel->code, result, call, what)
					: core_driver_failed(result, call, "%s", what);
	bool by_shape = result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ||
			result == CUDA_ERROR_INVALID_CLUSTER_SIZE;
	enum vg_status limit = by_shape ? core_launch_check_limits(launch, kernel, device) : VG_OK;
	return limit ? limit : status;
}
