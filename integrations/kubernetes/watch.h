// Watches the GPUs for errors after which they cannot be used, on a thread of its own. The functions are for the main
// thread. Source: nvmlEventSetWait; https://docs.nvidia.com/deploy/xid-errors/
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

enum { WATCH_IGNORED = 64 };

struct watch;
// `reason` is the end of a sentence: "Xid 79 was reported".
typedef void watch_failed(void *user, const char *uuid, const char *reason);

struct watch_options {
	uint64_t ignored[WATCH_IGNORED]; // numbers of Xids that programs cause
	size_t ignored_count;
};

// Starts to watch all GPUs, and calls `failed` in the loop. Returns NULL after a failure, and *ret_problem is why:
// valid until the next call into libvirgate. `options` must stay valid.
struct watch *watch_start(struct loop *loop, const struct watch_options *options, watch_failed *failed, void *user,
			  const char **ret_problem);
// Accepts NULL.
void watch_stop(struct watch *watch);
