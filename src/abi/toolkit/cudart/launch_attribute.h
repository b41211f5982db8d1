// Declares the attributes of launches, streams and kernel nodes.
#pragma once
#include "base.h"

enum cudaLaunchAttributeID {
	cudaLaunchAttributeIgnore = 0,
	cudaLaunchAttributeAccessPolicyWindow = 1,
	cudaLaunchAttributeCooperative = 2,
	cudaLaunchAttributeSynchronizationPolicy = 3,
	cudaLaunchAttributeClusterDimension = 4,
	cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
	cudaLaunchAttributeProgrammaticStreamSerialization = 6,
	cudaLaunchAttributeProgrammaticEvent = 7,
	cudaLaunchAttributePriority = 8,
	cudaLaunchAttributeMemSyncDomainMap = 9,
	cudaLaunchAttributeMemSyncDomain = 10,
	cudaLaunchAttributePreferredClusterDimension = 11,
	cudaLaunchAttributeLaunchCompletionEvent = 12,
	cudaLaunchAttributeDeviceUpdatableKernelNode = 13,
	cudaLaunchAttributePreferredSharedMemoryCarveout = 14,
	cudaLaunchAttributeNvlinkUtilCentricScheduling = 16
};
typedef enum cudaLaunchAttributeID cudaLaunchAttributeID;

enum cudaAccessProperty {
	cudaAccessPropertyNormal = 0,
	cudaAccessPropertyStreaming = 1,
	cudaAccessPropertyPersisting = 2
};

struct cudaAccessPolicyWindow {
	void *base_ptr;
	size_t num_bytes;
	float hitRatio;
	enum cudaAccessProperty hitProp, missProp;
};

enum cudaSynchronizationPolicy {
	cudaSyncPolicyAuto = 1,
	cudaSyncPolicySpin = 2,
	cudaSyncPolicyYield = 3,
	cudaSyncPolicyBlockingSync = 4
};

enum cudaClusterSchedulingPolicy {
	cudaClusterSchedulingPolicyDefault = 0,
	cudaClusterSchedulingPolicySpread = 1,
	cudaClusterSchedulingPolicyLoadBalancing = 2
};

enum cudaLaunchMemSyncDomain { cudaLaunchMemSyncDomainDefault = 0, cudaLaunchMemSyncDomainRemote = 1 };
typedef enum cudaLaunchMemSyncDomain cudaLaunchMemSyncDomain;

typedef struct cudaLaunchMemSyncDomainMap_st {
	unsigned char default_;
	unsigned char remote;
} cudaLaunchMemSyncDomainMap;

union cudaLaunchAttributeValue {
	char pad[64];
	struct cudaAccessPolicyWindow accessPolicyWindow;
	int cooperative;
	enum cudaSynchronizationPolicy syncPolicy;
	struct {
		unsigned int x, y, z;
	} clusterDim;
	enum cudaClusterSchedulingPolicy clusterSchedulingPolicyPreference;
	int programmaticStreamSerializationAllowed;
	struct {
		cudaEvent_t event;
		int flags;
		int triggerAtBlockStart;
	} programmaticEvent;
	struct {
		cudaEvent_t event;
		int flags;
	} launchCompletionEvent;
	int priority;
	cudaLaunchMemSyncDomainMap memSyncDomainMap;
	cudaLaunchMemSyncDomain memSyncDomain;
	struct {
		unsigned int x, y, z;
	} preferredClusterDim;
	struct {
		int deviceUpdatable;
		cudaGraphDeviceNode_t devNode;
	} deviceUpdatableKernelNode;
	unsigned int sharedMemCarveout;
	unsigned int nvlinkUtilCentricScheduling;
};
typedef union cudaLaunchAttributeValue cudaLaunchAttributeValue;

typedef struct cudaLaunchAttribute_st {
	cudaLaunchAttributeID id;
	char pad[4]; // the value is at offset 8
	cudaLaunchAttributeValue val;
} cudaLaunchAttribute;
