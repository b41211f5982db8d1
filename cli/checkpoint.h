// Functions that several verbs for checkpoints use. One thread.
#pragma once
#include <limits.h>

#include "session.h"
#include "virgate/checkpoint.h"

// Reads the settings, chooses the driver, prepares the progress line (progress.h), and removes directories in TMPDIR
// that killed restores left. From here on, SIGINT, SIGTERM and SIGHUP are only recorded. Returns 0, or the verb's exit
// code after a message.
int checkpoint_open_session(struct session *session, const struct arguments *arguments);
// Reads an option that is a whole number from 1 to `most`; *ret_number is 0 if it is missing. Returns 0, or the verb's
// usage exit code after a message.
int checkpoint_read_number(const struct arguments *arguments, const char *name, long most, long *ret_number);

// Creates a directory in TMPDIR for a temporary image. ret_image is a path for the image in this directory. Returns 0,
// or the verb's exit code after a message.
int checkpoint_create_scratch(const struct arguments *arguments, char ret_image[PATH_MAX]);
// Removes the directory of checkpoint_create_scratch() unless an image is still in it. Does nothing if `image` is "".
void checkpoint_remove_scratch(const char *image);

// A directory for a temporary image that a restore receives. This process locks it. If the process is killed, a later
// checkpoint_open_session() of any verb removes the directory.
struct arrival {
	char image[PATH_MAX]; // path of the image in the temporary directory; "": no directory was created
	int lock;
};
// Creates and locks the directory for an image. Returns 0, or the verb's exit code after a message.
int checkpoint_create_arrival(const struct arguments *arguments, struct arrival *ret_arrival);
void checkpoint_remove_arrival(struct arrival *arrival);

// Returns the signal that checkpoint_open_session() recorded, or 0.
int checkpoint_caught_signal(void);

// Shows the phase in the progress line. Has the type of a progress function (virgate/checkpoint.h). Returns the
// recorded signal, which cancels the work.
int checkpoint_show_progress(void *user, const struct vg_checkpoint_progress *progress);
// Prints the result as text, or as JSON with --json. `what` is a verb such as "dumped".
void checkpoint_print_result(const struct arguments *arguments, const struct vg_checkpoint_result *result,
			     const char *what);
// Prints the library's last error. Returns the verb's exit code.
int checkpoint_fail(const struct arguments *arguments);
