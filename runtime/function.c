// Implements the functions for the attributes and the occupancy of kernels.
#include "register.h"

// The fields of cudaFuncAttributes, and the driver's attributes that fill them.
#define INT_FIELD(attribute, field)                                                              \
	{                                                                                        \
		CU_FUNC_ATTRIBUTE_##attribute, offsetof(struct cudaFuncAttributes, field), false \
	}
#define SIZE_FIELD(attribute, field)                                                            \
	{                                                                                       \
		CU_FUNC_ATTRIBUTE_##attribute, offsetof(struct cudaFuncAttributes, field), true \
	}
static const struct {
	CUfunction_attribute attribute;
	size_t offset;
	bool is_size;
} fields[] = {
	INT_FIELD(MAX_THREADS_PER_BLOCK, maxThreadsPerBlock),
	SIZE_FIELD(SHARED_SIZE_BYTES, sharedSizeBytes),
	SIZE_FIELD(CONST_SIZE_BYTES, constSizeBytes),
	SIZE_FIELD(LOCAL_SIZE_BYTES, localSizeBytes),
	INT_FIELD(NUM_REGS, numRegs),
	INT_FIELD(PTX_VERSION, ptxVersion),
	INT_FIELD(BINARY_VERSION, binaryVersion),
	INT_FIELD(CACHE_MODE_CA, cacheModeCA),
	INT_FIELD(MAX_DYNAMIC_SHARED_SIZE_BYTES, maxDynamicSharedSizeBytes),
	INT_FIELD(PREFERRED_SHARED_MEMORY_CARVEOUT, preferredShmemCarveout),
	INT_FIELD(CLUSTER_SIZE_MUST_BE_SET, clusterDimMustBeSet),
	INT_FIELD(REQUIRED_CLUSTER_WIDTH, requiredClusterWidth),
	INT_FIELD(REQUIRED_CLUSTER_HEIGHT, requiredClusterHeight),
	INT_FIELD(REQUIRED_CLUSTER_DEPTH, requiredClusterDepth),
	INT_FIELD(CLUSTER_SCHEDULING_POLICY_PREFERENCE, clusterSchedulingPolicyPreference),
	INT_FIELD(NON_PORTABLE_CLUSTER_SIZE_ALLOWED, nonPortableClusterSizeAllowed),
};

static cudaError_t get_attributes(struct cudaFuncAttributes *ret_attributes, const void *stub)
{
	struct cudaFuncAttributes attributes = {0};
	CUfunction function;
	int value;

	if (!ret_attributes)
		return cudaErrorInvalidValue;
	RT_TRY(rt_function_find(stub, &function));
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		void *field = (char *)&attributes + fields[i].offset;
		RT_TRY(rt_driver.cuFuncGetAttribute(&value, fields[i].attribute, function));
		if (fields[i].is_size)
			*(size_t *)field = (size_t)value;
		else
			*(int *)field = value;
	}
	*ret_attributes = attributes;
	return cudaSuccess;
}

cudaError_t CUDARTAPI cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	RT_CALL(get_attributes(attr, func));
}

// Is the body of an entry point: finds the kernel `function` of the host function `func`, and calls `expression`.
#define WITH_FUNCTION(expression)                                                           \
	do {                                                                                \
		CUfunction function = NULL;                                                 \
		cudaError_t found = rt_enter();                                             \
		if (found == cudaSuccess)                                                   \
			found = rt_function_find(func, &function);                          \
		return rt_record(found == cudaSuccess ? (cudaError_t)(expression) : found); \
	} while (0)

cudaError_t CUDARTAPI cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
	WITH_FUNCTION(rt_driver.cuFuncSetAttribute(function, (CUfunction_attribute)attr, value));
}

cudaError_t CUDARTAPI cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
	WITH_FUNCTION(rt_driver.cuFuncSetCacheConfig(function, (CUfunc_cache)cacheConfig));
}

cudaError_t CUDARTAPI cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
	WITH_FUNCTION(rt_driver.cuFuncSetSharedMemConfig(function, (CUsharedconfig)config));
}

cudaError_t CUDARTAPI cudaFuncGetName(const char **name, const void *func)
{
	WITH_FUNCTION(rt_driver.cuFuncGetName(name, function));
}

cudaError_t CUDARTAPI cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
	WITH_FUNCTION(rt_driver.cuFuncGetParamInfo(function, paramIndex, paramOffset, paramSize));
}

static cudaError_t set_attribute(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value, int ordinal)
{
	struct rt_device *found;

	RT_TRY(rt_device_get(ordinal, &found));
	return rt_error(rt_driver.cuKernelSetAttribute((CUfunction_attribute)attribute, value, (CUkernel)kernel,
						       found->handle));
}

cudaError_t CUDARTAPI cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr, int value,
						      int device)
{
	RT_CALL(set_attribute(kernel, attr, value, device));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func, int blockSize,
								    size_t dynamicSMemSize)
{
	WITH_FUNCTION(
		rt_driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, function, blockSize, dynamicSMemSize));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
									     int blockSize, size_t dynamicSMemSize,
									     unsigned int flags)
{
	WITH_FUNCTION(rt_driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, function, blockSize,
										     dynamicSMemSize, flags));
}

cudaError_t CUDARTAPI cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
								int numBlocks, int blockSize)
{
	WITH_FUNCTION(
		rt_driver.cuOccupancyAvailableDynamicSMemPerBlock(dynamicSmemSize, function, numBlocks, blockSize));
}

cudaError_t rt_launch_config(const cudaLaunchConfig_t *config, CUlaunchConfig *ret_config)
{
	_Static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute), "attributes are passed unchanged");
	if (config->dynamicSmemBytes > UINT32_MAX)
		return cudaErrorInvalidValue;
	*ret_config = (CUlaunchConfig){
		.gridDimX = config->gridDim.x,
		.gridDimY = config->gridDim.y,
		.gridDimZ = config->gridDim.z,
		.blockDimX = config->blockDim.x,
		.blockDimY = config->blockDim.y,
		.blockDimZ = config->blockDim.z,
		.sharedMemBytes = (unsigned)config->dynamicSmemBytes,
		.hStream = config->stream,
		.attrs = (CUlaunchAttribute *)config->attrs,
		.numAttrs = config->numAttrs,
	};
	return cudaSuccess;
}

static cudaError_t get_cluster_size(int *size, CUfunction function, const cudaLaunchConfig_t *config)
{
	CUlaunchConfig given;

	if (!config)
		return cudaErrorInvalidValue;
	RT_TRY(rt_launch_config(config, &given));
	return rt_error(rt_driver.cuOccupancyMaxPotentialClusterSize(size, function, &given));
}

cudaError_t CUDARTAPI cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
							   const cudaLaunchConfig_t *launchConfig)
{
	WITH_FUNCTION(get_cluster_size(clusterSize, function, launchConfig));
}

static cudaError_t count_active_clusters(int *count, CUfunction function, const cudaLaunchConfig_t *config)
{
	CUlaunchConfig given;

	if (!config)
		return cudaErrorInvalidValue;
	RT_TRY(rt_launch_config(config, &given));
	return rt_error(rt_driver.cuOccupancyMaxActiveClusters(count, function, &given));
}

cudaError_t CUDARTAPI cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
						     const cudaLaunchConfig_t *launchConfig)
{
	WITH_FUNCTION(count_active_clusters(numClusters, function, launchConfig));
}
