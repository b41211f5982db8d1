// What virgate.json says of the machine and the processes, and whether this machine is such a one. One thread.
#pragma once
#include "checkpoint/criu.h"
#include "checkpoint/tree.h"

#include <jansson.h>

// Of processes that run. To be given back with json_decref(). NO_MEMORY, NVML, SYSTEM.
enum vg_status describe_dump(const struct tree *tree, const struct criu *criu, const char *function,
			     json_t **ret_description);
// UNSUPPORTED: one of them runs inside a vGPU.
enum vg_status describe_refuse_tenants(const struct tree *tree, const char *function);

// Before anything is restored: pids are free, programs are there and the same, so are GPUs, driver and architecture, and
// the device has room. EXISTS, NOT_FOUND, INTEGRITY, UNSUPPORTED, INSUFFICIENT.
enum vg_status describe_check(const json_t *description, const struct vg_process_gpu_pair *gpus, size_t gpu_count,
			      const char *function);
