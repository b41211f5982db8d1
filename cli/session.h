// Opens a session: the settings of a verb, and its connection to the daemon (struct vg_node). Also reads options that
// several verbs have. One thread.
#pragma once
#include "settings/config.h"
#include "verb.h"
#include "virgate/vgpu.h"

struct session {
	struct config config;
	struct vg_node *node;
	char simulate[1024];		     // specification of the simulated GPU; "": a real GPU
	struct vg_device_mode *device_modes; // set by use_configured_modes(); session_close() frees the array
};

// Reads the settings, for verbs that need no daemon. Returns 0, or the verb's exit code after a message.
int session_read_settings(struct session *session, const struct arguments *arguments);
// Reads the settings, and prepares the connection to the daemon: the first request connects. Returns 0, or the verb's
// exit code after a message.
int session_open(struct session *session, const struct arguments *arguments);
// Works like session_open(), but requests do not start a daemon.
int session_open_quietly(struct session *session, const struct arguments *arguments);
void session_close(struct session *session);
// The work of a verb in a session. Returns the verb's exit code.
typedef int (*session_work)(struct vg_node *node, const struct arguments *arguments);
// Opens a session, calls `work`, and closes the session. Returns the exit code of `work`, or of opening if that failed.
int run_in_session(const struct arguments *arguments, session_work work);

// These functions read the options --memory and --share; the value is 0 if the option is missing. They return 0, or the
// verb's usage exit code after a message.
int read_memory(const struct arguments *arguments, uint64_t *ret_bytes);
int read_share(const struct arguments *arguments, unsigned *ret_percent);

// Where a secret is: in a file, or in the kernel's keyring. The member that is not used is NULL.
struct key {
	const char *file, *ring;
};
// Reads --key or --key-ring. If both are missing, uses the key file in `config`, which owns the string. `which` names
// the key in the message about a missing key. Returns 0, or the verb's usage exit code after a message.
int read_key(const struct arguments *arguments, const struct config *config, const char *which, struct key *ret_key);

// Prints the library's last error. Returns the exit code that the verb uses for failures.
int fail_with_last_error(const struct arguments *arguments);
