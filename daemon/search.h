// Searches /proc, in a thread, for processes that use a vGPU or are said to. Main thread only.
#pragma once
#include "daemon/node.h"

// What a search found, for modules that use it. All are called in the main thread.
struct search_results {
	// A process uses the vGPU without being its tenant yet.
	int (*add_launcher)(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, bool has_mapped);
	// The process of a tenant was searched for; pid 0: it does not exist.
	void (*prove_tenant)(struct node *node, struct tenant *tenant, pid_t pid, uint64_t start_time, bool has_mapped);
	void (*ended)(struct node *node);
};
void search_set_results(const struct search_results *results);

// Begins a search for the processes of tenants with PROOF_WANTED, unless a search is in progress.
void search_begin(struct node *node, struct vgpu *vgpu);
// Returns whether a search that began after the last launcher or tenant went has ended. Begins one otherwise.
bool search_knows_heirs(struct node *node, struct vgpu *vgpu);
// Ignores the results of the search in progress and of earlier ones, which do not suffice any more.
void search_restart(struct vgpu *vgpu);
// Ignores the results of the search in progress.
void search_forget(struct vgpu *vgpu);
