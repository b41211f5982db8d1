// Whether there is room for what is to come, and whether this machine is such a one as an image needs: everything is
// refused before anything is touched, with what was asked, what there is, and what to do. One thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/tenant/tenant.h"
#include "virgate/checkpoint.h"

#include <jansson.h>

// Before a restore. `description` has passed schema_check(). Pids and threads' ids are free. EXISTS.
enum vg_status fit_pids(const json_t *description);
// The rest of it: programs, libraries and open files are there and the same (but for vGPUs' pages, which may be others
// now), and so are GPUs with their settings,
// driver, processor and CRIU; device memory and host memory are there. NOT_FOUND, INTEGRITY, INVALID (the map),
// UNSUPPORTED, INSUFFICIENT (with need and have).
enum vg_status fit_restore(const json_t *description, const struct criu *criu, const struct vg_process_gpu_pair *gpus,
			   size_t gpu_count, const struct tenants *tenants);

// No reason to refuse: CRIU checks itself what it needs of a kernel, and what programs need nobody knows. False: the kernel
// is as new as the image's.
bool fit_kernel_is_older(const json_t *description, char *ret_warning, size_t capacity);

// Before a dump that lies in `folder`, when its device memory has been described. `parked`: bytes of host memory that
// Virgate writes itself. INSUFFICIENT (with need and have):
// host memory, of the machine or of a control group; the disk, unless it is compressed.
enum vg_status fit_dump(const struct tree *tree, const json_t *description, const char *folder,
			enum vg_compression compression, uint64_t parked);

// ---- this room only -------------------------------------------------------------------------------

enum vg_status fit_gpus(const json_t *description, const struct vg_process_gpu_pair *pairs, size_t pair_count);
enum vg_status fit_processes(const json_t *description);
enum vg_status fit_files(const json_t *description, const struct tenants *tenants);
