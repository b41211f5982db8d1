// Runs NVIDIA's MPS for vGPUs with the sharing mode mps. For each GPU and user, this daemon starts, watches and ends a
// control daemon (nvidia-cuda-mps-control -f). All GPUs of a job together have one control daemon, since a program can
// be a client of one server only. The control daemon runs as that user, in directories that no other user may open.
// Main thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

// Checks that the machine has MPS, before a vGPU is created or entered. Returns NULL or a refusal.
json_t *mps_admit(const struct vgpu *vgpu);
// Checks whether a program may run now in the vGPU, which need not be in the list yet. Returns NULL, or a refusal if
// programs of another mode run on the GPU, or its MPS server has too many clients.
json_t *mps_check(const struct node *node, const struct vgpu *vgpu);
// Checks as mps_check() does. In the mode mps, also requests the start of the control daemon. *ret_ready is false if
// the request must wait until the control daemon listens. For a vGPU of a job that lacks further GPUs, only checks.
json_t *mps_enter(struct node *node, const struct vgpu *vgpu, bool *ret_ready);
// Returns CUDA_MPS_PIPE_DIRECTORY for the vGPU's programs; NULL: the vGPU has the mode time.
const char *mps_pipe_directory(const struct vgpu *vgpu);
// Returns why programs of the vGPU cannot use MPS now, as the end of a sentence; NULL: they can.
const char *mps_problem(const struct vgpu *vgpu);
// Starts each control daemon that programs need and that is not running, and ends each that no program needs. Lowers
// *deadline to the time of the next check.
void mps_keep(struct node *node, uint64_t now, uint64_t *deadline);
// Takes over the control daemons that an earlier daemon left. Call it after load_state().
void mps_adopt(struct node *node);
// Ends the control daemons that no program needs. Call it when the daemon ends.
void mps_end(struct node *node);
