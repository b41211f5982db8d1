// Where an image goes to or comes from: a unix socket of the same user's or root's, or virgate restore on another
// machine through ssh. One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "virgate/process.h"

struct channel {
	int fd;		// both ways
	pid_t ssh;	// 0: none
	int complaints; // what ssh writes to stderr; -1: nothing does
};

// "unix:PATH": somebody listens there. "ssh:[USER@]HOST": starts ssh, or what VIRGATE_SSH names, without questions; the
// map and `simulate`, the specification of a simulated GPU or "", go with it. INVALID, NOT_FOUND (nobody listens; no ssh), DENIED (another user listens), SYSTEM.
enum vg_status channel_open(const char *to, const struct vg_process_gpu_pair *gpus, size_t gpu_count,
			    const char *simulate, struct channel *ret_channel);
// Waits at `path` for one connection of this user's or root's; what was there must be gone, and is gone afterwards.
// EXISTS, STATE (stopped), SYSTEM.
enum vg_status channel_accept(const char *path, struct phase *phase, int *ret_fd);
// The last that ssh has said, or "".
const char *channel_complaint(const struct channel *channel, char *text, size_t capacity);
// Waits for ssh's end.
void channel_close(struct channel *channel);
