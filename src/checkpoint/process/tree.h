// Finds processes with all their descendants, at one moment. One thread.
#pragma once
#include "virgate/process.h"
#include "virgate/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_process {
	pid_t pid, parent;
	size_t root;		 // index of the root from which the process descends
	uint64_t start_time;	 // clock ticks since boot; if it differs, the pid belongs to another process now
	struct vg_process *cuda; // NULL: the process does not use CUDA
	char command[16];
};

struct tree {
	struct tree_process *processes; // the roots first; every parent before its children
	size_t count;
	size_t root_count;
	size_t cuda_count;
	int *holds; // descriptors that lock the processes, see hold.h
	size_t hold_count;
};

// Finds processes with their descendants. A root that descends from another of `roots` is not counted as a root.
// tree_find_cuda() then finds out which processes use CUDA. INVALID (the id of a thread), NOT_FOUND, DENIED (another
// user's process), NO_MEMORY, SYSTEM.
enum vg_status tree_find(const pid_t *roots, size_t count, struct tree *ret_tree);
// Finds processes without their descendants, each as a root. Errors: see tree_find().
enum vg_status tree_find_alone(const pid_t *pids, size_t count, struct tree *ret_tree);
// Asks the driver which processes use CUDA. NO_DRIVER, UNSUPPORTED, NO_MEMORY.
enum vg_status tree_find_cuda(struct tree *tree);
void tree_free(struct tree *tree);
// Returns whether the pid still belongs to the same process.
bool tree_is_same(const struct tree_process *process);
void tree_signal(const struct tree *tree, int signal);
// Kills all processes, and waits until they have ended.
void tree_end(const struct tree *tree);
// Checks that the tree is unchanged. STATE: a process of the tree has ended, or a new one has started.
enum vg_status tree_unchanged(const struct tree *tree);
