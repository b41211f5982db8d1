// Declares the functions for graphs: definitions, executable graphs, updates, memory and user objects.
#pragma once
#include "graph_node.h"

CU_API(cuGraphCreate, (CUgraph *, unsigned int flags))
CU_API(cuGraphDestroy, (CUgraph))
CU_API(cuGraphClone, (CUgraph *, CUgraph))
CU_API(cuGraphDestroyNode, (CUgraphNode))
CU_API(cuGraphNodeFindInClone, (CUgraphNode *, CUgraphNode original, CUgraph clone))
CU_API(cuGraphNodeGetType, (CUgraphNode, CUgraphNodeType *))
CU_API(cuGraphGetNodes, (CUgraph, CUgraphNode *, size_t *count))
CU_API(cuGraphGetRootNodes, (CUgraph, CUgraphNode *, size_t *count))

// Functions for edges. Those without the suffix _v2 have no edge data.
CU_API(cuGraphGetEdges, (CUgraph, CUgraphNode *from, CUgraphNode *to, size_t *count))
CU_API(cuGraphGetEdges_v2, (CUgraph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *, size_t *count))
CU_API(cuGraphNodeGetDependencies, (CUgraphNode, CUgraphNode *, size_t *count))
CU_API(cuGraphNodeGetDependencies_v2, (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *count))
CU_API(cuGraphNodeGetDependentNodes, (CUgraphNode, CUgraphNode *, size_t *count))
CU_API(cuGraphNodeGetDependentNodes_v2, (CUgraphNode, CUgraphNode *, CUgraphEdgeData *, size_t *count))
CU_API(cuGraphAddDependencies, (CUgraph, const CUgraphNode *from, const CUgraphNode *to, size_t count))
CU_API(cuGraphAddDependencies_v2,
       (CUgraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *, size_t count))
CU_API(cuGraphRemoveDependencies, (CUgraph, const CUgraphNode *from, const CUgraphNode *to, size_t count))
CU_API(cuGraphRemoveDependencies_v2,
       (CUgraph, const CUgraphNode *from, const CUgraphNode *to, const CUgraphEdgeData *, size_t count))

// Functions for nodes of any type, and then for nodes of each type. CU_API_ADD declares a function that adds a node.
#define CU_API_ADD(name, ...) \
	CU_API(cuGraphAdd##name, (CUgraphNode *, CUgraph, const CUgraphNode *dependencies, size_t count, ##__VA_ARGS__))

CU_API_ADD(Node, CUgraphNodeParams *)
CU_API(cuGraphAddNode_v2, (CUgraphNode *, CUgraph, const CUgraphNode *dependencies, const CUgraphEdgeData *,
			   size_t count, CUgraphNodeParams *))
CU_API(cuGraphNodeSetParams, (CUgraphNode, CUgraphNodeParams *))
CU_API(cuGraphExecNodeSetParams, (CUgraphExec, CUgraphNode, CUgraphNodeParams *))

CU_API_ADD(EmptyNode)
CU_API_ADD(KernelNode_v2, const CUDA_KERNEL_NODE_PARAMS *)
CU_API(cuGraphKernelNodeGetParams_v2, (CUgraphNode, CUDA_KERNEL_NODE_PARAMS *))
CU_API(cuGraphKernelNodeSetParams_v2, (CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *))
CU_API(cuGraphExecKernelNodeSetParams_v2, (CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS *))
CU_API(cuGraphKernelNodeGetAttribute, (CUgraphNode, CUkernelNodeAttrID, CUkernelNodeAttrValue *))
CU_API(cuGraphKernelNodeSetAttribute, (CUgraphNode, CUkernelNodeAttrID, const CUkernelNodeAttrValue *))
CU_API(cuGraphKernelNodeCopyAttributes, (CUgraphNode to, CUgraphNode from))

CU_API_ADD(MemcpyNode, const CUDA_MEMCPY3D *, CUcontext)
CU_API(cuGraphMemcpyNodeGetParams, (CUgraphNode, CUDA_MEMCPY3D *))
CU_API(cuGraphMemcpyNodeSetParams, (CUgraphNode, const CUDA_MEMCPY3D *))
CU_API(cuGraphExecMemcpyNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMCPY3D *, CUcontext))

CU_API_ADD(MemsetNode, const CUDA_MEMSET_NODE_PARAMS *, CUcontext)
CU_API(cuGraphMemsetNodeGetParams, (CUgraphNode, CUDA_MEMSET_NODE_PARAMS *))
CU_API(cuGraphMemsetNodeSetParams, (CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *))
CU_API(cuGraphExecMemsetNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_MEMSET_NODE_PARAMS *, CUcontext))

CU_API_ADD(HostNode, const CUDA_HOST_NODE_PARAMS *)
CU_API(cuGraphHostNodeGetParams, (CUgraphNode, CUDA_HOST_NODE_PARAMS *))
CU_API(cuGraphHostNodeSetParams, (CUgraphNode, const CUDA_HOST_NODE_PARAMS *))
CU_API(cuGraphExecHostNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_HOST_NODE_PARAMS *))

CU_API_ADD(ChildGraphNode, CUgraph)
CU_API(cuGraphChildGraphNodeGetGraph, (CUgraphNode, CUgraph *))
CU_API(cuGraphExecChildGraphNodeSetParams, (CUgraphExec, CUgraphNode, CUgraph))

CU_API_ADD(EventRecordNode, CUevent)
CU_API(cuGraphEventRecordNodeGetEvent, (CUgraphNode, CUevent *))
CU_API(cuGraphEventRecordNodeSetEvent, (CUgraphNode, CUevent))
CU_API(cuGraphExecEventRecordNodeSetEvent, (CUgraphExec, CUgraphNode, CUevent))
CU_API_ADD(EventWaitNode, CUevent)
CU_API(cuGraphEventWaitNodeGetEvent, (CUgraphNode, CUevent *))
CU_API(cuGraphEventWaitNodeSetEvent, (CUgraphNode, CUevent))
CU_API(cuGraphExecEventWaitNodeSetEvent, (CUgraphExec, CUgraphNode, CUevent))

CU_API_ADD(ExternalSemaphoresSignalNode, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)
CU_API(cuGraphExternalSemaphoresSignalNodeGetParams, (CUgraphNode, CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *))
CU_API(cuGraphExternalSemaphoresSignalNodeSetParams, (CUgraphNode, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *))
CU_API(cuGraphExecExternalSemaphoresSignalNodeSetParams,
       (CUgraphExec, CUgraphNode, const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *))
CU_API_ADD(ExternalSemaphoresWaitNode, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)
CU_API(cuGraphExternalSemaphoresWaitNodeGetParams, (CUgraphNode, CUDA_EXT_SEM_WAIT_NODE_PARAMS *))
CU_API(cuGraphExternalSemaphoresWaitNodeSetParams, (CUgraphNode, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *))
CU_API(cuGraphExecExternalSemaphoresWaitNodeSetParams,
       (CUgraphExec, CUgraphNode, const CUDA_EXT_SEM_WAIT_NODE_PARAMS *))

CU_API_ADD(BatchMemOpNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *)
CU_API(cuGraphBatchMemOpNodeGetParams, (CUgraphNode, CUDA_BATCH_MEM_OP_NODE_PARAMS *))
CU_API(cuGraphBatchMemOpNodeSetParams, (CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *))
CU_API(cuGraphExecBatchMemOpNodeSetParams, (CUgraphExec, CUgraphNode, const CUDA_BATCH_MEM_OP_NODE_PARAMS *))

CU_API_ADD(MemAllocNode, CUDA_MEM_ALLOC_NODE_PARAMS *)
CU_API(cuGraphMemAllocNodeGetParams, (CUgraphNode, CUDA_MEM_ALLOC_NODE_PARAMS *))
CU_API_ADD(MemFreeNode, CUdeviceptr)
CU_API(cuGraphMemFreeNodeGetParams, (CUgraphNode, CUdeviceptr *))

CU_API(cuGraphConditionalHandleCreate,
       (CUgraphConditionalHandle *, CUgraph, CUcontext, unsigned int initial, unsigned int flags))

// Executable graphs
typedef enum CUgraphInstantiate_flags_enum {
	CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1,
	CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2,
	CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH = 4,
	CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY = 8
} CUgraphInstantiate_flags;

typedef enum CUgraphInstantiateResult_enum {
	CUDA_GRAPH_INSTANTIATE_SUCCESS = 0,
	CUDA_GRAPH_INSTANTIATE_ERROR = 1,
	CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE = 2,
	CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED = 3,
	CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED = 4,
	CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED = 5
} CUgraphInstantiateResult;

typedef struct CUDA_GRAPH_INSTANTIATE_PARAMS_st {
	cuuint64_t flags;
	CUstream hUploadStream;
	CUgraphNode hErrNode_out;
	CUgraphInstantiateResult result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;

CU_API(cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long flags))
CU_API_PTSZ(cuGraphInstantiateWithParams, (CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *))
CU_API(cuGraphExecGetFlags, (CUgraphExec, cuuint64_t *))
CU_API_PTSZ(cuGraphUpload, (CUgraphExec, CUstream))
CU_API_PTSZ(cuGraphLaunch, (CUgraphExec, CUstream))
CU_API(cuGraphExecDestroy, (CUgraphExec))
CU_API(cuGraphNodeSetEnabled, (CUgraphExec, CUgraphNode, unsigned int))
CU_API(cuGraphNodeGetEnabled, (CUgraphExec, CUgraphNode, unsigned int *))

typedef enum CUgraphExecUpdateResult_enum {
	CU_GRAPH_EXEC_UPDATE_SUCCESS = 0x0,
	CU_GRAPH_EXEC_UPDATE_ERROR = 0x1,
	CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 0x2,
	CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 0x3,
	CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED = 0x4,
	CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 0x5,
	CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED = 0x6,
	CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE = 0x7,
	CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED = 0x8
} CUgraphExecUpdateResult;

typedef struct CUgraphExecUpdateResultInfo_st {
	CUgraphExecUpdateResult result;
	CUgraphNode errorNode, errorFromNode;
} CUgraphExecUpdateResultInfo_v1;
typedef CUgraphExecUpdateResultInfo_v1 CUgraphExecUpdateResultInfo;

CU_API(cuGraphExecUpdate_v2, (CUgraphExec, CUgraph, CUgraphExecUpdateResultInfo *))

typedef enum CUgraphDebugDot_flags_enum {
	CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE = 1 << 0,
	CU_GRAPH_DEBUG_DOT_FLAGS_RUNTIME_TYPES = 1 << 1,
	CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS = 1 << 2,
	CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS = 1 << 3,
	CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS = 1 << 4,
	CU_GRAPH_DEBUG_DOT_FLAGS_HOST_NODE_PARAMS = 1 << 5,
	CU_GRAPH_DEBUG_DOT_FLAGS_EVENT_NODE_PARAMS = 1 << 6,
	CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_SIGNAL_NODE_PARAMS = 1 << 7,
	CU_GRAPH_DEBUG_DOT_FLAGS_EXT_SEMAS_WAIT_NODE_PARAMS = 1 << 8,
	CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_ATTRIBUTES = 1 << 9,
	CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES = 1 << 10,
	CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS = 1 << 11,
	CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS = 1 << 12,
	CU_GRAPH_DEBUG_DOT_FLAGS_BATCH_MEM_OP_NODE_PARAMS = 1 << 13,
	CU_GRAPH_DEBUG_DOT_FLAGS_EXTRA_TOPO_INFO = 1 << 14,
	CU_GRAPH_DEBUG_DOT_FLAGS_CONDITIONAL_NODE_PARAMS = 1 << 15
} CUgraphDebugDot_flags;

CU_API(cuGraphDebugDotPrint, (CUgraph, const char *path, unsigned int flags))

// Memory that graphs allocate
typedef enum CUgraphMem_attribute_enum {
	CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0,
	CU_GRAPH_MEM_ATTR_USED_MEM_HIGH = 1,
	CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2,
	CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH = 3
} CUgraphMem_attribute;

CU_API(cuDeviceGetGraphMemAttribute, (CUdevice, CUgraphMem_attribute, void *))
CU_API(cuDeviceSetGraphMemAttribute, (CUdevice, CUgraphMem_attribute, void *))
CU_API(cuDeviceGraphMemTrim, (CUdevice))

// User objects
typedef enum CUuserObject_flags_enum { CU_USER_OBJECT_NO_DESTRUCTOR_SYNC = 1 } CUuserObject_flags;
typedef enum CUuserObjectRetain_flags_enum { CU_GRAPH_USER_OBJECT_MOVE = 1 } CUuserObjectRetain_flags;

CU_API(cuUserObjectCreate, (CUuserObject *, void *data, CUhostFn destroy, unsigned int references, unsigned int flags))
CU_API(cuUserObjectRetain, (CUuserObject, unsigned int count))
CU_API(cuUserObjectRelease, (CUuserObject, unsigned int count))
CU_API(cuGraphRetainUserObject, (CUgraph, CUuserObject, unsigned int count, unsigned int flags))
CU_API(cuGraphReleaseUserObject, (CUgraph, CUuserObject, unsigned int count))
