// Declares functions (kernels of a context): their attributes, launches and occupancy.
#pragma once
#include "context.h"

typedef enum CUfunction_attribute_enum {
	CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
	CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
	CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES = 2,
	CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
	CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
	CU_FUNC_ATTRIBUTE_PTX_VERSION = 5,
	CU_FUNC_ATTRIBUTE_BINARY_VERSION = 6,
	CU_FUNC_ATTRIBUTE_CACHE_MODE_CA = 7,
	CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
	CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
	CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET = 10,
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH = 11,
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT = 12,
	CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH = 13,
	CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
	CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
	CU_FUNC_ATTRIBUTE_MAX
} CUfunction_attribute;

typedef enum CUshared_carveout_enum {
	CU_SHAREDMEM_CARVEOUT_DEFAULT = -1,
	CU_SHAREDMEM_CARVEOUT_MAX_L1 = 0,
	CU_SHAREDMEM_CARVEOUT_MAX_SHARED = 100
} CUshared_carveout;

typedef enum CUfunctionLoadingState_enum {
	CU_FUNCTION_LOADING_STATE_UNLOADED = 0,
	CU_FUNCTION_LOADING_STATE_LOADED = 1,
	CU_FUNCTION_LOADING_STATE_MAX
} CUfunctionLoadingState;

CU_API(cuFuncGetAttribute, (int *, CUfunction_attribute, CUfunction))
CU_API(cuFuncSetAttribute, (CUfunction, CUfunction_attribute, int))
CU_API(cuFuncSetCacheConfig, (CUfunction, CUfunc_cache))
CU_API(cuFuncSetSharedMemConfig, (CUfunction, CUsharedconfig))
CU_API(cuFuncGetModule, (CUmodule *, CUfunction))
CU_API(cuFuncGetName, (const char **, CUfunction))
CU_API(cuFuncGetParamInfo, (CUfunction, size_t index, size_t *offset, size_t *size))
CU_API(cuFuncIsLoaded, (CUfunctionLoadingState *, CUfunction))
CU_API(cuFuncLoad, (CUfunction))

// Attributes of launches, streams and kernel nodes
typedef enum CUlaunchAttributeID_enum {
	CU_LAUNCH_ATTRIBUTE_IGNORE = 0,
	CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW = 1,
	CU_LAUNCH_ATTRIBUTE_COOPERATIVE = 2,
	CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY = 3,
	CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4,
	CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE = 5,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT = 7,
	CU_LAUNCH_ATTRIBUTE_PRIORITY = 8,
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP = 9,
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN = 10,
	CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION = 11,
	CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = 12,
	CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE = 13,
	CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT = 14,
	CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING = 16
} CUlaunchAttributeID;

typedef enum CUaccessProperty_enum {
	CU_ACCESS_PROPERTY_NORMAL = 0,
	CU_ACCESS_PROPERTY_STREAMING = 1,
	CU_ACCESS_PROPERTY_PERSISTING = 2
} CUaccessProperty;

typedef struct CUaccessPolicyWindow_st {
	void *base_ptr;
	size_t num_bytes;
	float hitRatio;
	CUaccessProperty hitProp, missProp;
} CUaccessPolicyWindow_v1;
typedef CUaccessPolicyWindow_v1 CUaccessPolicyWindow;

typedef enum CUsynchronizationPolicy_enum {
	CU_SYNC_POLICY_AUTO = 1,
	CU_SYNC_POLICY_SPIN = 2,
	CU_SYNC_POLICY_YIELD = 3,
	CU_SYNC_POLICY_BLOCKING_SYNC = 4
} CUsynchronizationPolicy;

typedef enum CUclusterSchedulingPolicy_enum {
	CU_CLUSTER_SCHEDULING_POLICY_DEFAULT = 0,
	CU_CLUSTER_SCHEDULING_POLICY_SPREAD = 1,
	CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING = 2
} CUclusterSchedulingPolicy;

typedef enum CUlaunchMemSyncDomain_enum {
	CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT = 0,
	CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE = 1
} CUlaunchMemSyncDomain;

typedef struct CUlaunchMemSyncDomainMap_st {
	unsigned char default_;
	unsigned char remote;
} CUlaunchMemSyncDomainMap;

typedef union CUlaunchAttributeValue_union {
	char pad[64];
	CUaccessPolicyWindow accessPolicyWindow;
	int cooperative;
	CUsynchronizationPolicy syncPolicy;
	struct {
		unsigned int x, y, z;
	} clusterDim;
	CUclusterSchedulingPolicy clusterSchedulingPolicyPreference;
	int programmaticStreamSerializationAllowed;
	struct {
		CUevent event;
		int flags;
		int triggerAtBlockStart;
	} programmaticEvent;
	struct {
		CUevent event;
		int flags;
	} launchCompletionEvent;
	int priority;
	CUlaunchMemSyncDomainMap memSyncDomainMap;
	CUlaunchMemSyncDomain memSyncDomain;
	struct {
		unsigned int x, y, z;
	} preferredClusterDim;
	struct {
		int deviceUpdatable;
		CUgraphDeviceNode devNode;
	} deviceUpdatableKernelNode;
	unsigned int sharedMemCarveout;
	unsigned int nvlinkUtilCentricScheduling;
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute_st {
	CUlaunchAttributeID id;
	char pad[4]; // the value is at offset 8
	CUlaunchAttributeValue value;
} CUlaunchAttribute;

// Launches
typedef struct CUlaunchConfig_st {
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	CUlaunchAttribute *attrs;
	unsigned int numAttrs;
} CUlaunchConfig;

typedef struct CUDA_LAUNCH_PARAMS_st {
	CUfunction function;
	unsigned int gridDimX, gridDimY, gridDimZ;
	unsigned int blockDimX, blockDimY, blockDimZ;
	unsigned int sharedMemBytes;
	CUstream hStream;
	void **kernelParams;
} CUDA_LAUNCH_PARAMS_v1;
typedef CUDA_LAUNCH_PARAMS_v1 CUDA_LAUNCH_PARAMS;

// Keys in the parameter `extra` of cuLaunchKernel
#define CU_LAUNCH_PARAM_END ((void *)0x0)
#define CU_LAUNCH_PARAM_BUFFER_POINTER ((void *)0x1)
#define CU_LAUNCH_PARAM_BUFFER_SIZE ((void *)0x2)

CU_API_PTSZ(cuLaunchKernel, (CUfunction, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
			     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
			     CUstream, void **parameters, void **extra))
CU_API_PTSZ(cuLaunchKernelEx, (const CUlaunchConfig *, CUfunction, void **parameters, void **extra))
CU_API_PTSZ(cuLaunchCooperativeKernel,
	    (CUfunction, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
	     unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream, void **parameters))
CU_API(cuLaunchCooperativeKernelMultiDevice, (CUDA_LAUNCH_PARAMS *, unsigned int count, unsigned int flags))

// The functions that launched kernels before cuLaunchKernel existed. They set the sizes and arguments one by one.
CU_API(cuFuncSetBlockShape, (CUfunction, int x, int y, int z))
CU_API(cuFuncSetSharedSize, (CUfunction, unsigned int))
CU_API(cuParamSetSize, (CUfunction, unsigned int))
CU_API(cuParamSeti, (CUfunction, int offset, unsigned int))
CU_API(cuParamSetf, (CUfunction, int offset, float))
CU_API(cuParamSetv, (CUfunction, int offset, void *, unsigned int size))
CU_API(cuParamSetTexRef, (CUfunction, int unit, CUtexref))
CU_API(cuLaunch, (CUfunction))
CU_API(cuLaunchGrid, (CUfunction, int width, int height))
CU_API(cuLaunchGridAsync, (CUfunction, int width, int height, CUstream))

// Occupancy
typedef enum CUoccupancy_flags_enum {
	CU_OCCUPANCY_DEFAULT = 0x0,
	CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE = 0x1
} CUoccupancy_flags;

typedef size_t(CUDA_CB *CUoccupancyB2DSize)(int block);

CU_API(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *blocks, CUfunction, int block, size_t shared))
CU_API(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
       (int *blocks, CUfunction, int block, size_t shared, unsigned int flags))
CU_API(cuOccupancyMaxPotentialBlockSize,
       (int *grid, int *block, CUfunction, CUoccupancyB2DSize, size_t shared, int limit))
CU_API(cuOccupancyMaxPotentialBlockSizeWithFlags,
       (int *grid, int *block, CUfunction, CUoccupancyB2DSize, size_t shared, int limit, unsigned int flags))
CU_API(cuOccupancyAvailableDynamicSMemPerBlock, (size_t *, CUfunction, int blocks, int block))
CU_API(cuOccupancyMaxPotentialClusterSize, (int *, CUfunction, const CUlaunchConfig *))
CU_API(cuOccupancyMaxActiveClusters, (int *, CUfunction, const CUlaunchConfig *))
