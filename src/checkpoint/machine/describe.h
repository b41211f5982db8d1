// What virgate.json says of the machine and the processes; schema.h has its keys. One thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/process/tree.h"

#include <jansson.h>

// Of processes that run. To be given back with json_decref(). NO_MEMORY, SYSTEM.
enum vg_status describe_dump(const struct tree *tree, const struct criu *criu, json_t **ret_description);
// Adds what holds only once they are stopped: threads, host memory, and the files that are mapped or open.
void describe_stopped(const struct tree *tree, json_t *description);

// ---- this room only -------------------------------------------------------------------------------

json_t *describe_driver(void);
json_t *describe_cpu(void);
json_t *describe_process(const struct tree_process *process);
// Anonymous and shared memory: what CRIU writes down, and what takes room when it is made again. False: not known.
bool describe_host_memory(pid_t pid, uint64_t *ret_bytes);
// All GPUs of the machine; adds to each of the processes on which it is.
json_t *describe_gpus(const struct tree *tree, json_t *processes);
