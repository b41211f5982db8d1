// Declares the nodes of graphs: their parameters, and functions for each type.
#pragma once
#include "copy.h"
#include "external.h"
#include "launch.h"
#include "pool.h"

enum cudaGraphNodeType {
	cudaGraphNodeTypeKernel = 0x00,
	cudaGraphNodeTypeMemcpy = 0x01,
	cudaGraphNodeTypeMemset = 0x02,
	cudaGraphNodeTypeHost = 0x03,
	cudaGraphNodeTypeGraph = 0x04,
	cudaGraphNodeTypeEmpty = 0x05,
	cudaGraphNodeTypeWaitEvent = 0x06,
	cudaGraphNodeTypeEventRecord = 0x07,
	cudaGraphNodeTypeExtSemaphoreSignal = 0x08,
	cudaGraphNodeTypeExtSemaphoreWait = 0x09,
	cudaGraphNodeTypeMemAlloc = 0x0a,
	cudaGraphNodeTypeMemFree = 0x0b,
	cudaGraphNodeTypeConditional = 0x0d,
	cudaGraphNodeTypeCount
};

// Each function that adds a node takes an array of the nodes on which the new node depends, and the array's size.

// Kernels
struct cudaKernelNodeParams {
	void *func;
	dim3 gridDim, blockDim;
	unsigned int sharedMemBytes;
	void **kernelParams, **extra;
};

struct cudaKernelNodeParamsV2 {
	void *func;
	dim3 gridDim, blockDim;
	unsigned int sharedMemBytes;
	void **kernelParams, **extra;
};

#define cudaKernelNodeAttrID cudaLaunchAttributeID
#define cudaKernelNodeAttrValue cudaLaunchAttributeValue
#define cudaKernelNodeAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaKernelNodeAttributeCooperative cudaLaunchAttributeCooperative
#define cudaKernelNodeAttributePriority cudaLaunchAttributePriority
#define cudaKernelNodeAttributeClusterDimension cudaLaunchAttributeClusterDimension
#define cudaKernelNodeAttributeClusterSchedulingPolicyPreference cudaLaunchAttributeClusterSchedulingPolicyPreference
#define cudaKernelNodeAttributeMemSyncDomainMap cudaLaunchAttributeMemSyncDomainMap
#define cudaKernelNodeAttributeMemSyncDomain cudaLaunchAttributeMemSyncDomain
#define cudaKernelNodeAttributePreferredSharedMemoryCarveout cudaLaunchAttributePreferredSharedMemoryCarveout
#define cudaKernelNodeAttributeDeviceUpdatableKernelNode cudaLaunchAttributeDeviceUpdatableKernelNode
#define cudaKernelNodeAttributeNvlinkUtilCentricScheduling cudaLaunchAttributeNvlinkUtilCentricScheduling

CUDART_API(cudaGraphAddKernelNode,
	   (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaKernelNodeParams *))
CUDART_API(cudaGraphKernelNodeGetParams, (cudaGraphNode_t, struct cudaKernelNodeParams *))
CUDART_API(cudaGraphKernelNodeSetParams, (cudaGraphNode_t, const struct cudaKernelNodeParams *))
CUDART_API(cudaGraphKernelNodeCopyAttributes, (cudaGraphNode_t to, cudaGraphNode_t from))
CUDART_API(cudaGraphKernelNodeGetAttribute, (cudaGraphNode_t, cudaLaunchAttributeID, cudaLaunchAttributeValue *))
CUDART_API(cudaGraphKernelNodeSetAttribute, (cudaGraphNode_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue *))

// Copies
struct cudaMemcpyNodeParams {
	int flags;
	int reserved[3];
	struct cudaMemcpy3DParms copyParams;
};

CUDART_API(cudaGraphAddMemcpyNode,
	   (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaMemcpy3DParms *))
CUDART_API(cudaGraphAddMemcpyNode1D, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *to,
				      const void *from, size_t size, enum cudaMemcpyKind))
CUDART_API(cudaGraphAddMemcpyNodeToSymbol,
	   (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const void *symbol, const void *from,
	    size_t size, size_t offset, enum cudaMemcpyKind))
CUDART_API(cudaGraphAddMemcpyNodeFromSymbol, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *to,
					      const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind))
CUDART_API(cudaGraphMemcpyNodeGetParams, (cudaGraphNode_t, struct cudaMemcpy3DParms *))
CUDART_API(cudaGraphMemcpyNodeSetParams, (cudaGraphNode_t, const struct cudaMemcpy3DParms *))
CUDART_API(cudaGraphMemcpyNodeSetParams1D,
	   (cudaGraphNode_t, void *to, const void *from, size_t size, enum cudaMemcpyKind))
CUDART_API(cudaGraphMemcpyNodeSetParamsToSymbol,
	   (cudaGraphNode_t, const void *symbol, const void *from, size_t size, size_t offset, enum cudaMemcpyKind))
CUDART_API(cudaGraphMemcpyNodeSetParamsFromSymbol,
	   (cudaGraphNode_t, void *to, const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind))

// Setting memory
struct cudaMemsetParams {
	void *dst;
	size_t pitch;
	unsigned int value, elementSize;
	size_t width, height;
};

struct cudaMemsetParamsV2 {
	void *dst;
	size_t pitch;
	unsigned int value, elementSize;
	size_t width, height;
};

CUDART_API(cudaGraphAddMemsetNode,
	   (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaMemsetParams *))
CUDART_API(cudaGraphMemsetNodeGetParams, (cudaGraphNode_t, struct cudaMemsetParams *))
CUDART_API(cudaGraphMemsetNodeSetParams, (cudaGraphNode_t, const struct cudaMemsetParams *))

// Host functions
struct cudaHostNodeParams {
	cudaHostFn_t fn;
	void *userData;
};

struct cudaHostNodeParamsV2 {
	cudaHostFn_t fn;
	void *userData;
};

CUDART_API(cudaGraphAddHostNode,
	   (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, const struct cudaHostNodeParams *))
CUDART_API(cudaGraphHostNodeGetParams, (cudaGraphNode_t, struct cudaHostNodeParams *))
CUDART_API(cudaGraphHostNodeSetParams, (cudaGraphNode_t, const struct cudaHostNodeParams *))

// Child graphs
enum cudaGraphChildGraphNodeOwnership { cudaGraphChildGraphOwnershipClone = 0, cudaGraphChildGraphOwnershipMove = 1 };

struct cudaChildGraphNodeParams {
	cudaGraph_t graph;
	enum cudaGraphChildGraphNodeOwnership ownership;
};

CUDART_API(cudaGraphAddChildGraphNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaGraph_t))
CUDART_API(cudaGraphChildGraphNodeGetGraph, (cudaGraphNode_t, cudaGraph_t *))
CUDART_API(cudaGraphAddEmptyNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t))

// Events
struct cudaEventRecordNodeParams {
	cudaEvent_t event;
};

struct cudaEventWaitNodeParams {
	cudaEvent_t event;
};

CUDART_API(cudaGraphAddEventRecordNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t))
CUDART_API(cudaGraphEventRecordNodeGetEvent, (cudaGraphNode_t, cudaEvent_t *))
CUDART_API(cudaGraphEventRecordNodeSetEvent, (cudaGraphNode_t, cudaEvent_t))
CUDART_API(cudaGraphAddEventWaitNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, cudaEvent_t))
CUDART_API(cudaGraphEventWaitNodeGetEvent, (cudaGraphNode_t, cudaEvent_t *))
CUDART_API(cudaGraphEventWaitNodeSetEvent, (cudaGraphNode_t, cudaEvent_t))

// External semaphores
struct cudaExternalSemaphoreSignalNodeParams {
	cudaExternalSemaphore_t *extSemArray;
	const struct cudaExternalSemaphoreSignalParams *paramsArray;
	unsigned int numExtSems;
};

struct cudaExternalSemaphoreSignalNodeParamsV2 {
	cudaExternalSemaphore_t *extSemArray;
	const struct cudaExternalSemaphoreSignalParams *paramsArray;
	unsigned int numExtSems;
};

struct cudaExternalSemaphoreWaitNodeParams {
	cudaExternalSemaphore_t *extSemArray;
	const struct cudaExternalSemaphoreWaitParams *paramsArray;
	unsigned int numExtSems;
};

struct cudaExternalSemaphoreWaitNodeParamsV2 {
	cudaExternalSemaphore_t *extSemArray;
	const struct cudaExternalSemaphoreWaitParams *paramsArray;
	unsigned int numExtSems;
};

CUDART_API(cudaGraphAddExternalSemaphoresSignalNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
						      const struct cudaExternalSemaphoreSignalNodeParams *))
CUDART_API(cudaGraphExternalSemaphoresSignalNodeGetParams,
	   (cudaGraphNode_t, struct cudaExternalSemaphoreSignalNodeParams *))
CUDART_API(cudaGraphExternalSemaphoresSignalNodeSetParams,
	   (cudaGraphNode_t, const struct cudaExternalSemaphoreSignalNodeParams *))
CUDART_API(cudaGraphAddExternalSemaphoresWaitNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t,
						    const struct cudaExternalSemaphoreWaitNodeParams *))
CUDART_API(cudaGraphExternalSemaphoresWaitNodeGetParams,
	   (cudaGraphNode_t, struct cudaExternalSemaphoreWaitNodeParams *))
CUDART_API(cudaGraphExternalSemaphoresWaitNodeSetParams,
	   (cudaGraphNode_t, const struct cudaExternalSemaphoreWaitNodeParams *))

// Allocations
struct cudaMemAllocNodeParams {
	struct cudaMemPoolProps poolProps;
	const struct cudaMemAccessDesc *accessDescs;
	size_t accessDescCount, bytesize;
	void *dptr; // output: the function that adds the node stores the address here
};

struct cudaMemAllocNodeParamsV2 {
	struct cudaMemPoolProps poolProps;
	const struct cudaMemAccessDesc *accessDescs;
	size_t accessDescCount, bytesize;
	void *dptr;
};

struct cudaMemFreeNodeParams {
	void *dptr;
};

enum cudaGraphMemAttributeType {
	cudaGraphMemAttrUsedMemCurrent = 0x0,
	cudaGraphMemAttrUsedMemHigh = 0x1,
	cudaGraphMemAttrReservedMemCurrent = 0x2,
	cudaGraphMemAttrReservedMemHigh = 0x3
};

CUDART_API(cudaGraphAddMemAllocNode,
	   (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, struct cudaMemAllocNodeParams *))
CUDART_API(cudaGraphMemAllocNodeGetParams, (cudaGraphNode_t, struct cudaMemAllocNodeParams *))
CUDART_API(cudaGraphAddMemFreeNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, size_t, void *address))
CUDART_API(cudaGraphMemFreeNodeGetParams, (cudaGraphNode_t, void *address))
CUDART_API(cudaDeviceGraphMemTrim, (int device))
CUDART_API(cudaDeviceGetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType, void *value))
CUDART_API(cudaDeviceSetGraphMemAttribute, (int device, enum cudaGraphMemAttributeType, void *value))

// Conditions
enum cudaGraphConditionalHandleFlags { cudaGraphCondAssignDefault = 1 };

enum cudaGraphConditionalNodeType { cudaGraphCondTypeIf = 0, cudaGraphCondTypeWhile = 1, cudaGraphCondTypeSwitch = 2 };

struct cudaConditionalNodeParams {
	cudaGraphConditionalHandle handle;
	enum cudaGraphConditionalNodeType type;
	unsigned int size;
	cudaGraph_t *phGraph_out;
};

CUDART_API(cudaGraphConditionalHandleCreate,
	   (cudaGraphConditionalHandle *, cudaGraph_t, unsigned int first CUDART_DEFAULT(0),
	    unsigned int flags CUDART_DEFAULT(0)))

// Nodes of any type
struct cudaGraphNodeParams {
	enum cudaGraphNodeType type;
	int reserved0[3];
	union {
		long long reserved1[29];
		struct cudaKernelNodeParamsV2 kernel;
		struct cudaMemcpyNodeParams memcpy;
		struct cudaMemsetParamsV2 memset;
		struct cudaHostNodeParamsV2 host;
		struct cudaChildGraphNodeParams graph;
		struct cudaEventWaitNodeParams eventWait;
		struct cudaEventRecordNodeParams eventRecord;
		struct cudaExternalSemaphoreSignalNodeParamsV2 extSemSignal;
		struct cudaExternalSemaphoreWaitNodeParamsV2 extSemWait;
		struct cudaMemAllocNodeParamsV2 alloc;
		struct cudaMemFreeNodeParams free;
		struct cudaConditionalNodeParams conditional;
	};
	long long reserved2;
};

CUDART_API(cudaGraphAddNode, (cudaGraphNode_t *, cudaGraph_t, const cudaGraphNode_t *, const cudaGraphEdgeData *,
			      size_t, struct cudaGraphNodeParams *))
CUDART_API(cudaGraphNodeSetParams, (cudaGraphNode_t, struct cudaGraphNodeParams *))
CUDART_API(cudaGraphNodeGetType, (cudaGraphNode_t, enum cudaGraphNodeType *))
CUDART_API(cudaGraphDestroyNode, (cudaGraphNode_t))
