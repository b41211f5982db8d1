// Declares the functions for graphs: edges, executable graphs, updates and user objects.
#pragma once
#include "graph_node.h"

CUDART_API(cudaGraphCreate, (cudaGraph_t *, unsigned int flags))
CUDART_API(cudaGraphDestroy, (cudaGraph_t))
CUDART_API(cudaGraphClone, (cudaGraph_t * clone, cudaGraph_t original))
CUDART_API(cudaGraphNodeFindInClone, (cudaGraphNode_t *, cudaGraphNode_t original, cudaGraph_t clone))

// If an array is NULL, the function returns the number of its elements.
CUDART_API(cudaGraphGetNodes, (cudaGraph_t, cudaGraphNode_t *, size_t *count))
CUDART_API(cudaGraphGetRootNodes, (cudaGraph_t, cudaGraphNode_t *, size_t *count))
CUDART_API(cudaGraphGetEdges,
	   (cudaGraph_t, cudaGraphNode_t *from, cudaGraphNode_t *to, cudaGraphEdgeData *, size_t *count))
CUDART_API(cudaGraphNodeGetDependencies, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *count))
CUDART_API(cudaGraphNodeGetDependentNodes, (cudaGraphNode_t, cudaGraphNode_t *, cudaGraphEdgeData *, size_t *count))
CUDART_API(cudaGraphAddDependencies, (cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
				      const cudaGraphEdgeData *, size_t count))
CUDART_API(cudaGraphRemoveDependencies, (cudaGraph_t, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
					 const cudaGraphEdgeData *, size_t count))

enum cudaGraphDebugDotFlags {
	cudaGraphDebugDotFlagsVerbose = 1 << 0,
	cudaGraphDebugDotFlagsKernelNodeParams = 1 << 2,
	cudaGraphDebugDotFlagsMemcpyNodeParams = 1 << 3,
	cudaGraphDebugDotFlagsMemsetNodeParams = 1 << 4,
	cudaGraphDebugDotFlagsHostNodeParams = 1 << 5,
	cudaGraphDebugDotFlagsEventNodeParams = 1 << 6,
	cudaGraphDebugDotFlagsExtSemasSignalNodeParams = 1 << 7,
	cudaGraphDebugDotFlagsExtSemasWaitNodeParams = 1 << 8,
	cudaGraphDebugDotFlagsKernelNodeAttributes = 1 << 9,
	cudaGraphDebugDotFlagsHandles = 1 << 10,
	cudaGraphDebugDotFlagsConditionalNodeParams = 1 << 15
};

CUDART_API(cudaGraphDebugDotPrint, (cudaGraph_t, const char *path, unsigned int flags))

// Executable graphs
enum cudaGraphInstantiateFlags {
	cudaGraphInstantiateFlagAutoFreeOnLaunch = 1,
	cudaGraphInstantiateFlagUpload = 2,
	cudaGraphInstantiateFlagDeviceLaunch = 4,
	cudaGraphInstantiateFlagUseNodePriority = 8
};

enum cudaGraphInstantiateResult {
	cudaGraphInstantiateSuccess = 0,
	cudaGraphInstantiateError = 1,
	cudaGraphInstantiateInvalidStructure = 2,
	cudaGraphInstantiateNodeOperationNotSupported = 3,
	cudaGraphInstantiateMultipleDevicesNotSupported = 4,
	cudaGraphInstantiateConditionalHandleUnused = 5
};
typedef enum cudaGraphInstantiateResult cudaGraphInstantiateResult;

typedef struct cudaGraphInstantiateParams_st {
	unsigned long long flags;
	cudaStream_t uploadStream;
	cudaGraphNode_t errNode_out;
	cudaGraphInstantiateResult result_out;
} cudaGraphInstantiateParams;

CUDART_API(cudaGraphInstantiate, (cudaGraphExec_t *, cudaGraph_t, unsigned long long flags CUDART_DEFAULT(0)))
CUDART_API(cudaGraphInstantiateWithFlags, (cudaGraphExec_t *, cudaGraph_t, unsigned long long flags CUDART_DEFAULT(0)))
CUDART_API(cudaGraphInstantiateWithParams, (cudaGraphExec_t *, cudaGraph_t, cudaGraphInstantiateParams *))
CUDART_API(cudaGraphExecGetFlags, (cudaGraphExec_t, unsigned long long *flags))
CUDART_API(cudaGraphUpload, (cudaGraphExec_t, cudaStream_t))
CUDART_API(cudaGraphLaunch, (cudaGraphExec_t, cudaStream_t))
CUDART_API(cudaGraphExecDestroy, (cudaGraphExec_t))

// Updates of an executable graph, as a whole or by node
enum cudaGraphExecUpdateResult {
	cudaGraphExecUpdateSuccess = 0x0,
	cudaGraphExecUpdateError = 0x1,
	cudaGraphExecUpdateErrorTopologyChanged = 0x2,
	cudaGraphExecUpdateErrorNodeTypeChanged = 0x3,
	cudaGraphExecUpdateErrorFunctionChanged = 0x4,
	cudaGraphExecUpdateErrorParametersChanged = 0x5,
	cudaGraphExecUpdateErrorNotSupported = 0x6,
	cudaGraphExecUpdateErrorUnsupportedFunctionChange = 0x7,
	cudaGraphExecUpdateErrorAttributesChanged = 0x8
};

typedef struct cudaGraphExecUpdateResultInfo_st {
	enum cudaGraphExecUpdateResult result;
	cudaGraphNode_t errorNode, errorFromNode;
} cudaGraphExecUpdateResultInfo;

CUDART_API(cudaGraphExecUpdate, (cudaGraphExec_t, cudaGraph_t, cudaGraphExecUpdateResultInfo *))
CUDART_API(cudaGraphExecNodeSetParams, (cudaGraphExec_t, cudaGraphNode_t, struct cudaGraphNodeParams *))
CUDART_API(cudaGraphNodeSetEnabled, (cudaGraphExec_t, cudaGraphNode_t, unsigned int enabled))
CUDART_API(cudaGraphNodeGetEnabled, (cudaGraphExec_t, cudaGraphNode_t, unsigned int *enabled))
CUDART_API(cudaGraphExecKernelNodeSetParams, (cudaGraphExec_t, cudaGraphNode_t, const struct cudaKernelNodeParams *))
CUDART_API(cudaGraphExecMemcpyNodeSetParams, (cudaGraphExec_t, cudaGraphNode_t, const struct cudaMemcpy3DParms *))
CUDART_API(cudaGraphExecMemcpyNodeSetParams1D,
	   (cudaGraphExec_t, cudaGraphNode_t, void *to, const void *from, size_t size, enum cudaMemcpyKind))
CUDART_API(cudaGraphExecMemcpyNodeSetParamsToSymbol,
	   (cudaGraphExec_t, cudaGraphNode_t, const void *symbol, const void *from, size_t size, size_t offset,
	    enum cudaMemcpyKind))
CUDART_API(cudaGraphExecMemcpyNodeSetParamsFromSymbol, (cudaGraphExec_t, cudaGraphNode_t, void *to, const void *symbol,
							size_t size, size_t offset, enum cudaMemcpyKind))
CUDART_API(cudaGraphExecMemsetNodeSetParams, (cudaGraphExec_t, cudaGraphNode_t, const struct cudaMemsetParams *))
CUDART_API(cudaGraphExecHostNodeSetParams, (cudaGraphExec_t, cudaGraphNode_t, const struct cudaHostNodeParams *))
CUDART_API(cudaGraphExecChildGraphNodeSetParams, (cudaGraphExec_t, cudaGraphNode_t, cudaGraph_t))
CUDART_API(cudaGraphExecEventRecordNodeSetEvent, (cudaGraphExec_t, cudaGraphNode_t, cudaEvent_t))
CUDART_API(cudaGraphExecEventWaitNodeSetEvent, (cudaGraphExec_t, cudaGraphNode_t, cudaEvent_t))
CUDART_API(cudaGraphExecExternalSemaphoresSignalNodeSetParams,
	   (cudaGraphExec_t, cudaGraphNode_t, const struct cudaExternalSemaphoreSignalNodeParams *))
CUDART_API(cudaGraphExecExternalSemaphoresWaitNodeSetParams,
	   (cudaGraphExec_t, cudaGraphNode_t, const struct cudaExternalSemaphoreWaitNodeParams *))

// Updates of kernel nodes by device code
enum cudaGraphKernelNodeField {
	cudaGraphKernelNodeFieldInvalid = 0,
	cudaGraphKernelNodeFieldGridDim = 1,
	cudaGraphKernelNodeFieldParam = 2,
	cudaGraphKernelNodeFieldEnabled = 3
};

struct cudaGraphKernelNodeUpdate {
	cudaGraphDeviceNode_t node;
	enum cudaGraphKernelNodeField field;
	union {
		dim3 gridDim;
		struct {
			const void *pValue;
			size_t offset, size;
		} param;
		unsigned int isEnabled;
	} updateData;
};

// User objects: objects of the program that live as long as a graph uses them
enum cudaUserObjectFlags { cudaUserObjectNoDestructorSync = 0x1 };

enum cudaUserObjectRetainFlags { cudaGraphUserObjectMove = 0x1 };

CUDART_API(cudaUserObjectCreate,
	   (cudaUserObject_t *, void *object, cudaHostFn_t destroy, unsigned int references, unsigned int flags))
CUDART_API(cudaUserObjectRetain, (cudaUserObject_t, unsigned int count CUDART_DEFAULT(1)))
CUDART_API(cudaUserObjectRelease, (cudaUserObject_t, unsigned int count CUDART_DEFAULT(1)))
CUDART_API(cudaGraphRetainUserObject,
	   (cudaGraph_t, cudaUserObject_t, unsigned int count CUDART_DEFAULT(1), unsigned int flags CUDART_DEFAULT(0)))
CUDART_API(cudaGraphReleaseUserObject, (cudaGraph_t, cudaUserObject_t, unsigned int count CUDART_DEFAULT(1)))
