// CRIU, the user's own, as a program: the host side of an image. It is started with an empty folder for its plugins,
// without the system's settings. Any thread.
#pragma once
#include "virgate/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct criu {
	char path[PATH_MAX];
	char version[32]; // as it says: "4.2"
};

// It runs as somebody else than root, and has to be told (--unprivileged) that it may do less.
bool criu_is_limited(void);
// The least version that serves this kernel, as version_number() has it.
unsigned criu_least(void);
// NOT_FOUND (there is none, or it is another program), UNSUPPORTED (too old for this kernel), SYSTEM.
enum vg_status criu_find(struct criu *ret_criu);

// A file that processes have open or mapped, and that is at another path now.
struct criu_move {
	const char *from, *to;
};

struct criu_work {
	const char *folder; // of the image's files
	bool stream;	    // they go through its socket there: see streamer.h
	bool shell_job, tcp_established, file_locks;
	bool terminal;		       // CRIU has ours: tool_run
	const struct criu_move *moves; // for a restore that streams; their modes are not compared either
	size_t move_count;
	const int *keep; // descriptors that CRIU has open, too, as long as it runs
	size_t keep_count;
	bool (*tick)(void *user); // as tool_run() has it; a dump must not be killed half way
	void *user;
};
// The tree of `root` is stopped then, all of it. After a failure CRIU has let it run on. SYSTEM, with the log's first
// error.
enum vg_status criu_dump(const struct criu *criu, const struct criu_work *work, pid_t root);
// It stands still then (SIGSTOP), all of it. SYSTEM likewise, and nobody of it is left. STATE: `tick` did not wish it
// any more.
enum vg_status criu_restore(const struct criu *criu, const struct criu_work *work);

// ---- this room only -------------------------------------------------------------------------------

// What `criu --version` has said, as version_number() has it, and in ret_text as it is. 0: no CRIU says that.
unsigned criu_version(const char *output, char *ret_text, size_t capacity);
// What the log at `path` says of a failure. False: nothing.
bool criu_reason(const char *path, char *ret_text, size_t capacity);
