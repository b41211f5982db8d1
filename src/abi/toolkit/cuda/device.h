// Declares the functions for the driver, for devices, and for access between devices.
#pragma once
#include "attribute.h"
#include "result.h"

CU_API(cuInit, (unsigned int flags))
CU_API(cuDriverGetVersion, (int *version))

typedef enum CUcomputemode_enum {
	CU_COMPUTEMODE_DEFAULT = 0,
	CU_COMPUTEMODE_PROHIBITED = 2,
	CU_COMPUTEMODE_EXCLUSIVE_PROCESS = 3
} CUcomputemode;

typedef enum CUdeviceNumaConfig_enum {
	CU_DEVICE_NUMA_CONFIG_NONE = 0,
	CU_DEVICE_NUMA_CONFIG_NUMA_NODE = 1
} CUdeviceNumaConfig;

typedef enum CUdevice_P2PAttribute_enum {
	CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK = 1,
	CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED = 2,
	CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED = 3,
	CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED = 4,
	CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED = 5
} CUdevice_P2PAttribute;

typedef enum CUatomicOperation_enum {
	CU_ATOMIC_OPERATION_INTEGER_ADD = 0,
	CU_ATOMIC_OPERATION_INTEGER_MIN = 1,
	CU_ATOMIC_OPERATION_INTEGER_MAX = 2,
	CU_ATOMIC_OPERATION_INTEGER_INCREMENT = 3,
	CU_ATOMIC_OPERATION_INTEGER_DECREMENT = 4,
	CU_ATOMIC_OPERATION_AND = 5,
	CU_ATOMIC_OPERATION_OR = 6,
	CU_ATOMIC_OPERATION_XOR = 7,
	CU_ATOMIC_OPERATION_EXCHANGE = 8,
	CU_ATOMIC_OPERATION_CAS = 9,
	CU_ATOMIC_OPERATION_FLOAT_ADD = 10,
	CU_ATOMIC_OPERATION_FLOAT_MIN = 11,
	CU_ATOMIC_OPERATION_FLOAT_MAX = 12,
	CU_ATOMIC_OPERATION_MAX
} CUatomicOperation;

typedef enum CUatomicOperationCapability_enum {
	CU_ATOMIC_CAPABILITY_SIGNED = 1 << 0,
	CU_ATOMIC_CAPABILITY_UNSIGNED = 1 << 1,
	CU_ATOMIC_CAPABILITY_REDUCTION = 1 << 2,
	CU_ATOMIC_CAPABILITY_SCALAR_32 = 1 << 3,
	CU_ATOMIC_CAPABILITY_SCALAR_64 = 1 << 4,
	CU_ATOMIC_CAPABILITY_SCALAR_128 = 1 << 5,
	CU_ATOMIC_CAPABILITY_VECTOR_32x4 = 1 << 6
} CUatomicOperationCapability;

typedef struct CUdevprop_st {
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int sharedMemPerBlock;
	int totalConstantMemory;
	int SIMDWidth;
	int memPitch;
	int regsPerBlock;
	int clockRate;
	int textureAlign;
} CUdevprop_v1;
typedef CUdevprop_v1 CUdevprop;

CU_API(cuDeviceGet, (CUdevice *, int ordinal))
CU_API(cuDeviceGetCount, (int *))
CU_API(cuDeviceGetName, (char *name, int length, CUdevice))
CU_API(cuDeviceGetUuid, (CUuuid *, CUdevice))
CU_API(cuDeviceGetUuid_v2, (CUuuid *, CUdevice))
CU_API(cuDeviceGetLuid, (char *luid, unsigned int *node_mask, CUdevice))
CU_API(cuDeviceGetPCIBusId, (char *id, int length, CUdevice))
CU_API(cuDeviceGetByPCIBusId, (CUdevice *, const char *id))
CU_API(cuDeviceTotalMem_v2, (size_t *, CUdevice))
CU_API(cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice))
CU_API(cuDeviceGetProperties, (CUdevprop *, CUdevice))
CU_API(cuDeviceComputeCapability, (int *major, int *minor, CUdevice))
CU_API(cuDeviceGetNvSciSyncAttributes, (void *attributes, CUdevice, int flags))
CU_API(cuDeviceGetHostAtomicCapabilities, (unsigned int *, const CUatomicOperation *, unsigned int count, CUdevice))

// Peers
CU_API(cuDeviceCanAccessPeer, (int *, CUdevice device, CUdevice peer))
CU_API(cuDeviceGetP2PAttribute, (int *, CUdevice_P2PAttribute, CUdevice source, CUdevice destination))
CU_API(cuDeviceGetP2PAtomicCapabilities,
       (unsigned int *, const CUatomicOperation *, unsigned int count, CUdevice source, CUdevice destination))
CU_API(cuCtxEnablePeerAccess, (CUcontext, unsigned int flags))
CU_API(cuCtxDisablePeerAccess, (CUcontext))

// Notifications
typedef enum CUasyncNotificationType_enum { CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET = 1 } CUasyncNotificationType;

typedef struct CUasyncNotificationInfo_st {
	CUasyncNotificationType type;
	union {
		struct {
			unsigned long long bytesOverBudget;
		} overBudget;
	} info;
} CUasyncNotificationInfo;

typedef struct CUasyncCallbackEntry_st *CUasyncCallbackHandle;
typedef void (*CUasyncCallback)(CUasyncNotificationInfo *, void *data, CUasyncCallbackHandle);

CU_API(cuDeviceRegisterAsyncNotification, (CUdevice, CUasyncCallback, void *data, CUasyncCallbackHandle *))
CU_API(cuDeviceUnregisterAsyncNotification, (CUdevice, CUasyncCallbackHandle))

// Functions by name
typedef enum CUdriverProcAddress_flags_enum {
	CU_GET_PROC_ADDRESS_DEFAULT = 0,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM = 1 << 0,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 1 << 1
} CUdriverProcAddress_flags;

typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS = 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
} CUdriverProcAddressQueryResult;

CU_API(cuGetProcAddress_v2,
       (const char *symbol, void **function, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *))
CU_API(cuGetExportTable, (const void **table, const CUuuid *id))
