// Watches the GPUs for errors after which they cannot be used, in a thread of its own. The functions are for the main
// thread. Source: nvmlEventSetWait; https://docs.nvidia.com/deploy/xid-errors/
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

enum { WATCH_IGNORED = 64 };

struct watch;
// Called when a GPU has failed. `reason` is the end of a sentence: "Xid 79 was reported".
typedef void watch_failed(void *user, const char *uuid, const char *reason);

struct watch_options {
	uint64_t ignored[WATCH_IGNORED]; // numbers of Xid errors to ignore, because programs cause them
	size_t ignored_count;
};

// Starts to watch all GPUs. The loop calls `failed` for each GPU that fails. The caller keeps `options`. On failure,
// returns NULL and sets *ret_problem to the reason, which is valid until the next call into libvirgate.
struct watch *watch_start(struct loop *loop, const struct watch_options *options, watch_failed *failed, void *user,
			  const char **ret_problem);
// Accepts NULL.
void watch_stop(struct watch *watch);
