// Describes the machine and the processes for virgate.json; image/schema.h defines the keys. One thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/process/tree.h"

#include <jansson.h>

// Describes the machine and running processes. The caller frees the description with json_decref(). NO_MEMORY, SYSTEM.
enum vg_status describe_dump(const struct tree *tree, const struct criu *criu, json_t **ret_description);
// Adds to the description what can only be read once the processes are stopped: threads, host memory, mapped and open
// files.
void describe_stopped(const struct tree *tree, json_t *description);

// ---- this directory only -------------------------------------------------------------------------------

json_t *describe_driver(void);
json_t *describe_cpu(void);
json_t *describe_process(const struct tree_process *process);
// Adds up the anonymous and shared memory of a process, which CRIU writes and a restore needs. Returns false if it is
// unknown.
bool describe_host_memory(pid_t pid, uint64_t *ret_bytes);
// Describes all GPUs of the machine. Also adds each GPU to the descriptions of the processes that use it.
json_t *describe_gpus(const struct tree *tree, json_t *processes);
