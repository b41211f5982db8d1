/* Checkpointing the CUDA state of a process: its device memory goes to host memory and its devices are let go,
 * so that the process can be dumped, and later runs on, on this GPU or another. Linux, driver 12.8 or later.
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

/* The driver's values; newer drivers may answer others. */
enum vg_process_state {
	VG_PROCESS_RUNNING = 0,
	VG_PROCESS_LOCKED = 1,	     /* its CUDA calls wait */
	VG_PROCESS_CHECKPOINTED = 2, /* it holds no device memory */
	VG_PROCESS_FAILED = 3	     /* for good */
};

/* Names a process; it is not looked at yet. The caller owns *ret_process. INVALID (pid below 1), UNSUPPORTED (driver),
 * NO_DRIVER, NO_MEMORY. Any thread. */
VG_PUBLIC enum vg_status vg_process_open(pid_t pid, struct vg_process **ret_process);
/* NULL is fine; the process itself is left as it is. */
VG_PUBLIC void vg_process_destroy(struct vg_process *process);
VG_PUBLIC pid_t vg_process_pid(const struct vg_process *process);

/* NOT_FOUND: no such process, or none that uses CUDA. Blocks while the thread that runs restores is stopped.
 * Source: cuCheckpointProcessGetState. */
VG_PUBLIC enum vg_status vg_process_state(struct vg_process *process, enum vg_process_state *ret_state);
/* "running", "locked", "checkpointed", "failed", or "unknown". */
VG_PUBLIC const char *vg_process_state_name(enum vg_process_state state);
/* The thread of the process that a restore runs on: it must not be stopped then. NOT_FOUND as above. Source:
 * cuCheckpointProcessGetRestoreThreadId. */
VG_PUBLIC enum vg_status vg_process_restore_thread(struct vg_process *process, pid_t *ret_thread);

/* Waits until the work that was submitted is done and holds back new calls. `timeout_ms` 0: no limit.
 * NOT_READY: not in time, and it goes on running. STATE: it is not running. NOT_FOUND, DRIVER. Source:
 * cuCheckpointProcessLock. */
VG_PUBLIC enum vg_status vg_process_lock(struct vg_process *process, unsigned timeout_ms);
/* From locked. STATE, NOT_FOUND, DRIVER. Source: cuCheckpointProcessCheckpoint. */
VG_PUBLIC enum vg_status vg_process_checkpoint(struct vg_process *process);

/* GPUs by UUID: 32 hexadecimal digits, with or without hyphens and "GPU-". */
struct vg_process_gpu_pair {
	const char *old_uuid, *new_uuid;
};
/* From checkpointed to locked. `pairs` must name every GPU that the kernel driver sees, the ones that stay with
 * themselves; a count of 0: all stay. INVALID (no UUID, or one named twice), UNSUPPORTED (pairs before driver 13.0),
 * STATE, NOT_FOUND, DRIVER. Source: cuCheckpointProcessRestore. */
VG_PUBLIC enum vg_status vg_process_restore(struct vg_process *process, const struct vg_process_gpu_pair *pairs,
					    size_t count);
/* From locked. STATE, NOT_FOUND, DRIVER. Source: cuCheckpointProcessUnlock. */
VG_PUBLIC enum vg_status vg_process_unlock(struct vg_process *process);

#ifdef __cplusplus
}
#endif
#endif
