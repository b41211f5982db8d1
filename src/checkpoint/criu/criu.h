// Runs the installed CRIU, which dumps and restores the host memory and kernel state of processes. CRIU runs without
// plugins and without its system-wide settings. Any thread.
#pragma once
#include "virgate/status.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct criu {
	char path[PATH_MAX];
	char version[32]; // version as CRIU prints it, such as "4.2"
};

// Returns whether CRIU runs as a user other than root, and so needs the option --unprivileged.
bool criu_is_limited(void);
// Returns the oldest version of CRIU that works with this kernel, as a number like those of version_number().
unsigned criu_least(void);
// Finds CRIU. NOT_FOUND (not installed, or the program is not CRIU), UNSUPPORTED (too old for this kernel), SYSTEM.
enum vg_status criu_find(struct criu *ret_criu);

// A file that processes have open or mapped, and its new path.
struct criu_move {
	const char *from, *to;
};

struct criu_work {
	const char *directory; // directory for CRIU's image files
	bool stream;	       // pass the files through a socket in `directory`, see streamer.h
	bool shell_job, tcp_established, file_locks;
	bool terminal; // CRIU uses the terminal of this process, see tool_run()
	// New paths of files, for a restore with `stream`. CRIU does not check whether these files still have the modes
	// that they had at the dump.
	const struct criu_move *moves;
	size_t move_count;
	const int *keep; // descriptors that stay open in CRIU
	size_t keep_count;
	// Called about ten times a second while CRIU runs. Returns false to kill CRIU. For a dump it must always return
	// true, because CRIU would leave its code in the processes. May be NULL.
	bool (*tick)(void *user);
	void *user;
};
// Dumps the process tree of `root`, and leaves all its processes stopped. If CRIU fails, the processes continue.
// SYSTEM: the error has the first error of CRIU's log.
enum vg_status criu_dump(const struct criu *criu, const struct criu_work *work, pid_t root);
// Restores the tree, and leaves all its processes stopped (SIGSTOP). SYSTEM: CRIU failed, and no restored process is
// left; the error has the first error of CRIU's log. STATE: `tick` returned false.
enum vg_status criu_restore(const struct criu *criu, const struct criu_work *work);

// ---- this directory only -------------------------------------------------------------------------------

// Parses the output of `criu --version`. Returns the version like version_number(), and in ret_text as printed. Returns
// 0 if the program is not CRIU.
unsigned criu_version(const char *output, char *ret_text, size_t capacity);
// Finds the reason for a failure in the log at `path`. Returns false if the log has none.
bool criu_reason(const char *path, char *ret_text, size_t capacity);
