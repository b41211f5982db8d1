/* Checkpoints of the CUDA state of a process: its device memory is moved to host memory and its devices are released,
 * so that the process can be dumped, and can continue later on this GPU or another. Linux, driver 12.8 or later.
 *
 * running -> lock -> locked -> checkpoint -> checkpointed -> restore -> locked -> unlock -> running */
#ifndef VIRGATE_PROCESS_H
#define VIRGATE_PROCESS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

struct vg_process;

/* The driver's values; newer drivers may return others. */
enum vg_process_state {
	VG_PROCESS_RUNNING = 0,
	VG_PROCESS_LOCKED = 1,	     /* the process's CUDA calls wait */
	VG_PROCESS_CHECKPOINTED = 2, /* the process has no device memory */
	VG_PROCESS_FAILED = 3	     /* cannot continue */
};

/* Creates an object for a process, which is not checked yet. The caller owns *ret_process. INVALID (pid below 1),
 * UNSUPPORTED (driver), NO_DRIVER, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_process_open(pid_t pid, struct vg_process **ret_process);
/* Frees the object. Accepts NULL. The process itself is not affected. */
VG_PUBLIC void vg_process_destroy(struct vg_process *process);
VG_PUBLIC pid_t vg_process_pid(const struct vg_process *process);

/* Reads the state. NOT_FOUND: no such process, or it does not use CUDA. Blocks while the restore thread is stopped.
 * Source: cuCheckpointProcessGetState. */
VG_PUBLIC enum vg_status vg_process_state(struct vg_process *process, enum vg_process_state *ret_state);
/* Returns the name of a state: "running", "locked", "checkpointed", "failed", or "unknown". */
VG_PUBLIC const char *vg_process_state_name(enum vg_process_state state);
/* Returns the restore thread of the process, which must not be stopped during a restore. NOT_FOUND as above. Source:
 * cuCheckpointProcessGetRestoreThreadId. */
VG_PUBLIC enum vg_status vg_process_restore_thread(struct vg_process *process, pid_t *ret_thread);

/* Waits until the queued work is done, and blocks new calls of the process. `timeout_ms` 0: no limit.
 * NOT_READY: timeout; the process goes on. STATE: it is not running. NOT_FOUND, DRIVER. Source:
 * cuCheckpointProcessLock. */
VG_PUBLIC enum vg_status vg_process_lock(struct vg_process *process, unsigned timeout_ms);
/* Checkpoints a locked process: moves its device memory to the host. STATE, NOT_FOUND, DRIVER. Source:
 * cuCheckpointProcessCheckpoint. */
VG_PUBLIC enum vg_status vg_process_checkpoint(struct vg_process *process);

/* GPUs by UUID: 32 hexadecimal digits, with or without hyphens and "GPU-". */
struct vg_process_gpu_pair {
	const char *old_uuid, *new_uuid;
};
/* Restores a checkpointed process; it is locked then. `pairs` must contain every GPU that the kernel driver sees; a
 * GPU that is not replaced is paired with itself. With a count of 0 none is replaced. INVALID (no UUID, or one named
 * twice), UNSUPPORTED (pairs before driver 13.0), STATE, NOT_FOUND, DRIVER. Source: cuCheckpointProcessRestore. */
VG_PUBLIC enum vg_status vg_process_restore(struct vg_process *process, const struct vg_process_gpu_pair *pairs,
					    size_t count);
/* Unlocks a locked process. STATE, NOT_FOUND, DRIVER. Source: cuCheckpointProcessUnlock. */
VG_PUBLIC enum vg_status vg_process_unlock(struct vg_process *process);

#ifdef __cplusplus
}
#endif
#endif
