// Why processes are not dumped, each reason under a name: "refused (NAME): who, what, and what to do". What can be seen
// from outside is refused before anybody is locked; the rest when the driver, or what it left, shows it. One thread.
#pragma once
#include "checkpoint/process/tree.h"

enum refusal {
#define REFUSAL(constant, name, status) REFUSE_##constant,
#include "checkpoint/process/refusal.def"
#undef REFUSAL
};
// The last error, with the driver's `code` if there is one, and the status that goes with the name.
__attribute__((format(printf, 3, 4))) enum vg_status refuse(enum refusal refusal, int code, const char *format, ...);

// By what the kernel says, before the driver is asked: it would wait for a process that is stopped. SELF, ENDED,
// TRACED, STOPPED, LEASE, IPC.
enum vg_status refusal_by_kernel(const struct tree *tree);
// Of these the ones that concern the driver alone, and not CRIU: SELF, ENDED, STOPPED, LEASE, IPC.
enum vg_status refusal_by_kernel_of_gpu(const struct tree *tree);
// By what the driver says, before anybody is locked. LEFT, FAILED, MIG, DEVICE_CHILD.
enum vg_status refusal_by_driver(const struct tree *tree);
// The last error of a step of the driver, which is `status`: where the driver said that it does not support it, the
// refusal that this means at that step, MPS of a lock and MANAGED of a checkpoint; else `status` as it is.
enum vg_status refusal_of_step(enum refusal refusal, enum vg_status status);
// What is left of /dev/nvidia* in processes that are off the GPU: no image can bring it back. DEVICE, DEVICE_CHILD.
enum vg_status refusal_by_leftovers(const struct tree *tree);
// Whether the driver's library is in it. False also where that cannot be seen.
bool refusal_maps_cuda(pid_t pid);

// ---- this room only -------------------------------------------------------------------------------

// It shares device memory with others by means that show in its mappings. LEASE, IPC.
enum vg_status refusal_shared(const struct tree_process *process);
// It does not use CUDA, and has devices open. DEVICE_CHILD, DEVICE.
enum vg_status refusal_open_device(const struct tree *tree, const struct tree_process *process);
