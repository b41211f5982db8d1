// Checks that an image fits this machine, and that there is room. Refuses before anything is changed. The error says
// what is needed, what is available, and what to do. One thread.
#pragma once
#include "checkpoint/criu/criu.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/tenant/tenant.h"
#include "virgate/checkpoint.h"

#include <jansson.h>

// Checks, before a restore, that pids and thread ids are free. `description` must have passed schema_check(). EXISTS.
enum vg_status fit_pids(const json_t *description);
// Checks everything else that a restore needs. Programs, libraries and open files must be unchanged. Ledgers may have
// changed, because the processes map the ledgers of the vGPUs in `tenants` instead. `gpus`: the pairs of
// gpu_map_make(). GPUs, their settings, driver, processor and CRIU must fit, and device memory and host memory must
// suffice. NOT_FOUND, INTEGRITY, UNSUPPORTED, INSUFFICIENT (with need and have).
enum vg_status fit_restore(const json_t *description, const struct criu *criu, const struct vg_process_gpu_pair *gpus,
			   size_t gpu_count, const struct tenants *tenants);

// Returns true, with a warning, if this kernel is older than the one in the image. That is no reason to refuse the
// restore: CRIU itself checks what it needs, and it is unknown which kernel the programs need.
bool fit_kernel_is_older(const json_t *description, char *ret_warning, size_t capacity);

// Checks that the file system of `directory` has room for an image of at most `need` bytes. If that file system is in
// memory, *ret_memory is the host memory that the image takes. INSUFFICIENT (with need and have). Does not check the
// room for compressed images.
enum vg_status fit_disk(const char *directory, uint64_t need, enum vg_compression compression, uint64_t *ret_memory);
// Checks that there is room for a dump into `directory`, after the GPUs were described. `parked`: bytes of device
// memory that pagers have put into files, and that Virgate, not CRIU, will still write into the image. INSUFFICIENT
// (with need and have): too little host memory in the machine or a control group, or too little disk space. The disk is
// not checked if the image is compressed. *ret_bytes: an upper limit for what CRIU will write. It is the sum of the
// host memory of the processes and of the device memory that the driver will move to the host, without `parked`.
enum vg_status fit_dump(const struct tree *tree, const json_t *description, const char *directory,
			enum vg_compression compression, uint64_t parked, uint64_t *ret_bytes);

// ---- this directory only -------------------------------------------------------------------------------

enum vg_status fit_gpus(const json_t *description, const struct vg_process_gpu_pair *pairs, size_t pair_count);
enum vg_status fit_processes(const json_t *description);
enum vg_status fit_files(const json_t *description, const struct tenants *tenants);
