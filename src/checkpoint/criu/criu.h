// Runs the installed CRIU, which dumps and restores the host side of processes: with an empty directory for plugins,
// and without the system's settings. Any thread.
#pragma once
#include "virgate/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct criu {
	char path[PATH_MAX];
	char version[32]; // as it prints it: "4.2"
};

// Returns whether CRIU runs as another user than root, and so needs --unprivileged.
bool criu_is_limited(void);
// Returns the least version that works with this kernel, as version_number() returns it.
unsigned criu_least(void);
// Finds CRIU. NOT_FOUND (not installed, or another program), UNSUPPORTED (too old for this kernel), SYSTEM.
enum vg_status criu_find(struct criu *ret_criu);

// The new path of a file that processes have open or mapped.
struct criu_move {
	const char *from, *to;
};

struct criu_work {
	const char *directory; // for the files of the image
	bool stream;	       // through a socket in `directory`, see streamer.h
	bool shell_job, tcp_established, file_locks;
	bool terminal;		       // CRIU uses our terminal, see tool_run()
	const struct criu_move *moves; // for a restore that streams; modes of these files are not compared
	size_t move_count;
	const int *keep; // descriptors that stay open in CRIU
	size_t keep_count;
	bool (*tick)(void *user); // see tool_run(); NULL for a dump, which must not be killed halfway
	void *user;
};
// Dumps the tree of `root`, and leaves all its processes stopped. After a failure they run on. SYSTEM, with the first
// error of CRIU's log.
enum vg_status criu_dump(const struct criu *criu, const struct criu_work *work, pid_t root);
// Restores the tree, and leaves all its processes stopped (SIGSTOP). SYSTEM as above; no process is left then. STATE:
// `tick` returned false.
enum vg_status criu_restore(const struct criu *criu, const struct criu_work *work);

// ---- this room only -------------------------------------------------------------------------------

// Parses the output of `criu --version`: returns it as version_number() does, and in ret_text as it is printed. 0: not
// CRIU.
unsigned criu_version(const char *output, char *ret_text, size_t capacity);
// Finds the reason for a failure in the log at `path`. False: the log has none.
bool criu_reason(const char *path, char *ret_text, size_t capacity);
