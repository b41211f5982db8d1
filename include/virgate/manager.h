/* Virtual GPUs inside a program: parts of a device with their own memory limit, work and compute share.
 *
 * * A manager divides one device; a process may have several managers, also of the same device. Its virtual GPUs
 * (vGPUs) have ids, memory limits that are enforced for each page, virtual streams, and compute shares that its
 * scheduler enforces. The sum of the memory limits of all managers of the process never exceeds the device's memory;
 * compute shares are of one manager. A vGPU exists only in the process; one that is `shared` is also registered with
 * the node's daemon, and programs enter it with virgate run --vgpu.
 *
 * * Every function may be called from any thread. When one thread closes a vGPU, later calls of others fail with
 * VG_CLOSED; calls that had begun complete. Addresses are of the process's primary context: calls of one vGPU refuse
 * memory of another (BOUNDS), but a kernel that gets the address can use it. A kernel that faults makes all contexts
 * of the process unusable, and so all vGPUs of all managers, also those of other devices: they are in
 * VG_VIRTUAL_GPU_ERROR, and can only be closed. In a forked child every call fails with VG_STATE. */
#ifndef VIRGATE_MANAGER_H
#define VIRGATE_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/compute.h>
#include <virgate/cuda_handles.h>
#include <virgate/device.h>
#include <virgate/memory_space.h>
#include <virgate/operation.h>
#include <virgate/status.h>
#include <virgate/vgpu.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_manager;
struct vg_virtual_gpu; /* a handle of a virtual GPU, which may have any number of handles */

/* ---- managers -------------------------------------------------------------------------------------- */

struct vg_manager_options {
	size_t size;			 /* sizeof(struct vg_manager_options) */
	unsigned max_virtual_gpus;	 /* maximum number of vGPUs at the same time, at most 1024; 0: 8 */
	unsigned virtual_streams;	 /* number of virtual streams of all vGPUs together; 0: 16; at most 4096 */
	unsigned monitoring_interval_ms; /* interval of utilization figures, and default interval of monitors; 0: 100 */
	/* Nonzero: allocations are the driver's own (cuMemAlloc) instead of blocks in the vGPU's pages. They are
	 * charged, checked and zeroed all the same; up to 1 MiB in steps of 512 bytes, above that in whole blocks of 2
	 * MiB. There are no pages, pools, movable blocks, defragmentation or compaction, and every allocation costs
	 * what the driver's does. */
	int no_memory_virtualization;
	int no_tensor_cores, no_mixed_precision; /* nonzero: no vGPU of the manager may use them */
	/* The node at which shared vGPUs are registered. The manager only borrows it, so it must live longer. NULL:
	 * no shared vGPU can be created. */
	struct vg_node *node;
	/* Nonzero: work goes directly to streams of the driver, in the order of submission, and runs beside the work of
	 * other vGPUs. Shares are neither summed nor enforced, nothing is measured, and a paused vGPU refuses work
	 * instead of keeping it. */
	int no_compute_virtualization;
	/* Options of the vGPUs' memory, except `limit`; NULL: the defaults. */
	const struct vg_memory_space_options *memory;
	/* Options of the scheduler; NULL: weighted fair, and defaults. max_units 0: 16, or max_virtual_gpus if that
	 * is more. */
	const struct vg_compute_options *compute;
};
/* Creates a manager. `options` may be NULL. Retains the device's primary context. The caller owns *ret_manager and
 * ends it with vg_manager_destroy(). INVALID (an option out of range), NO_MEMORY, STATE, DRIVER. */
VG_PUBLIC enum vg_status vg_manager_create(struct vg_device *device, const struct vg_manager_options *options,
					   struct vg_manager **ret_manager);
/* Closes all vGPUs of the manager like vg_virtual_gpu_close(), and then the manager: later calls return CLOSED. BUSY
 * if a vGPU has work that has not ended: then no vGPU is closed. Otherwise closes all of them, and returns the first
 * failure. May be called twice. INVALID, STATE, DRIVER. */
VG_PUBLIC enum vg_status vg_manager_close(struct vg_manager *manager);
/* Closes the manager like vg_manager_close(), but cancels work that has not ended, as vg_virtual_gpu_end() does. */
VG_PUBLIC enum vg_status vg_manager_end(struct vg_manager *manager);
/* Ends the manager if it is not ended yet, and drops the caller's reference. Accepts NULL. No other thread may be in a
 * call that names `manager` itself. */
VG_PUBLIC void vg_manager_destroy(struct vg_manager *manager);
/* Returns the manager's device; NULL for NULL. */
VG_PUBLIC struct vg_device *vg_manager_device(const struct vg_manager *manager);

/* Figures of a manager at one moment, in bytes. */
struct vg_manager_info {
	unsigned virtual_gpus, max_virtual_gpus;
	unsigned active_streams, virtual_streams; /* number of active virtual streams, and how many there may be */
	unsigned monitoring_interval_ms;
	uint64_t memory_total;	  /* bytes of memory of the device */
	uint64_t memory_promised; /* sum of the limits of the manager's vGPUs */
	/* Bytes that are left for the limits of new vGPUs: no manager of this process has reserved them. */
	uint64_t memory_available;
	uint64_t memory_held;  /* bytes that are charged to the manager's vGPUs */
	double share_promised; /* sum of the shares of the vGPUs, 0 to 1; 0 if compute is not virtualized */
	int memory_virtualized, compute_virtualized;
	double utilization;    /* part of the device that the vGPUs' work used in the last interval, 0 to 1 */
	int utilization_known; /* 0: `utilization` is unknown */
};
/* Fills in the figures of the manager. INVALID, CLOSED, STATE, DRIVER. */
VG_PUBLIC enum vg_status vg_manager_info(struct vg_manager *manager, struct vg_manager_info *ret_info);

/* ---- virtual GPUs ----------------------------------------------------------------------------------- */

struct vg_virtual_gpu_options {
	size_t size; /* sizeof(struct vg_virtual_gpu_options) */
	/* Positive, and different from other ids of the manager; 0: the lowest id that was never used. */
	int id;
	const char *name;      /* [A-Za-z0-9][A-Za-z0-9._-]{0,62}; NULL: "vgpu-ID" */
	uint64_t memory_limit; /* limit in bytes; must be given. Creating the vGPU allocates no memory */
	/* Number of virtual streams, from 0; 0: 4, or all streams of the manager if it has fewer. */
	unsigned streams;
	double compute_share; /* share of the device's SM-seconds, 0 to 1; 0: computed from compute_units */
	/* The share in virtual compute units, out of the scheduler's max_units. If this and compute_share are 0: an
	 * equal part of the unclaimed share, for each vGPU that may still be created. */
	unsigned compute_units;
	unsigned max_concurrent_kernels;	 /* 0: as many as streams */
	int no_tensor_cores, no_mixed_precision; /* nonzero: off */
	/* Nonzero: the vGPU is shared. The daemon of the manager's node knows it under `name`, which must be given,
	 * and programs enter it with `virgate run --vgpu NAME`. Memory of these programs, and memory that this
	 * program allocates through the vGPU, is charged to one ledger with one limit. Other device memory of this
	 * program, such as its context, is not charged there. The vGPU is removed when it is closed, or when this
	 * process and the last program inside have ended. A program that itself runs inside a vGPU cannot create
	 * one: STATE. */
	int shared;
	/* Without tensor cores or mixed precision: how kernels are treated whose machine code cannot be read. */
	enum vg_unknown_code unknown_code;
};
/* Creates a vGPU. The caller owns *ret_vgpu and ends it with vg_virtual_gpu_destroy(). INVALID (no limit; an invalid
 * id, name, share or number of streams), EXISTS (the id; for a shared vGPU, the name), LIMIT (no further vGPU is
 * allowed; or more memory, share or streams than are left: the text has the figures), CLOSED, NO_MEMORY, STATE, DRIVER;
 * for a shared vGPU also NO_DAEMON, DENIED, NOT_FOUND, SYSTEM. After a failure nothing has changed. */
VG_PUBLIC enum vg_status vg_virtual_gpu_create(struct vg_manager *manager, const struct vg_virtual_gpu_options *options,
					       struct vg_virtual_gpu **ret_vgpu);
/* Closes the vGPU for all users: calls of other threads complete, and memory that is left is zeroed, freed and
 * reported to the log callback. References stay valid, and calls with them fail with CLOSED. BUSY if it has work
 * that has not ended; the text has the numbers, and nothing is changed. A second call succeeds, and waits for the
 * first one. Not from a callback of a call on this vGPU. INVALID, STATE, DRIVER: some memory could not be zeroed or
 * freed; the vGPU is closed nevertheless. */
VG_PUBLIC enum vg_status vg_virtual_gpu_close(struct vg_virtual_gpu *vgpu);
/* Closes the vGPU even if it has work: cancels queued work, launches no more kernels of running work, and waits for
 * launched ones. Reports the number of executions to the log callback. Never returns BUSY. */
VG_PUBLIC enum vg_status vg_virtual_gpu_end(struct vg_virtual_gpu *vgpu);
/* Drops the caller's reference. Dropping the last one ends the vGPU like vg_virtual_gpu_end(). Accepts NULL. */
VG_PUBLIC void vg_virtual_gpu_destroy(struct vg_virtual_gpu *vgpu);
/* Adds a reference for the caller. Returns its argument. */
VG_PUBLIC struct vg_virtual_gpu *vg_virtual_gpu_retain(struct vg_virtual_gpu *vgpu);
/* Finds the vGPU with an id, and returns a reference for the caller. NOT_FOUND (the text lists the existing ids),
 * INVALID, CLOSED, STATE. */
VG_PUBLIC enum vg_status vg_manager_find(struct vg_manager *manager, int id, struct vg_virtual_gpu **ret_vgpu);
/* Returns the vGPU's manager, to which the vGPU owns the reference; NULL for NULL. */
VG_PUBLIC struct vg_manager *vg_virtual_gpu_manager(const struct vg_virtual_gpu *vgpu);

enum vg_virtual_gpu_status {
	VG_VIRTUAL_GPU_NOT_FOUND, /* no vGPU of the manager ever had the id */
	VG_VIRTUAL_GPU_CREATED,	  /* the vGPU was not used yet */
	VG_VIRTUAL_GPU_RUNNING,
	VG_VIRTUAL_GPU_PAUSED,
	VG_VIRTUAL_GPU_ERROR,	 /* the context is unusable: close the vGPU */
	VG_VIRTUAL_GPU_DESTROYED /* the vGPU was closed */
};
/* Returns the status of a vGPU by its id. NOT_FOUND also for NULL and for ids below 1; DESTROYED if the manager was
 * closed. */
VG_PUBLIC enum vg_virtual_gpu_status vg_manager_status(struct vg_manager *manager, int id);
/* Returns the name of a status, such as "running"; "unknown" for a value outside the list. */
VG_PUBLIC const char *vg_virtual_gpu_status_text(enum vg_virtual_gpu_status status);

/* Figures of a vGPU at one moment, in bytes. */
struct vg_virtual_gpu_info {
	int id;
	enum vg_virtual_gpu_status status;
	char name[64];
	int shared;
	uint64_t memory_limit;
	uint64_t memory_allocated; /* bytes that programs requested, through this process */
	uint64_t memory_held;	   /* charged bytes: each page counts once; for a shared vGPU, of all programs inside */
	double memory_utilization; /* charged / limit, 0 to 1 */
	size_t blocks;
	double compute_share;	       /* 0 to 1; 0 if compute is not virtualized */
	double compute_utilization;    /* used part of the device's SM-seconds over the last interval, 0 to 1 */
	int compute_utilization_known; /* 0: `compute_utilization` is unknown */
	enum vg_compute_how how;       /* how the share is realised */
	unsigned queue_length;	       /* executions that wait */
	unsigned running;	       /* number of executions that were given to the device */
	uint64_t launches, completed, failures, cancelled; /* so far */
	/* Number of active streams, and how many streams the vGPU may use. */
	unsigned active_streams, streams;
	int tensor_cores, mixed_precision; /* nonzero: allowed */
	/* Number of allocations that were refused because of the limit. */
	uint64_t refusals;
	/* Bytes of the vGPU's pages in the host; 0: all are on the device. */
	uint64_t memory_in_host;
};
/* Fills in the figures. For a closed vGPU, the status says so and all figures are 0. INVALID, STATE, DRIVER. */
VG_PUBLIC enum vg_status vg_virtual_gpu_info(struct vg_virtual_gpu *vgpu, struct vg_virtual_gpu_info *ret_info);
/* Lists all vGPUs of the manager, by id. *ret_count: their number; `infos` may be NULL to read only the number.
 * LIMIT (there are more than `capacity`: nothing was written but the count), INVALID, CLOSED, NO_MEMORY, STATE. */
VG_PUBLIC enum vg_status vg_manager_list(struct vg_manager *manager, struct vg_virtual_gpu_info *infos, size_t capacity,
					 size_t *ret_count);

/* Pauses the vGPU: queued work waits, and running work continues to its end. The memory can still be used. INVALID,
 * CLOSED, STATE (the vGPU is paused already, or in error). */
VG_PUBLIC enum vg_status vg_virtual_gpu_pause(struct vg_virtual_gpu *vgpu);
/* Resumes the vGPU. INVALID, CLOSED, STATE (the vGPU is not paused, or its memory is in the host). */
VG_PUBLIC enum vg_status vg_virtual_gpu_resume(struct vg_virtual_gpu *vgpu);
/* Reports how many bytes of a move were copied, on the thread of the move. Returns nonzero to stop the move, which is
 * then undone. It must not close or destroy the vGPU or its manager, which would wait for the move for ever. Functions
 * that pause, resume, move or change this vGPU return STATE during a move. */
typedef int vg_virtual_gpu_progress_fn(void *user, uint64_t bytes, uint64_t total);
struct vg_virtual_gpu_move_options {
	size_t size; /* sizeof(struct vg_virtual_gpu_move_options) */
	vg_virtual_gpu_progress_fn *progress;
	void *user;
};
/* Moves the memory of a paused vGPU to the host, and back to the same addresses, after running work has ended. The
 * memory stays charged, but other users of the device can allocate it meanwhile. While it is in the host, calls that
 * need the memory and vg_virtual_gpu_resume() fail with STATE; the vGPU can be closed. `options` may be NULL. The
 * host needs as much pageable memory. STATE (not paused; moved already; stopped), UNSUPPORTED (memory is not
 * virtualized: its addresses would change), NO_MEMORY (of the host), INSUFFICIENT (the device has too little memory:
 * the memory stays in the host), CLOSED, INVALID, DRIVER. A failed move is rolled back. Only if the device then
 * lacks the room does memory that was moved to the host stay there; `memory_in_host` shows that. */
VG_PUBLIC enum vg_status vg_virtual_gpu_move_out(struct vg_virtual_gpu *vgpu,
						 const struct vg_virtual_gpu_move_options *options);
VG_PUBLIC enum vg_status vg_virtual_gpu_move_in(struct vg_virtual_gpu *vgpu,
						const struct vg_virtual_gpu_move_options *options);
/* Sets the memory limit. INVALID (0), BUSY (more is charged; the text has the figures), LIMIT (more than the device
 * has left), CLOSED, STATE; for a shared vGPU also the errors of vg_vgpu_set(). */
VG_PUBLIC enum vg_status vg_virtual_gpu_set_memory_limit(struct vg_virtual_gpu *vgpu, uint64_t bytes);

/* ---- memory ------------------------------------------------------------------------------------------ */

/* Allocates `size` bytes at a multiple of `alignment`, a power of two; 0: 256. vg_virtual_gpu_free() or closing the
 * vGPU frees the block. INVALID (size 0, invalid alignment), INSUFFICIENT (the vGPU's limit or the device's memory,
 * with `need` and `have`), CLOSED, STATE, NO_MEMORY, DRIVER. */
VG_PUBLIC enum vg_status vg_virtual_gpu_allocate(struct vg_virtual_gpu *vgpu, size_t size, size_t alignment,
						 vg_address *ret_address);
/* Frees a block. No work may use it any more, so synchronize first. Memory that leaves the vGPU is zeroed after all
 * work of the vGPU that was given to the device. BOUNDS (the address is not in memory of this vGPU, but of another vGPU
 * or the host), STALE (no block is allocated there; BOUNDS if memory is not virtualized), INVALID (the middle of a
 * block), CLOSED, STATE, DRIVER. */
VG_PUBLIC enum vg_status vg_virtual_gpu_free(struct vg_virtual_gpu *vgpu, vg_address address);
/* These functions copy `size` bytes from the program's memory to the vGPU's, and back. The copy is done when the
 * call returns. It has no order with work in virtual streams, so synchronize first. 0 bytes are allowed. BOUNDS (the
 * bytes are not in one block of this vGPU), STALE (the block was freed), INVALID (NULL, or a device address where
 * the program's memory belongs), CLOSED, STATE, DRIVER. */
VG_PUBLIC enum vg_status vg_virtual_gpu_write(struct vg_virtual_gpu *vgpu, vg_address to, const void *from,
					      size_t size);
VG_PUBLIC enum vg_status vg_virtual_gpu_read(struct vg_virtual_gpu *vgpu, void *to, vg_address from, size_t size);
/* Copies within the vGPU's memory. INVALID (the ranges overlap); BOUNDS, CLOSED, STATE, DRIVER as above. */
VG_PUBLIC enum vg_status vg_virtual_gpu_copy(struct vg_virtual_gpu *vgpu, vg_address to, vg_address from, size_t size);
/* Sets `size` bytes to `value`, 0 to 255. INVALID (another value); BOUNDS, CLOSED, STATE, DRIVER as above. */
VG_PUBLIC enum vg_status vg_virtual_gpu_set(struct vg_virtual_gpu *vgpu, vg_address to, int value, size_t size);
/* Copies from one vGPU's memory to that of another, which may belong to another manager or device. BOUNDS, INVALID,
 * CLOSED, STATE, DRIVER, for either vGPU. */
VG_PUBLIC enum vg_status vg_virtual_gpu_copy_peer(struct vg_virtual_gpu *to_vgpu, vg_address to,
						  struct vg_virtual_gpu *from_vgpu, vg_address from, size_t size);
/* Returns the vGPU's space, for movable blocks, pages, pools, defragmentation and compaction. The vGPU owns the
 * space and closes it. NULL for NULL, and if memory is not virtualized. */
VG_PUBLIC struct vg_memory_space *vg_virtual_gpu_memory(const struct vg_virtual_gpu *vgpu);

/* ---- work -------------------------------------------------------------------------------------------- */

/* Returns the scheduler, in which kernels are registered by name for all vGPUs of the manager. The manager owns it.
 * NULL for NULL. */
VG_PUBLIC struct vg_compute *vg_manager_compute(const struct vg_manager *manager);
/* Returns the vGPU's unit in the scheduler. The vGPU owns the unit and closes it. NULL for NULL. */
VG_PUBLIC struct vg_compute_unit *vg_virtual_gpu_compute(const struct vg_virtual_gpu *vgpu);

/* Queues a kernel by its name, like vg_compute_unit_execute(). Its virtual stream becomes active with the first work in
 * it: INVALID (the vGPU has no such stream), LIMIT (all virtual streams of the manager are active: the text says whose
 * they are), and STATE (the vGPU is paused, and compute is not virtualized). */
VG_PUBLIC enum vg_status vg_virtual_gpu_execute(struct vg_virtual_gpu *vgpu, const struct vg_work *work,
						struct vg_execution **ret_execution);
/* Waits at most `timeout_seconds` for the work that was queued in one virtual stream, or in all; 0 or less: no limit.
 * NOT_READY, INVALID, DRIVER (the context is lost), CLOSED (also if the vGPU is closed meanwhile), STATE. */
VG_PUBLIC enum vg_status vg_virtual_gpu_sync(struct vg_virtual_gpu *vgpu, unsigned stream, double timeout_seconds);
VG_PUBLIC enum vg_status vg_virtual_gpu_sync_all(struct vg_virtual_gpu *vgpu, double timeout_seconds);
/* Makes a virtual stream inactive, so that another vGPU may have an active one instead. The stream becomes active
 * again with its next work. BUSY (the stream has work, or gets some at the same time), INVALID, CLOSED, STATE. */
VG_PUBLIC enum vg_status vg_virtual_gpu_release_stream(struct vg_virtual_gpu *vgpu, unsigned stream);

/* Sets the share, above 0 and up to 1, even if the vGPU has work. INVALID, LIMIT (too little is left), CLOSED,
 * UNSUPPORTED (compute is not virtualized), STATE; for a shared vGPU also the errors of vg_vgpu_set(). */
VG_PUBLIC enum vg_status vg_virtual_gpu_set_compute_share(struct vg_virtual_gpu *vgpu, double share);
/* Sets the share in virtual compute units of the scheduler. Otherwise like vg_virtual_gpu_set_compute_share(). */
VG_PUBLIC enum vg_status vg_virtual_gpu_scale_compute_units(struct vg_virtual_gpu *vgpu, unsigned compute_units);
/* These functions allow (nonzero) or forbid (0) tensor cores, or mixed precision. Kernels and operations that need
 * what is forbidden are refused from now on. STATE (the manager forbids it), INVALID, CLOSED. */
VG_PUBLIC enum vg_status vg_virtual_gpu_set_tensor_cores(struct vg_virtual_gpu *vgpu, int allowed);
VG_PUBLIC enum vg_status vg_virtual_gpu_set_mixed_precision(struct vg_virtual_gpu *vgpu, int allowed);

/* ---- operations -------------------------------------------------------------------------------------- */

/* These functions queue an operation in a virtual stream, like vg_virtual_gpu_execute(); `ret_execution` may be NULL.
 * Every address is checked against the vGPU's blocks, when the operation is queued and again before it begins: BOUNDS
 * and STALE name the field. The operation's scratch memory is a block of the vGPU (INSUFFICIENT), which the next
 * operation in the stream uses again. INVALID (the text describes the shape or type), UNSUPPORTED (no algorithm works
 * without tensor cores or mixed precision), and the errors of vg_virtual_gpu_execute(). */
VG_PUBLIC enum vg_status vg_virtual_gpu_matrix_multiply(struct vg_virtual_gpu *vgpu,
							const struct vg_matrix_multiply *operation, unsigned stream,
							struct vg_execution **ret_execution);
VG_PUBLIC enum vg_status vg_virtual_gpu_convolution(struct vg_virtual_gpu *vgpu, const struct vg_convolution *operation,
						    unsigned stream, struct vg_execution **ret_execution);
VG_PUBLIC enum vg_status vg_virtual_gpu_activation(struct vg_virtual_gpu *vgpu, const struct vg_activation *operation,
						   unsigned stream, struct vg_execution **ret_execution);

#ifdef __cplusplus
}
#endif
#endif
