// Declares streams, events, stream capture, and operations with which a stream waits for memory or writes to it.
#pragma once
#include "launch.h"

typedef enum CUstream_flags_enum { CU_STREAM_DEFAULT = 0x0, CU_STREAM_NON_BLOCKING = 0x1 } CUstream_flags;

#define CU_STREAM_LEGACY ((CUstream)0x1)
#define CU_STREAM_PER_THREAD ((CUstream)0x2)

typedef CUlaunchAttributeID CUstreamAttrID;
typedef CUlaunchAttributeValue CUstreamAttrValue_v1;
typedef CUstreamAttrValue_v1 CUstreamAttrValue;
#define CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
#define CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
#define CU_STREAM_ATTRIBUTE_PRIORITY CU_LAUNCH_ATTRIBUTE_PRIORITY
#define CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
#define CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN

typedef void(CUDA_CB *CUstreamCallback)(CUstream, CUresult, void *data);

CU_API(cuStreamCreate, (CUstream *, unsigned int flags))
CU_API(cuStreamCreateWithPriority, (CUstream *, unsigned int flags, int priority))
CU_API(cuStreamDestroy_v2, (CUstream))
CU_API_PTSZ(cuStreamGetPriority, (CUstream, int *))
CU_API_PTSZ(cuStreamGetFlags, (CUstream, unsigned int *))
CU_API_PTSZ(cuStreamGetId, (CUstream, unsigned long long *))
CU_API_PTSZ(cuStreamGetDevice, (CUstream, CUdevice *))
CU_API_PTSZ(cuStreamGetCtx, (CUstream, CUcontext *))
CU_API_PTSZ(cuStreamGetCtx_v2, (CUstream, CUcontext *, CUgreenCtx *))
CU_API(cuStreamGetGreenCtx, (CUstream, CUgreenCtx *))
CU_API_PTSZ(cuStreamGetAttribute, (CUstream, CUstreamAttrID, CUstreamAttrValue *))
CU_API_PTSZ(cuStreamSetAttribute, (CUstream, CUstreamAttrID, const CUstreamAttrValue *))
CU_API_PTSZ(cuStreamCopyAttributes, (CUstream to, CUstream from))
CU_API_PTSZ(cuStreamQuery, (CUstream))
CU_API_PTSZ(cuStreamSynchronize, (CUstream))
CU_API_PTSZ(cuStreamWaitEvent, (CUstream, CUevent, unsigned int flags))
CU_API_PTSZ(cuStreamAddCallback, (CUstream, CUstreamCallback, void *data, unsigned int flags))
CU_API_PTSZ(cuLaunchHostFunc, (CUstream, CUhostFn, void *data))

// Events
typedef enum CUevent_flags_enum {
	CU_EVENT_DEFAULT = 0x0,
	CU_EVENT_BLOCKING_SYNC = 0x1,
	CU_EVENT_DISABLE_TIMING = 0x2,
	CU_EVENT_INTERPROCESS = 0x4
} CUevent_flags;

typedef enum CUevent_record_flags_enum {
	CU_EVENT_RECORD_DEFAULT = 0x0,
	CU_EVENT_RECORD_EXTERNAL = 0x1
} CUevent_record_flags;

typedef enum CUevent_wait_flags_enum { CU_EVENT_WAIT_DEFAULT = 0x0, CU_EVENT_WAIT_EXTERNAL = 0x1 } CUevent_wait_flags;

CU_API(cuEventCreate, (CUevent *, unsigned int flags))
CU_API(cuEventDestroy_v2, (CUevent))
CU_API_PTSZ(cuEventRecord, (CUevent, CUstream))
CU_API_PTSZ(cuEventRecordWithFlags, (CUevent, CUstream, unsigned int flags))
CU_API(cuEventQuery, (CUevent))
CU_API(cuEventSynchronize, (CUevent))
CU_API(cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))
CU_API(cuEventElapsedTime_v2, (float *milliseconds, CUevent start, CUevent end))

// Capture
typedef enum CUstreamCaptureMode_enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2
} CUstreamCaptureMode;

typedef enum CUstreamCaptureStatus_enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
} CUstreamCaptureStatus;

typedef enum CUstreamUpdateCaptureDependencies_flags_enum {
	CU_STREAM_ADD_CAPTURE_DEPENDENCIES = 0x0,
	CU_STREAM_SET_CAPTURE_DEPENDENCIES = 0x1
} CUstreamUpdateCaptureDependencies_flags;

typedef struct CUgraphEdgeData_st {
	unsigned char from_port, to_port, type;
	unsigned char reserved[5];
} CUgraphEdgeData;

CU_API_PTSZ(cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode))
CU_API_PTSZ(cuStreamBeginCaptureToGraph, (CUstream, CUgraph, const CUgraphNode *dependencies, const CUgraphEdgeData *,
					  size_t count, CUstreamCaptureMode))
CU_API_PTSZ(cuStreamEndCapture, (CUstream, CUgraph *))
CU_API_PTSZ(cuStreamIsCapturing, (CUstream, CUstreamCaptureStatus *))
CU_API_PTSZ(cuStreamGetCaptureInfo_v2, (CUstream, CUstreamCaptureStatus *, cuuint64_t *id, CUgraph *,
					const CUgraphNode **dependencies, size_t *count))
CU_API_PTSZ(cuStreamGetCaptureInfo_v3, (CUstream, CUstreamCaptureStatus *, cuuint64_t *id, CUgraph *,
					const CUgraphNode **dependencies, const CUgraphEdgeData **, size_t *count))
CU_API_PTSZ(cuStreamUpdateCaptureDependencies, (CUstream, CUgraphNode *, size_t count, unsigned int flags))
CU_API_PTSZ(cuStreamUpdateCaptureDependencies_v2,
	    (CUstream, CUgraphNode *, const CUgraphEdgeData *, size_t count, unsigned int flags))
CU_API(cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *))

// Waits and writes
typedef enum CUstreamWaitValue_flags_enum {
	CU_STREAM_WAIT_VALUE_GEQ = 0x0,
	CU_STREAM_WAIT_VALUE_EQ = 0x1,
	CU_STREAM_WAIT_VALUE_AND = 0x2,
	CU_STREAM_WAIT_VALUE_NOR = 0x3,
	CU_STREAM_WAIT_VALUE_FLUSH = 1 << 30
} CUstreamWaitValue_flags;

typedef enum CUstreamWriteValue_flags_enum {
	CU_STREAM_WRITE_VALUE_DEFAULT = 0x0,
	CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER = 0x1
} CUstreamWriteValue_flags;

typedef enum CUstreamBatchMemOpType_enum {
	CU_STREAM_MEM_OP_WAIT_VALUE_32 = 1,
	CU_STREAM_MEM_OP_WRITE_VALUE_32 = 2,
	CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES = 3,
	CU_STREAM_MEM_OP_WAIT_VALUE_64 = 4,
	CU_STREAM_MEM_OP_WRITE_VALUE_64 = 5,
	CU_STREAM_MEM_OP_BARRIER = 6
} CUstreamBatchMemOpType;

typedef enum CUstreamMemoryBarrier_flags_enum {
	CU_STREAM_MEMORY_BARRIER_TYPE_SYS = 0x0,
	CU_STREAM_MEMORY_BARRIER_TYPE_GPU = 0x1
} CUstreamMemoryBarrier_flags;

typedef union CUstreamBatchMemOpParams_union {
	CUstreamBatchMemOpType operation;
	struct CUstreamMemOpWaitValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} waitValue;
	struct CUstreamMemOpWriteValueParams_st {
		CUstreamBatchMemOpType operation;
		CUdeviceptr address;
		union {
			cuuint32_t value;
			cuuint64_t value64;
		};
		unsigned int flags;
		CUdeviceptr alias;
	} writeValue;
	struct CUstreamMemOpFlushRemoteWritesParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} flushRemoteWrites;
	struct CUstreamMemOpMemoryBarrierParams_st {
		CUstreamBatchMemOpType operation;
		unsigned int flags;
	} memoryBarrier;
	cuuint64_t pad[6];
} CUstreamBatchMemOpParams_v1;
typedef CUstreamBatchMemOpParams_v1 CUstreamBatchMemOpParams;

// Declares versions 1 and 2 of a function, which have the same parameters.
#define CU_API_MEMOP(name, parameters) CU_API_PTSZ(name, parameters) CU_API_PTSZ(name##_v2, parameters)
CU_API_MEMOP(cuStreamWaitValue32, (CUstream, CUdeviceptr, cuuint32_t, unsigned int flags))
CU_API_MEMOP(cuStreamWaitValue64, (CUstream, CUdeviceptr, cuuint64_t, unsigned int flags))
CU_API_MEMOP(cuStreamWriteValue32, (CUstream, CUdeviceptr, cuuint32_t, unsigned int flags))
CU_API_MEMOP(cuStreamWriteValue64, (CUstream, CUdeviceptr, cuuint64_t, unsigned int flags))
CU_API_MEMOP(cuStreamBatchMemOp, (CUstream, unsigned int count, CUstreamBatchMemOpParams *, unsigned int flags))
