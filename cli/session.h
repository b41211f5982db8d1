// The settings and the node of a verb, and options that several verbs have. One thread.
#pragma once
#include "config.h"
#include "verb.h"
#include "virgate/vgpu.h"

struct session {
	struct config config;
	struct vg_node *node;
	char simulate[1024]; // "": a real GPU
	struct vg_device_mode *device_modes; // owned; set by use_configured_modes()
};

// Reads the settings, for verbs that need no node. Returns 0, or the verb's exit code after a message.
int session_read_settings(struct session *session, const struct arguments *arguments);
// Reads the settings and opens the node. Returns 0, or the verb's exit code after a message.
int session_open(struct session *session, const struct arguments *arguments);
// The same, but requests do not start a daemon.
int session_open_quietly(struct session *session, const struct arguments *arguments);
void session_close(struct session *session);
// Opens a session, calls `work`, and closes the session. Returns the exit code of `work`, or of opening.
typedef int (*session_work)(struct vg_node *node, const struct arguments *arguments);
int run_in_session(const struct arguments *arguments, session_work work);

// Read the options --memory and --share; the value is 0 if the option is missing. Return 0, or the verb's usage exit
// code after a message.
int read_memory(const struct arguments *arguments, uint64_t *ret_bytes);
int read_share(const struct arguments *arguments, unsigned *ret_percent);

// Where a secret is: in a file, or in the keyring of the kernel. The other one is NULL.
struct key {
	const char *file, *ring;
};
// Reads --key or --key-ring, else the key file of `config`, which owns the string. The message for a missing key names
// it as `which`. Returns 0, or the verb's usage exit code after a message.
int read_key(const struct arguments *arguments, const struct config *config, const char *which, struct key *ret_key);

// Prints the library's last error. Returns the verb's exit code for failures.
int fail_with_last_error(const struct arguments *arguments);
