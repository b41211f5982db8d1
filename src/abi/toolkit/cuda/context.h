// Declares contexts, primary contexts and green contexts.
#pragma once
#include "device.h"

typedef enum CUctx_flags_enum {
	CU_CTX_SCHED_AUTO = 0x00,
	CU_CTX_SCHED_SPIN = 0x01,
	CU_CTX_SCHED_YIELD = 0x02,
	CU_CTX_SCHED_BLOCKING_SYNC = 0x04,
	CU_CTX_BLOCKING_SYNC = 0x04,
	CU_CTX_SCHED_MASK = 0x07,
	CU_CTX_MAP_HOST = 0x08,
	CU_CTX_LMEM_RESIZE_TO_MAX = 0x10,
	CU_CTX_COREDUMP_ENABLE = 0x20,
	CU_CTX_USER_COREDUMP_ENABLE = 0x40,
	CU_CTX_SYNC_MEMOPS = 0x80,
	CU_CTX_FLAGS_MASK = 0xff
} CUctx_flags;

typedef enum CUlimit_enum {
	CU_LIMIT_STACK_SIZE = 0,
	CU_LIMIT_PRINTF_FIFO_SIZE = 1,
	CU_LIMIT_MALLOC_HEAP_SIZE = 2,
	CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 3,
	CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4,
	CU_LIMIT_MAX_L2_FETCH_GRANULARITY = 5,
	CU_LIMIT_PERSISTING_L2_CACHE_SIZE = 6,
	CU_LIMIT_SHMEM_SIZE = 7,
	CU_LIMIT_CIG_ENABLED = 8,
	CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED = 9,
	CU_LIMIT_MAX
} CUlimit;

typedef enum CUfunc_cache_enum {
	CU_FUNC_CACHE_PREFER_NONE = 0,
	CU_FUNC_CACHE_PREFER_SHARED = 1,
	CU_FUNC_CACHE_PREFER_L1 = 2,
	CU_FUNC_CACHE_PREFER_EQUAL = 3
} CUfunc_cache;

typedef enum CUsharedconfig_enum {
	CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE = 0,
	CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE = 1,
	CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE = 2
} CUsharedconfig;

typedef enum CUexecAffinityType_enum {
	CU_EXEC_AFFINITY_TYPE_SM_COUNT = 0,
	CU_EXEC_AFFINITY_TYPE_MAX
} CUexecAffinityType;

typedef struct CUexecAffinitySmCount_st {
	unsigned int val;
} CUexecAffinitySmCount_v1;
typedef CUexecAffinitySmCount_v1 CUexecAffinitySmCount;

typedef struct CUexecAffinityParam_st {
	CUexecAffinityType type;
	union {
		CUexecAffinitySmCount smCount;
	} param;
} CUexecAffinityParam_v1;
typedef CUexecAffinityParam_v1 CUexecAffinityParam;

typedef enum CUcigDataType_enum { CIG_DATA_TYPE_D3D12_COMMAND_QUEUE = 1, CIG_DATA_TYPE_NV_BLOB = 2 } CUcigDataType;

typedef struct CUctxCigParam_st {
	CUcigDataType sharedDataType;
	void *sharedData;
} CUctxCigParam;

typedef struct CUctxCreateParams_st {
	CUexecAffinityParam *execAffinityParams;
	int numExecAffinityParams;
	CUctxCigParam *cigParams;
} CUctxCreateParams;

CU_API(cuCtxCreate_v2, (CUcontext *, unsigned int flags, CUdevice))
CU_API(cuCtxCreate_v3, (CUcontext *, CUexecAffinityParam *, int count, unsigned int flags, CUdevice))
CU_API(cuCtxCreate_v4, (CUcontext *, CUctxCreateParams *, unsigned int flags, CUdevice))
CU_API(cuCtxDestroy_v2, (CUcontext))
CU_API(cuCtxAttach, (CUcontext *, unsigned int flags))
CU_API(cuCtxDetach, (CUcontext))
CU_API(cuCtxPushCurrent_v2, (CUcontext))
CU_API(cuCtxPopCurrent_v2, (CUcontext *))
CU_API(cuCtxSetCurrent, (CUcontext))
CU_API(cuCtxGetCurrent, (CUcontext *))
CU_API(cuCtxGetDevice, (CUdevice *))
CU_API(cuCtxGetDevice_v2, (CUdevice *, CUcontext))
CU_API(cuCtxGetFlags, (unsigned int *))
CU_API(cuCtxSetFlags, (unsigned int))
CU_API(cuCtxGetId, (CUcontext, unsigned long long *))
CU_API(cuCtxGetApiVersion, (CUcontext, unsigned int *))
CU_API(cuCtxSynchronize, (void))
CU_API(cuCtxSynchronize_v2, (CUcontext))
CU_API(cuCtxRecordEvent, (CUcontext, CUevent))
CU_API(cuCtxWaitEvent, (CUcontext, CUevent))
CU_API(cuCtxGetLimit, (size_t *, CUlimit))
CU_API(cuCtxSetLimit, (CUlimit, size_t))
CU_API(cuCtxGetCacheConfig, (CUfunc_cache *))
CU_API(cuCtxSetCacheConfig, (CUfunc_cache))
CU_API(cuCtxGetSharedMemConfig, (CUsharedconfig *))
CU_API(cuCtxSetSharedMemConfig, (CUsharedconfig))
CU_API(cuCtxGetStreamPriorityRange, (int *least, int *greatest))
CU_API(cuCtxResetPersistingL2Cache, (void))
CU_API(cuCtxGetExecAffinity, (CUexecAffinityParam *, CUexecAffinityType))
CU_API(cuDeviceGetExecAffinitySupport, (int *, CUexecAffinityType, CUdevice))

// Primary contexts
CU_API(cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice))
CU_API(cuDevicePrimaryCtxRelease_v2, (CUdevice))
CU_API(cuDevicePrimaryCtxReset_v2, (CUdevice))
CU_API(cuDevicePrimaryCtxSetFlags_v2, (CUdevice, unsigned int flags))
CU_API(cuDevicePrimaryCtxGetState, (CUdevice, unsigned int *flags, int *active))

// Green contexts: contexts that use some of the device's multiprocessors
typedef struct CUdevResourceDesc_st *CUdevResourceDesc;

typedef enum CUgreenCtxCreate_flags { CU_GREEN_CTX_DEFAULT_STREAM = 0x1 } CUgreenCtxCreate_flags;

typedef enum CUdevSmResourceSplit_flags {
	CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING = 0x1,
	CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE = 0x2
} CUdevSmResourceSplit_flags;

typedef enum CUdevResourceType { CU_DEV_RESOURCE_TYPE_INVALID = 0, CU_DEV_RESOURCE_TYPE_SM = 1 } CUdevResourceType;

typedef struct CUdevSmResource_st {
	unsigned int smCount;
	unsigned int minSmPartitionSize;
	unsigned int smCoscheduledAlignment;
} CUdevSmResource;

// The structure has 144 bytes. The bytes between the type and the union belong to the driver.
typedef struct CUdevResource_st {
	CUdevResourceType type;
	unsigned char _internal_padding[92];
	union {
		CUdevSmResource sm;
		unsigned char _oversize[48];
	};
} CUdevResource_v1;
typedef CUdevResource_v1 CUdevResource;

CU_API(cuDeviceGetDevResource, (CUdevice, CUdevResource *, CUdevResourceType))
CU_API(cuCtxGetDevResource, (CUcontext, CUdevResource *, CUdevResourceType))
CU_API(cuGreenCtxGetDevResource, (CUgreenCtx, CUdevResource *, CUdevResourceType))
CU_API(cuDevSmResourceSplitByCount, (CUdevResource * groups, unsigned int *count, const CUdevResource *input,
				     CUdevResource *remaining, unsigned int flags, unsigned int minimum))
CU_API(cuDevResourceGenerateDesc, (CUdevResourceDesc *, CUdevResource *, unsigned int count))
CU_API(cuGreenCtxCreate, (CUgreenCtx *, CUdevResourceDesc, CUdevice, unsigned int flags))
CU_API(cuGreenCtxDestroy, (CUgreenCtx))
CU_API(cuGreenCtxGetId, (CUgreenCtx, unsigned long long *))
CU_API(cuCtxFromGreenCtx, (CUcontext *, CUgreenCtx))
CU_API(cuGreenCtxRecordEvent, (CUgreenCtx, CUevent))
CU_API(cuGreenCtxWaitEvent, (CUgreenCtx, CUevent))
CU_API(cuGreenCtxStreamCreate, (CUstream *, CUgreenCtx, unsigned int flags, int priority))
