// The records of MPS control daemons, which the files of mps.h use. Main thread only.
#pragma once
#include "daemon/node.h"

// The MPS control daemon of one GPU and one user.
struct server {
	struct source source; // pidfd of the control daemon; -1: it does not run
	struct server *next;
	size_t device;
	uid_t uid;
	pid_t pid;
	bool listens;
	bool was_ended;	   // this daemon ended the control daemon
	bool is_looked_up; // a thread is looking up the control daemon's user
	bool is_adopted;   // an earlier daemon started the control daemon
	uint64_t started_ns, needed_ns, next_start_ns;
	unsigned int failures; // number of failures in a row
	char pipe[PATH_MAX];   // the directory through which the control daemon's clients connect
};

// Returns the control daemon's record; NULL: none was needed yet.
struct server *mps_find_server(size_t device, uid_t uid);
// Adds the record of a control daemon. Returns NULL if there is no memory.
struct server *mps_add_server(const struct node *node, size_t device, uid_t uid);
unsigned int mps_count_programs(const struct vgpu *vgpu);
// Counts the programs of the user on the GPU in the mode mps.
unsigned int mps_count_clients(const struct node *node, size_t device, uid_t uid);
