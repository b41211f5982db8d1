// The control daemons of MPS, for the files of mps.h. Main thread only.
#pragma once
#include "daemon/node.h"

// The control daemon of a GPU and a user.
struct server {
	struct source source; // pidfd; -1: it does not run
	struct server *next;
	size_t device;
	uid_t uid;
	pid_t pid;
	bool listens;
	bool was_ended; // by this daemon
	bool is_looked_up; // a thread looks up its user
	bool is_adopted;   // an earlier daemon started it
	uint64_t started_ns, needed_ns, next_start_ns;
	unsigned int failures; // in a row
	char pipe[PATH_MAX];   // the directory, for its clients
};

// Returns NULL if none was needed yet.
struct server *mps_find_server(size_t device, uid_t uid);
// Returns NULL if there is no memory.
struct server *mps_add_server(const struct node *node, size_t device, uid_t uid);
unsigned int mps_count_programs(const struct vgpu *vgpu);
// Counts the programs of the user on the GPU in the mode mps.
unsigned int mps_count_clients(const struct node *node, size_t device, uid_t uid);
