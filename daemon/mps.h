// NVIDIA's MPS for vGPUs of the mode mps: a control daemon (nvidia-cuda-mps-control -f) for each GPU and user, which
// this daemon starts, watches and ends. It runs as that user, in directories that no other user may open. Main
// thread only.
#pragma once
#include <jansson.h>

#include "daemon/node.h"

// Checks that the machine has MPS, before a vGPU is created or entered. Returns NULL or a refusal.
json_t *mps_admit(const struct vgpu *vgpu);
// Checks whether a program may run now in the vGPU, which need not be in the list yet. Returns NULL, or a refusal if
// programs of another mode run on the GPU, or its MPS server has too many clients.
json_t *mps_check(const struct node *node, const struct vgpu *vgpu);
// The same; in the mode mps also lets the control daemon be started. *ret_ready is false if the request must wait until
// it listens.
json_t *mps_enter(const struct node *node, const struct vgpu *vgpu, bool *ret_ready);
// Returns the directory for CUDA_MPS_PIPE_DIRECTORY of the vGPU's programs; NULL: it has the mode time.
const char *mps_pipe_directory(const struct vgpu *vgpu);
// Returns why programs of the vGPU get errors, or NULL.
const char *mps_problem(const struct vgpu *vgpu);
// Starts each control daemon that programs need and that does not run, and ends each that no program needs. Lowers
// *deadline to the time of the next check.
void mps_keep(struct node *node, uint64_t now, uint64_t *deadline);
// Takes over the control daemons that an earlier daemon left. To be called after load_state().
void mps_adopt(struct node *node);
// Ends the control daemons that no program needs. To be called when the daemon ends.
void mps_end(struct node *node);
