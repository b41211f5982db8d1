// Processes with all their descendants, as found at one moment. One thread.
#pragma once
#include "virgate/process.h"
#include "virgate/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_process {
	pid_t pid, parent;
	size_t root;		 // number of the root that it descends from
	uint64_t start_time;	 // clock ticks since boot; if it differs, the pid belongs to another process now
	struct vg_process *cuda; // NULL: it does not use CUDA
	char command[16];
};

struct tree {
	struct tree_process *processes; // the roots first, and each process after its parent
	size_t count;
	size_t root_count;
	size_t cuda_count;
	int *holds; // descriptors of locks, see hold.h
	size_t hold_count;
};

// Finds the processes. A root that descends from another one of `roots` is not counted as a root. INVALID (a thread's
// id), NOT_FOUND, DENIED (another user's), NO_MEMORY, SYSTEM. tree_find_cuda() finds out which use CUDA.
enum vg_status tree_find(const pid_t *roots, size_t count, struct tree *ret_tree);
// The same without descendants: each process is a root.
enum vg_status tree_find_alone(const pid_t *pids, size_t count, struct tree *ret_tree);
// Asks the driver which processes use CUDA. NO_DRIVER, UNSUPPORTED, NO_MEMORY.
enum vg_status tree_find_cuda(struct tree *tree);
void tree_free(struct tree *tree);
// Returns whether the pid still belongs to the same process.
bool tree_is_same(const struct tree_process *process);
void tree_signal(const struct tree *tree, int signal);
// Kills all processes, and waits until they have ended.
void tree_end(const struct tree *tree);
// STATE: a process of the tree has ended, or a new one has started.
enum vg_status tree_unchanged(const struct tree *tree);
