// Declares streams, events, stream capture, and host functions in streams.
#pragma once
#include "graph_edge.h"
#include "launch_attribute.h"

#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)

CUDART_API(cudaStreamCreate, (cudaStream_t *))
CUDART_API(cudaStreamCreateWithFlags, (cudaStream_t *, unsigned int flags))
CUDART_API(cudaStreamCreateWithPriority, (cudaStream_t *, unsigned int flags, int priority))
CUDART_API(cudaStreamDestroy, (cudaStream_t))
CUDART_API(cudaStreamGetPriority, (cudaStream_t, int *priority))
CUDART_API(cudaStreamGetFlags, (cudaStream_t, unsigned int *flags))
CUDART_API(cudaStreamGetId, (cudaStream_t, unsigned long long *id))
CUDART_API(cudaStreamGetDevice, (cudaStream_t, int *device))
CUDART_API(cudaStreamQuery, (cudaStream_t))
CUDART_API(cudaStreamSynchronize, (cudaStream_t))
CUDART_API(cudaStreamWaitEvent, (cudaStream_t, cudaEvent_t, unsigned int flags CUDART_DEFAULT(0)))

// Stream attributes have the types of launch attributes
#define cudaStreamAttrID cudaLaunchAttributeID
#define cudaStreamAttrValue cudaLaunchAttributeValue
#define cudaStreamAttributeAccessPolicyWindow cudaLaunchAttributeAccessPolicyWindow
#define cudaStreamAttributeSynchronizationPolicy cudaLaunchAttributeSynchronizationPolicy
#define cudaStreamAttributeMemSyncDomainMap cudaLaunchAttributeMemSyncDomainMap
#define cudaStreamAttributeMemSyncDomain cudaLaunchAttributeMemSyncDomain
#define cudaStreamAttributePriority cudaLaunchAttributePriority

CUDART_API(cudaStreamCopyAttributes, (cudaStream_t to, cudaStream_t from))
CUDART_API(cudaStreamGetAttribute, (cudaStream_t, cudaLaunchAttributeID, cudaLaunchAttributeValue *))
CUDART_API(cudaStreamSetAttribute, (cudaStream_t, cudaLaunchAttributeID, const cudaLaunchAttributeValue *))

// Managed memory
#define cudaMemAttachGlobal 0x01
#define cudaMemAttachHost 0x02
#define cudaMemAttachSingle 0x04

CUDART_API(cudaStreamAttachMemAsync, (cudaStream_t, void *address, size_t size CUDART_DEFAULT(0),
				      unsigned int flags CUDART_DEFAULT(cudaMemAttachSingle)))

// Host functions
typedef void(CUDART_CB *cudaStreamCallback_t)(cudaStream_t, cudaError_t status, void *data);

CUDART_API(cudaStreamAddCallback, (cudaStream_t, cudaStreamCallback_t, void *data, unsigned int flags))
CUDART_API(cudaLaunchHostFunc, (cudaStream_t, cudaHostFn_t, void *data))

// Capture
enum cudaStreamCaptureStatus {
	cudaStreamCaptureStatusNone = 0,
	cudaStreamCaptureStatusActive = 1,
	cudaStreamCaptureStatusInvalidated = 2
};

enum cudaStreamCaptureMode {
	cudaStreamCaptureModeGlobal = 0,
	cudaStreamCaptureModeThreadLocal = 1,
	cudaStreamCaptureModeRelaxed = 2
};

enum cudaStreamUpdateCaptureDependenciesFlags {
	cudaStreamAddCaptureDependencies = 0x0,
	cudaStreamSetCaptureDependencies = 0x1
};

CUDART_API(cudaThreadExchangeStreamCaptureMode, (enum cudaStreamCaptureMode *))
CUDART_API(cudaStreamBeginCapture, (cudaStream_t, enum cudaStreamCaptureMode))
CUDART_API(cudaStreamBeginCaptureToGraph, (cudaStream_t, cudaGraph_t, const cudaGraphNode_t *dependencies,
					   const cudaGraphEdgeData *, size_t count, enum cudaStreamCaptureMode))
CUDART_API(cudaStreamEndCapture, (cudaStream_t, cudaGraph_t *))
CUDART_API(cudaStreamIsCapturing, (cudaStream_t, enum cudaStreamCaptureStatus *))
CUDART_API(cudaStreamGetCaptureInfo,
	   (cudaStream_t, enum cudaStreamCaptureStatus *, unsigned long long *id CUDART_DEFAULT(0),
	    cudaGraph_t *graph CUDART_DEFAULT(0), const cudaGraphNode_t **dependencies CUDART_DEFAULT(0),
	    const cudaGraphEdgeData **edges CUDART_DEFAULT(0), size_t *count CUDART_DEFAULT(0)))
CUDART_API(cudaStreamUpdateCaptureDependencies, (cudaStream_t, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *,
						 size_t count, unsigned int flags CUDART_DEFAULT(0)))

// Events
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventInterprocess 0x04
#define cudaEventRecordDefault 0x00
#define cudaEventRecordExternal 0x01
#define cudaEventWaitDefault 0x00
#define cudaEventWaitExternal 0x01

CUDART_API(cudaEventCreate, (cudaEvent_t *))
CUDART_API(cudaEventCreateWithFlags, (cudaEvent_t *, unsigned int flags))
CUDART_API(cudaEventDestroy, (cudaEvent_t))
CUDART_API(cudaEventRecord, (cudaEvent_t, cudaStream_t stream CUDART_DEFAULT(0)))
CUDART_API(cudaEventRecordWithFlags,
	   (cudaEvent_t, cudaStream_t stream CUDART_DEFAULT(0), unsigned int flags CUDART_DEFAULT(0)))
CUDART_API(cudaEventQuery, (cudaEvent_t))
CUDART_API(cudaEventSynchronize, (cudaEvent_t))
CUDART_API(cudaEventElapsedTime, (float *milliseconds, cudaEvent_t start, cudaEvent_t end))
