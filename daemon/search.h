// Searches /proc, in a thread of its own, for processes that use a vGPU, and for processes whose pids are in slots of
// its ledger. The functions are called in the main thread only.
#pragma once
#include "daemon/node.h"

// Functions that receive the results of a search. They are called in the main thread.
struct search_results {
	// Called for a process that uses the vGPU without being its tenant yet.
	int (*add_launcher)(struct node *node, struct vgpu *vgpu, pid_t pid, uint64_t start_time, bool has_mapped);
	// Called for each tenant that was searched for; pid 0: its process does not exist.
	void (*prove_tenant)(struct node *node, struct tenant *tenant, pid_t pid, uint64_t start_time, bool has_mapped);
	void (*ended)(struct node *node);
};
void search_set_results(const struct search_results *results);

// Begins a search for the processes of tenants with PROOF_WANTED, unless a search is in progress.
void search_begin(struct node *node, struct vgpu *vgpu);
// Returns whether the daemon knows all processes that inherited the environment of the vGPU from `virgate run` (in
// names: heirs). It knows them after a search that began after the last launcher or tenant ended. Otherwise begins a
// search.
bool search_knows_heirs(struct node *node, struct vgpu *vgpu);
// Ignores the results of earlier searches and of the one in progress, because they are outdated.
void search_restart(struct vgpu *vgpu);
// Ignores the results of the search in progress.
void search_forget(struct vgpu *vgpu);
