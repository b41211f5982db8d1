// Processes and all that descend from them, as they are when they are looked at. One thread.
#pragma once
#include "virgate/process.h"
#include "virgate/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tree_process {
	pid_t pid, parent;
	size_t root;		 // which of the tree's it descends from
	uint64_t start_time;	 // clock ticks since boot: a pid is this process only while this agrees
	struct vg_process *cuda; // NULL: it does not use CUDA
	char command[16];
};

struct tree {
	struct tree_process *processes; // the roots first, and everybody behind his parent
	size_t count;
	size_t root_count;
	size_t cuda_count;
	int *holds; // descriptors: see hold.h
	size_t hold_count;
};

// Who descends from another one of `roots` is no root. INVALID (a thread's id: says whose), NOT_FOUND, DENIED (another
// user's), NO_MEMORY, SYSTEM. What uses CUDA is found by tree_find_cuda().
enum vg_status tree_find(const pid_t *roots, size_t count, struct tree *ret_tree);
// The same without those who descend from them: each is a root.
enum vg_status tree_find_alone(const pid_t *pids, size_t count, struct tree *ret_tree);
// Asks the driver. Processes without CUDA are as good as others. NO_DRIVER, UNSUPPORTED, NO_MEMORY.
enum vg_status tree_find_cuda(struct tree *tree);
void tree_free(struct tree *tree);
// Whether the process is still the one that was found.
bool tree_is_same(const struct tree_process *process);
void tree_signal(const struct tree *tree, int signal);
// Ends all of it, and waits until it is gone.
void tree_end(const struct tree *tree);
// STATE: a process has come or gone meanwhile.
enum vg_status tree_unchanged(const struct tree *tree);
