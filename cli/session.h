// What the verbs share: settings, the node, values from the command line. One thread.
#pragma once
#include "config.h"
#include "verb.h"
#include "virgate/vgpu.h"

struct session {
	struct config config;
	struct vg_node *node;
	char simulate[1024]; // "": a real GPU
	struct vg_device_mode *device_modes; // terms.c
};

// Reads the settings, for verbs that need no node. 0, or the verb's exit code after words on stderr.
int session_settle(struct session *session, const struct arguments *arguments);
// Reads the settings and finds the node. 0, or the verb's exit code after words on stderr.
int session_open(struct session *session, const struct arguments *arguments);
// The same for a node whose daemon is not to be started.
int session_open_quietly(struct session *session, const struct arguments *arguments);
void session_close(struct session *session);
// Opens a session for the work and closes it after. The work's exit code, or that of opening.
int in_session(const struct arguments *arguments, int (*work)(struct vg_node *node, const struct arguments *arguments));

// The options --memory, --share and --device, checked; 0 and NULL where nobody gave them.
// 0, or the verb's usage exit code after words on stderr.
int read_memory(const struct arguments *arguments, uint64_t *ret_bytes);
int read_share(const struct arguments *arguments, unsigned *ret_percent);

// Where a secret lies: one of the two.
struct key {
	const char *file, *ring;
};
// --key or --key-ring, or the settings' key file, which lives as long as they. Without any, `which` is what is asked.
// 0, or the verb's usage exit code after words on stderr.
int read_key(const struct arguments *arguments, const struct config *config, const char *which, struct key *ret_key);

// The verb's exit code for a status of the library, after its words on stderr.
int fail_with_last_error(const struct arguments *arguments);
