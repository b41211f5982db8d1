// Checks that there is room, and that this machine fits an image. Refuses before anything changes, with what is needed,
// what is available, and what to do. One thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/tenant/tenant.h"
#include "virgate/checkpoint.h"

#include <jansson.h>

// Before a restore: checks that pids and thread ids are free. `description` has passed schema_check(). EXISTS.
enum vg_status fit_pids(const json_t *description);
// Checks the rest: programs, libraries and open files are unchanged (except ledgers, which may be other ones now); GPUs
// and their settings, driver, processor and CRIU fit; device memory and host memory suffice. NOT_FOUND, INTEGRITY,
// INVALID (the map), UNSUPPORTED, INSUFFICIENT (with need and have).
enum vg_status fit_restore(const json_t *description, const struct criu *criu, const struct vg_process_gpu_pair *gpus,
			   size_t gpu_count, const struct tenants *tenants);

// Returns true with a warning if this kernel is older than the image's. That is no reason to refuse: CRIU checks what
// it needs itself, and what programs need is unknown.
bool fit_kernel_is_older(const json_t *description, char *ret_warning, size_t capacity);

// Before a dump into `directory`, after its device memory was described. `parked`: bytes of host memory that Virgate
// writes itself. INSUFFICIENT (with need and have): host memory of the machine or of a control group, or the disk,
// unless the image is compressed.
enum vg_status fit_dump(const struct tree *tree, const json_t *description, const char *directory,
			enum vg_compression compression, uint64_t parked);

// ---- this room only -------------------------------------------------------------------------------

enum vg_status fit_gpus(const json_t *description, const struct vg_process_gpu_pair *pairs, size_t pair_count);
enum vg_status fit_processes(const json_t *description);
enum vg_status fit_files(const json_t *description, const struct tenants *tenants);
