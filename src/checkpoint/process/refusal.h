// Refuses processes that cannot be dumped. Each reason has a name: "refused (NAME): process, reason, what to do".
// Reasons that are visible from outside are reported before any process is locked. The other reasons are reported when
// the driver's call fails. One thread.
#pragma once
#include "checkpoint/process/tree.h"

enum refusal {
#define REFUSAL(constant, name, status) REFUSE_##constant,
#include "checkpoint/process/refusal.def"
#undef REFUSAL
};
// Sets the last error to a refusal, with the driver's error `code`, or 0. Returns the status that belongs to the
// refusal.
__attribute__((format(printf, 3, 4))) enum vg_status refuse(enum refusal refusal, int code, const char *format, ...);

// Refuses processes for reasons that the kernel shows. Call it before any function that asks the driver about a
// process: the driver would wait for a stopped process. Refusals (refusal.def): SELF, ENDED, TRACED, STOPPED, LEASE,
// IPC.
enum vg_status refusal_by_kernel(const struct tree *tree);
// Refuses processes like refusal_by_kernel(), but not for reasons that matter only to CRIU. SELF, ENDED, STOPPED,
// LEASE, IPC.
enum vg_status refusal_by_kernel_of_gpu(const struct tree *tree);
// Refuses processes for reasons that the driver reports, before any process is locked. LEFT, FAILED, MIG, DEVICE_CHILD.
enum vg_status refusal_by_driver(const struct tree *tree);
// Call this after a driver step that returned `status`. If the driver does not support the step, sets the last error to
// `refusal`, and returns its status. Otherwise returns `status`. `refusal` is REFUSE_MPS for a lock, and REFUSE_MANAGED
// for a checkpoint.
enum vg_status refusal_of_step(enum refusal refusal, enum vg_status status);
// Refuses processes that still have /dev/nvidia* files open after they left the GPU: those files cannot be restored.
// DEVICE, DEVICE_CHILD.
enum vg_status refusal_by_leftovers(const struct tree *tree);
// Returns whether the process has mapped the driver's library. Returns false also if its mappings cannot be read.
bool refusal_maps_cuda(pid_t pid);

// ---- this directory only -------------------------------------------------------------------------------

// Refuses a process that has mapped device memory which it shares with others. LEASE, IPC.
enum vg_status refusal_shared(const struct tree_process *process);
// Refuses a process without CUDA that has devices open. DEVICE_CHILD, DEVICE.
enum vg_status refusal_open_device(const struct tree *tree, const struct tree_process *process);
