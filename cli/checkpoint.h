// What dump, restore and migrate share. One thread.
#pragma once
#include <limits.h>

#include "session.h"
#include "virgate/checkpoint.h"

// Reads the settings, chooses the driver, removes what killed restores left in TMPDIR, and has SIGINT, SIGTERM and
// SIGHUP heeded between the steps. 0, or the verb's exit code after words on stderr.
int checkpoint_settle(struct session *session, const struct arguments *arguments);
// A whole number from 1 up to `most`; 0: not given. 0, or the verb's usage exit code after words on stderr.
int checkpoint_number(const struct arguments *arguments, const char *name, long most, long *ret_number);

// A folder of its own for an image that does not stay, in TMPDIR; ret_image: where in it. 0, or the verb's exit code
// after words on stderr.
int checkpoint_scratch(const struct arguments *arguments, char ret_image[PATH_MAX]);
// Removes the folder, if there is no image in it any more. "": there is none.
void checkpoint_scratch_end(const char *image);

// A directory for an image that comes in and does not stay. It is locked while this process lives: of one that was
// killed, checkpoint_settle() removes it, whichever verb comes next.
struct arrival {
	char image[PATH_MAX]; // where in it; "": there is none
	int lock;
};
// 0, or the verb's exit code after words on stderr.
int checkpoint_arrival(const struct arguments *arguments, struct arrival *ret_arrival);
void checkpoint_arrival_end(struct arrival *arrival);

// The signal that somebody sent meanwhile, or 0.
int checkpoint_interrupted(void);

// A progress function: a line on a terminal, none elsewhere.
int checkpoint_show(void *user, const struct vg_checkpoint_progress *progress);
// Takes the line away, before anything else is said.
void checkpoint_hide(void);
// For people or programs, as they asked.
void checkpoint_print(const struct arguments *arguments, const struct vg_checkpoint_result *result, const char *what);
// The verb's exit code after the library's last error.
int checkpoint_fail(const struct arguments *arguments);
