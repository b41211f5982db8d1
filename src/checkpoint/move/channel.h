// Opens connections for images: to a unix socket of the same user or root, or through ssh to `virgate restore` on
// another machine. One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "virgate/process.h"

struct channel {
	int fd;		// descriptor for reading and writing
	pid_t ssh;	// pid of ssh; 0: no ssh
	int complaints; // descriptor of ssh's standard error; -1: no ssh
};

// Connects to `to`. For "unix:PATH", a process must listen there. For "ssh:[USER@]HOST", starts ssh, or the program in
// VIRGATE_SSH, without prompts. On HOST, `gpus` (the map of GPUs) and `simulate` (the specification of a simulated GPU,
// or "") become options of `virgate restore`. With "unix:PATH", `gpus` must be empty, and `simulate` has no effect.
// INVALID, NOT_FOUND (no listener, or no ssh), DENIED (another user listens), SYSTEM.
enum vg_status channel_open(const char *to, const struct vg_process_gpu_pair *gpus, size_t gpu_count,
			    const char *simulate, struct channel *ret_channel);
// Listens at `path` for one connection of this user or root. The socket must not exist before, and is removed
// afterwards. EXISTS, STATE (the progress function asked to stop), SYSTEM.
enum vg_status channel_accept(const char *path, struct phase *phase, int *ret_fd);
// Returns the last message of ssh, or "".
const char *channel_complaint(const struct channel *channel, char *text, size_t capacity);
// Closes the connection and waits until ssh has exited.
void channel_close(struct channel *channel);
