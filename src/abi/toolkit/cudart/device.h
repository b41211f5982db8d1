// Declares the functions for devices: selection, limits, flags, peer access, atomic operations, and versions.
#pragma once
#include "attribute.h"
#include "base.h"
#include "properties.h"

// Flags of cudaSetDeviceFlags and cudaInitDevice
#define cudaDeviceScheduleAuto 0x00
#define cudaDeviceScheduleSpin 0x01
#define cudaDeviceScheduleYield 0x02
#define cudaDeviceScheduleBlockingSync 0x04
#define cudaDeviceBlockingSync 0x04 // the old name
#define cudaDeviceScheduleMask 0x07
#define cudaDeviceMapHost 0x08
#define cudaDeviceLmemResizeToMax 0x10
#define cudaDeviceSyncMemops 0x80
#define cudaDeviceMask 0xff
#define cudaInitDeviceFlagsAreValid 0x01

// Device numbers with a special meaning: the host, and an invalid device
#define cudaCpuDeviceId ((int)-1)
#define cudaInvalidDeviceId ((int)-2)

enum cudaComputeMode {
	cudaComputeModeDefault = 0,
	cudaComputeModeExclusive = 1,
	cudaComputeModeProhibited = 2,
	cudaComputeModeExclusiveProcess = 3
};

enum cudaDeviceNumaConfig { cudaDeviceNumaConfigNone = 0, cudaDeviceNumaConfigNumaNode = 1 };

enum cudaLimit {
	cudaLimitStackSize = 0,
	cudaLimitPrintfFifoSize = 1,
	cudaLimitMallocHeapSize = 2,
	cudaLimitDevRuntimeSyncDepth = 3,
	cudaLimitDevRuntimePendingLaunchCount = 4,
	cudaLimitMaxL2FetchGranularity = 5,
	cudaLimitPersistingL2CacheSize = 6
};

enum cudaFuncCache {
	cudaFuncCachePreferNone = 0,
	cudaFuncCachePreferShared = 1,
	cudaFuncCachePreferL1 = 2,
	cudaFuncCachePreferEqual = 3
};

enum cudaSharedMemConfig {
	cudaSharedMemBankSizeDefault = 0,
	cudaSharedMemBankSizeFourByte = 1,
	cudaSharedMemBankSizeEightByte = 2
};

CUDART_API(cudaDriverGetVersion, (int *version))
CUDART_API(cudaRuntimeGetVersion, (int *version))

// Selection
CUDART_API(cudaGetDeviceCount, (int *count))
CUDART_API(cudaGetDevice, (int *device))
CUDART_API(cudaSetDevice, (int device))
CUDART_API(cudaInitDevice, (int device, unsigned int device_flags, unsigned int flags))
CUDART_API(cudaChooseDevice, (int *device, const struct cudaDeviceProp *))
CUDART_API(cudaSetValidDevices, (int *devices, int count))
CUDART_API(cudaGetDeviceFlags, (unsigned int *flags))
CUDART_API(cudaSetDeviceFlags, (unsigned int flags))
CUDART_API(cudaDeviceGetByPCIBusId, (int *device, const char *id))
CUDART_API(cudaDeviceGetPCIBusId, (char *id, int size, int device))

// Queries
CUDART_API(cudaGetDeviceProperties, (struct cudaDeviceProp *, int device))
CUDART_API(cudaDeviceGetAttribute, (int *value, enum cudaDeviceAttr, int device))
CUDART_API(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest))
CUDART_API(cudaDeviceGetNvSciSyncAttributes, (void *list, int device, int flags))

// The current device
CUDART_API(cudaDeviceSynchronize, (void))
CUDART_API(cudaDeviceReset, (void))
CUDART_API(cudaDeviceGetLimit, (size_t * value, enum cudaLimit))
CUDART_API(cudaDeviceSetLimit, (enum cudaLimit, size_t value))
CUDART_API(cudaDeviceGetCacheConfig, (enum cudaFuncCache *))
CUDART_API(cudaDeviceSetCacheConfig, (enum cudaFuncCache))
CUDART_API(cudaDeviceGetSharedMemConfig, (enum cudaSharedMemConfig *))
CUDART_API(cudaDeviceSetSharedMemConfig, (enum cudaSharedMemConfig))
CUDART_API(cudaCtxResetPersistingL2Cache, (void))

// Flushing of writes that other devices made over PCIe
enum cudaFlushGPUDirectRDMAWritesOptions {
	cudaFlushGPUDirectRDMAWritesOptionHost = 1,
	cudaFlushGPUDirectRDMAWritesOptionMemOps = 2
};

enum cudaGPUDirectRDMAWritesOrdering {
	cudaGPUDirectRDMAWritesOrderingNone = 0,
	cudaGPUDirectRDMAWritesOrderingOwner = 100,
	cudaGPUDirectRDMAWritesOrderingAllDevices = 200
};

enum cudaFlushGPUDirectRDMAWritesScope {
	cudaFlushGPUDirectRDMAWritesToOwner = 100,
	cudaFlushGPUDirectRDMAWritesToAllDevices = 200
};

enum cudaFlushGPUDirectRDMAWritesTarget { cudaFlushGPUDirectRDMAWritesTargetCurrentDevice = 0 };

CUDART_API(cudaDeviceFlushGPUDirectRDMAWrites,
	   (enum cudaFlushGPUDirectRDMAWritesTarget, enum cudaFlushGPUDirectRDMAWritesScope))

// Notifications
typedef struct cudaAsyncCallbackEntry *cudaAsyncCallbackHandle_t;

enum cudaAsyncNotificationType_enum { cudaAsyncNotificationTypeOverBudget = 1 };
typedef enum cudaAsyncNotificationType_enum cudaAsyncNotificationType;

typedef struct cudaAsyncNotificationInfo {
	cudaAsyncNotificationType type;
	union {
		struct {
			unsigned long long bytesOverBudget;
		} overBudget;
	} info;
} cudaAsyncNotificationInfo_t;

typedef void (*cudaAsyncCallback)(cudaAsyncNotificationInfo_t *, void *data, cudaAsyncCallbackHandle_t);

CUDART_API(cudaDeviceRegisterAsyncNotification,
	   (int device, cudaAsyncCallback, void *data, cudaAsyncCallbackHandle_t *))
CUDART_API(cudaDeviceUnregisterAsyncNotification, (int device, cudaAsyncCallbackHandle_t))

// Peers
#define cudaPeerAccessDefault 0x00

enum cudaDeviceP2PAttr {
	cudaDevP2PAttrPerformanceRank = 1,
	cudaDevP2PAttrAccessSupported = 2,
	cudaDevP2PAttrNativeAtomicSupported = 3,
	cudaDevP2PAttrCudaArrayAccessSupported = 4,
	cudaDevP2PAttrOnlyPartialNativeAtomicSupported = 5
};

CUDART_API(cudaDeviceCanAccessPeer, (int *can, int device, int peer))
CUDART_API(cudaDeviceEnablePeerAccess, (int peer, unsigned int flags))
CUDART_API(cudaDeviceDisablePeerAccess, (int peer))
CUDART_API(cudaDeviceGetP2PAttribute, (int *value, enum cudaDeviceP2PAttr, int from_device, int to_device))

// Atomic operations on memory of a peer or of the host
enum cudaAtomicOperation {
	cudaAtomicOperationIntegerAdd = 0,
	cudaAtomicOperationIntegerMin = 1,
	cudaAtomicOperationIntegerMax = 2,
	cudaAtomicOperationIntegerIncrement = 3,
	cudaAtomicOperationIntegerDecrement = 4,
	cudaAtomicOperationAnd = 5,
	cudaAtomicOperationOr = 6,
	cudaAtomicOperationXOR = 7,
	cudaAtomicOperationExchange = 8,
	cudaAtomicOperationCAS = 9,
	cudaAtomicOperationFloatAdd = 10,
	cudaAtomicOperationFloatMin = 11,
	cudaAtomicOperationFloatMax = 12
};

enum cudaAtomicOperationCapability {
	cudaAtomicCapabilitySigned = 1 << 0,
	cudaAtomicCapabilityUnsigned = 1 << 1,
	cudaAtomicCapabilityReduction = 1 << 2,
	cudaAtomicCapabilityScalar32 = 1 << 3,
	cudaAtomicCapabilityScalar64 = 1 << 4,
	cudaAtomicCapabilityScalar128 = 1 << 5,
	cudaAtomicCapabilityVector32x4 = 1 << 6
};

CUDART_API(cudaDeviceGetP2PAtomicCapabilities, (unsigned int *capabilities, const enum cudaAtomicOperation *,
						unsigned int count, int from_device, int to_device))
CUDART_API(cudaDeviceGetHostAtomicCapabilities,
	   (unsigned int *capabilities, const enum cudaAtomicOperation *, unsigned int count, int device))
