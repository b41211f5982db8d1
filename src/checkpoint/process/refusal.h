// The reasons why processes are not dumped, each with a name: "refused (NAME): process, reason, what to do". What shows
// from outside is refused before any process is locked, the rest when the driver reports it. One thread.
#pragma once
#include "checkpoint/process/tree.h"

enum refusal {
#define REFUSAL(constant, name, status) REFUSE_##constant,
#include "checkpoint/process/refusal.def"
#undef REFUSAL
};
// Sets the last error, with the driver's `code` or 0, and returns the status that belongs to the refusal.
__attribute__((format(printf, 3, 4))) enum vg_status refuse(enum refusal refusal, int code, const char *format, ...);

// Checks what the kernel reports, before the driver is called: the driver would wait for a stopped process. SELF,
// ENDED, TRACED, STOPPED, LEASE, IPC.
enum vg_status refusal_by_kernel(const struct tree *tree);
// The same, without the checks that only matter to CRIU. SELF, ENDED, STOPPED, LEASE, IPC.
enum vg_status refusal_by_kernel_of_gpu(const struct tree *tree);
// Checks what the driver reports, before any process is locked. LEFT, FAILED, MIG, DEVICE_CHILD.
enum vg_status refusal_by_driver(const struct tree *tree);
// Replaces the last error of a driver step that failed with `status`. If the driver does not support the step, returns
// `refusal`: MPS for a lock, MANAGED for a checkpoint. Else returns `status`.
enum vg_status refusal_of_step(enum refusal refusal, enum vg_status status);
// Checks processes that are off the GPU for open /dev/nvidia* files, which cannot be restored. DEVICE, DEVICE_CHILD.
enum vg_status refusal_by_leftovers(const struct tree *tree);
// Returns whether the process has mapped the driver's library. False also if its mappings cannot be read.
bool refusal_maps_cuda(pid_t pid);

// ---- this room only -------------------------------------------------------------------------------

// Checks the mappings of the process for device memory that it shares with others. LEASE, IPC.
enum vg_status refusal_shared(const struct tree_process *process);
// Checks whether a process without CUDA has devices open. DEVICE_CHILD, DEVICE.
enum vg_status refusal_open_device(const struct tree *tree, const struct tree_process *process);
