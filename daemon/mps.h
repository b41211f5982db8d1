// NVIDIA's MPS for vGPUs of the mode mps: a control daemon (nvidia-cuda-mps-control -f) for each GPU and user, which
// this daemon starts, watches and ends. It has the user's id, and directories that nobody else may open. One thread.
#pragma once
#include "daemon/request.h"

// Before a vGPU is made or entered. NULL, or the refusal: the machine has no MPS.
json_t *mps_admit(const struct request *request, const struct vgpu *vgpu);
// Whether a program may run in the vGPU, which need not be listed yet, now: NULL, or the refusal, because programs of
// another mode run on the GPU, or its MPS takes no more.
json_t *mps_check(const struct request *request, const struct vgpu *vgpu);
// Before a program may run in the vGPU, which need not be listed yet: as mps_check(); in the mode mps starts the control
// daemon, and waits until it listens (answer_later()). NULL, or the refusal. *ret_ready is false if the answer comes
// later.
json_t *mps_enter(const struct request *request, const struct vgpu *vgpu, bool *ret_ready);
// The directory for CUDA_MPS_PIPE_DIRECTORY of the vGPU's programs, for them to open; NULL: it has the mode time.
const char *mps_pipe_directory(const struct node *node, const struct vgpu *vgpu);
// Why programs of the vGPU get errors, or NULL.
const char *mps_problem(const struct vgpu *vgpu);
// Starts each control daemon that programs need and that does not run, and ends each that no program needs. *deadline is
// set to the time of the next check if that is earlier.
void mps_keep(struct node *node, uint64_t now, uint64_t *deadline);
// Takes over the control daemons that an earlier daemon left. After the state was loaded.
void mps_adopt(struct node *node);
// Ends those that no program needs. At the daemon's end.
void mps_end(struct node *node);
