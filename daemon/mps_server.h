// The records of MPS control daemons, which the files of mps.h use. Main thread only.
#pragma once
#include "daemon/node.h"

// The record of the MPS control daemon of one user for one GPU, or for several GPUs that a job uses. No two records of
// a user have a GPU in common.
struct server {
	struct source source; // pidfd of the control daemon; -1: it does not run
	struct server *next;
	uint64_t devices; // the GPUs of the server, as bits
	uid_t uid;
	pid_t pid;
	bool listens;
	bool was_ended;	   // this daemon ended the control daemon
	bool is_looked_up; // a thread is looking up the control daemon's user
	bool is_adopted;   // an earlier daemon started the control daemon
	uint64_t started_ns, needed_ns, next_start_ns;
	uint64_t kill_ns; // when the control daemon gets SIGKILL if it ignores SIGTERM; 0: it got no SIGTERM, or both
	uint64_t awaited_until_ns; // a request waits until the control daemon listens, at most until then; 0: none does
	unsigned int failures;	   // number of failures in a row
	char title[96];		   // "GPU 0", or "GPUs 0, 1"
	char directory[96];	   // the control daemon's directory in the runtime directory
	char pipe[PATH_MAX];	   // the directory through which the control daemon's clients connect
};

// Returns the record of the control daemon that serves the GPU, or NULL if there is no such record.
struct server *mps_find_server(size_t device, uid_t uid);
// Returns the first record after `previous` (NULL: from the start) that is of the user and has at least one of the
// GPUs. NULL: there is no further one.
struct server *mps_next_server(const struct server *previous, uint64_t devices, uid_t uid);
// Adds the record of a control daemon. Returns NULL if there is no memory.
struct server *mps_add_server(const struct node *node, uint64_t devices, uid_t uid);
// Ends a control daemon that has no clients, so that another control daemon can serve its GPUs. Returns false if it
// still runs. Otherwise frees its record, and returns true.
bool mps_retire_server(struct node *node, struct server *server);
// Notes that a request waits until the control daemon listens. Requests for other GPUs then leave the server alone.
void mps_await_server(struct server *server, uint64_t now);
// Frees the record. Call it if the control daemon does not run, or shall continue to run when this daemon has ended.
void mps_free_server(struct node *node, struct server *server);
// Returns whether the control daemon listens. Its files belong to the user, so the daemon only checks that they exist.
bool mps_is_listening(const struct node *node, const struct server *server);
// Returns whether programs use the server now, or wait to use it when its control daemon runs.
bool mps_has_clients(const struct node *node, const struct server *server);
unsigned int mps_count_programs(const struct vgpu *vgpu);
// Counts the programs of the user on the GPU in the mode mps.
unsigned int mps_count_clients(const struct node *node, size_t device, uid_t uid);
