// Declares checkpoints of processes, core dumps and the driver's log.
#pragma once
#include "result.h"

typedef enum CUprocessState_enum {
	CU_PROCESS_STATE_RUNNING = 0,
	CU_PROCESS_STATE_LOCKED = 1,
	CU_PROCESS_STATE_CHECKPOINTED = 2,
	CU_PROCESS_STATE_FAILED = 3
} CUprocessState;

typedef struct CUcheckpointLockArgs_st {
	unsigned int timeoutMs;
	unsigned int reserved0;
	cuuint64_t reserved1[7];
} CUcheckpointLockArgs;

typedef struct CUcheckpointCheckpointArgs_st {
	cuuint64_t reserved[8];
} CUcheckpointCheckpointArgs;

typedef struct CUcheckpointGpuPair_st {
	CUuuid oldUuid, newUuid;
} CUcheckpointGpuPair;

typedef struct CUcheckpointRestoreArgs_st {
	CUcheckpointGpuPair *gpuPairs;
	unsigned int gpuPairsCount;
	char reserved[44];
	cuuint64_t reserved1;
} CUcheckpointRestoreArgs;

typedef struct CUcheckpointUnlockArgs_st {
	cuuint64_t reserved[8];
} CUcheckpointUnlockArgs;

CU_API(cuCheckpointProcessGetState, (int pid, CUprocessState *))
CU_API(cuCheckpointProcessGetRestoreThreadId, (int pid, int *tid))
CU_API(cuCheckpointProcessLock, (int pid, CUcheckpointLockArgs *))
CU_API(cuCheckpointProcessCheckpoint, (int pid, CUcheckpointCheckpointArgs *))
CU_API(cuCheckpointProcessRestore, (int pid, CUcheckpointRestoreArgs *))
CU_API(cuCheckpointProcessUnlock, (int pid, CUcheckpointUnlockArgs *))

// Core dumps
typedef enum CUcoredumpSettings_enum {
	CU_COREDUMP_ENABLE_ON_EXCEPTION = 1,
	CU_COREDUMP_TRIGGER_HOST = 2,
	CU_COREDUMP_LIGHTWEIGHT = 3,
	CU_COREDUMP_ENABLE_USER_TRIGGER = 4,
	CU_COREDUMP_FILE = 5,
	CU_COREDUMP_PIPE = 6,
	CU_COREDUMP_GENERATION_FLAGS = 7,
	CU_COREDUMP_MAX
} CUcoredumpSettings;

CU_API(cuCoredumpGetAttribute, (CUcoredumpSettings, void *value, size_t *size))
CU_API(cuCoredumpSetAttribute, (CUcoredumpSettings, void *value, size_t *size))
CU_API(cuCoredumpGetAttributeGlobal, (CUcoredumpSettings, void *value, size_t *size))
CU_API(cuCoredumpSetAttributeGlobal, (CUcoredumpSettings, void *value, size_t *size))

// Logs
typedef enum CUlogLevel_enum { CU_LOG_LEVEL_ERROR = 0, CU_LOG_LEVEL_WARNING = 1 } CUlogLevel;
typedef struct CUlogsCallbackEntry_st *CUlogsCallbackHandle;
typedef void (*CUlogsCallback)(void *data, CUlogLevel, char *message, size_t length);
typedef unsigned int CUlogIterator;

CU_API(cuLogsRegisterCallback, (CUlogsCallback, void *data, CUlogsCallbackHandle *))
CU_API(cuLogsUnregisterCallback, (CUlogsCallbackHandle))
CU_API(cuLogsCurrent, (CUlogIterator *, unsigned int flags))
CU_API(cuLogsDumpToFile, (CUlogIterator *, const char *path, unsigned int flags))
CU_API(cuLogsDumpToMemory, (CUlogIterator *, char *buffer, size_t *size, unsigned int flags))
