// Mounts Virgate's files into a container, and lets the container's user open them. One thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct cdi_state;

// Mounts the vGPU's ledger and the daemon's socket into the container, in whose mount namespace this process is.
// `directory`: the daemon's runtime directory. Returns false after a message on standard error.
bool cdi_mount(const struct cdi_state *state, const char *directory, const char *vgpu);
// Gives the user access to the ledger if another user owns it. `user` is an id in this process's user namespace.
// Returns false after a message.
bool cdi_permit(const char *directory, const char *vgpu, uid_t user);
// Checks that the image's C library can load Virgate's library. Returns false after a message.
bool cdi_check_library(const struct cdi_state *state);
