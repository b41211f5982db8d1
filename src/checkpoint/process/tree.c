#include "checkpoint/process/tree.h"

#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/process/proc.h"
#include "checkpoint/process/refusal.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum vg_status add_process(struct tree *tree, pid_t pid, const struct proc_status *lines, size_t root)
{
	struct tree_process *grown = realloc(tree->processes, (tree->count + 1) * sizeof *grown);

	if (!grown)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for a list of %zu processes", tree->count + 1);
	tree->processes = grown;
	grown[tree->count] = (struct tree_process){.pid = pid, .parent = lines->parent, .root = root};
	memcpy(grown[tree->count].command, lines->command, sizeof lines->command);
	int r = vg_process_start_time(pid, &grown[tree->count].start_time);
	if (r == 0)
		tree->count++;
	// The process has ended since its pid was read: leave it out.
	return VG_OK;
}

static const struct tree_process *find_process(const struct tree *tree, pid_t pid)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].pid == pid)
			return &tree->processes[i];
	return NULL;
}

// Scans all processes, and adds those whose parent is in the tree. Call it until it adds no process: the pid of a child
// may be lower than its parent's.
static enum vg_status add_children(struct tree *tree, bool *ret_grown)
{
	DIR *directory = opendir("/proc");
	enum vg_status status = VG_OK;
	struct dirent *entry;

	*ret_grown = false;
	if (!directory)
		return vg_fail(VG_SYSTEM, errno, "/proc: %s", strerror(errno));
	while (!status && (entry = readdir(directory))) {
		struct proc_status lines;
		pid_t pid = (pid_t)atoi(entry->d_name);
		if (pid <= 0 || find_process(tree, pid) || proc_status_read(pid, &lines))
			continue;
		const struct tree_process *parent = find_process(tree, lines.parent);
		if (!parent)
			continue;
		size_t before = tree->count;
		status = add_process(tree, pid, &lines, parent->root);
		*ret_grown |= tree->count > before;
	}
	closedir(directory);
	return status;
}

static enum vg_status check_root(pid_t root, const struct proc_status *lines)
{
	if (lines->group != root)
		return refuse(REFUSE_THREAD, 0, "%d is a thread of process %d: name the process", (int)root,
			      (int)lines->group);
	if (proc_is_kernel(root))
		return refuse(REFUSE_KERNEL, 0, "process %d (%s) is a thread of the kernel's: name a program's process",
			      (int)root, lines->command);
	if (geteuid() != 0 && lines->user != geteuid())
		return refuse(REFUSE_USER, 0, "process %d (%s) is user %u's: only its owner or root may", (int)root,
			      lines->command, (unsigned)lines->user);
	return VG_OK;
}

// Returns whether a process with this status descends from one of `roots`.
static bool is_descendant(struct proc_status lines, const pid_t *roots, size_t count)
{
	for (pid_t pid = lines.parent; pid > 0; pid = lines.parent) {
		for (size_t i = 0; i < count; i++)
			if (roots[i] == pid)
				return true;
		if (proc_status_read(pid, &lines))
			return false;
	}
	return false;
}

// Adds the process `root` unless it is in the tree or descends from one of `roots`.
static enum vg_status add_root(struct tree *tree, pid_t root, const pid_t *roots, size_t count)
{
	struct proc_status lines;

	if (root < 1)
		return vg_fail(VG_INVALID, 0, "pid %d: a process has a positive one", (int)root);
	int r = proc_status_read(root, &lines);
	if (r)
		return vg_fail(r == -ENOENT ? VG_NOT_FOUND : VG_SYSTEM, -r, "process %d: %s", (int)root,
			       r == -ENOENT ? "there is none" : strerror(-r));
	enum vg_status status = check_root(root, &lines);
	if (status || find_process(tree, root) || is_descendant(lines, roots, count))
		return status;
	status = add_process(tree, root, &lines, tree->root_count);
	if (status)
		return status;
	if (tree->count == tree->root_count)
		return vg_fail(VG_NOT_FOUND, 0, "process %d has ended", (int)root);
	tree->root_count = tree->count;
	return VG_OK;
}

static enum vg_status add_roots(struct tree *tree, const pid_t *roots, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		enum vg_status status = add_root(tree, roots[i], roots, count);
		if (status)
			return status;
	}
	return VG_OK;
}

static enum vg_status add_descendants(struct tree *tree)
{
	bool grown = true;

	while (grown) {
		enum vg_status status = add_children(tree, &grown);
		if (status)
			return status;
	}
	return VG_OK;
}

enum vg_status tree_find(const pid_t *roots, size_t count, struct tree *ret_tree)
{
	*ret_tree = (struct tree){0};
	enum vg_status status = add_roots(ret_tree, roots, count);
	if (!status)
		status = add_descendants(ret_tree);
	if (status)
		tree_free(ret_tree);
	return status;
}

enum vg_status tree_find_alone(const pid_t *pids, size_t count, struct tree *ret_tree)
{
	enum vg_status status = VG_OK;

	*ret_tree = (struct tree){0};
	for (size_t i = 0; i < count && status == VG_OK; i++)
		status = add_root(ret_tree, pids[i], NULL, 0);
	if (status)
		tree_free(ret_tree);
	return status;
}

enum vg_status tree_find_cuda(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++) {
		struct tree_process *process = &tree->processes[i];
		struct vg_process *cuda;
		pid_t thread;
		enum vg_status status = vg_process_open(process->pid, &cuda);
		if (status)
			return status;
		if (vg_process_restore_thread(cuda, &thread) == VG_OK) {
			process->cuda = cuda;
			tree->cuda_count++;
		} else {
			vg_process_destroy(cuda);
		}
	}
	return VG_OK;
}

void tree_free(struct tree *tree)
{
	for (size_t i = 0; i < tree->count; i++)
		vg_process_destroy(tree->processes[i].cuda);
	for (size_t i = 0; i < tree->hold_count; i++)
		close(tree->holds[i]);
	free(tree->holds);
	free(tree->processes);
	*tree = (struct tree){0};
}

bool tree_is_same(const struct tree_process *process)
{
	uint64_t start;

	return vg_process_start_time(process->pid, &start) == 0 && vg_start_time_same(start, process->start_time);
}

void tree_signal(const struct tree *tree, int signal)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree_is_same(&tree->processes[i]))
			kill(tree->processes[i].pid, signal);
}

void tree_end(const struct tree *tree)
{
	tree_signal(tree, SIGKILL);
	for (size_t i = 0; i < tree->count; i++)
		while (!vg_process_is_dead(tree->processes[i].pid, tree->processes[i].start_time))
			usleep(1000);
}

// Compares a tree with one that was found later. STATE: they differ.
static enum vg_status compare_trees(const struct tree *tree, const struct tree *now)
{
	for (size_t i = 0; i < tree->count; i++) {
		const struct tree_process *process = &tree->processes[i];
		if (!tree_is_same(process))
			return vg_fail(VG_STATE, 0, "process %d (%s) ended meanwhile", (int)process->pid,
				       process->command);
		if (process->cuda && !refusal_maps_cuda(process->pid))
			return vg_fail(VG_STATE, 0, "process %d (%s) has become another program meanwhile",
				       (int)process->pid, process->command);
	}
	for (size_t i = 0; i < now->count; i++)
		if (!find_process(tree, now->processes[i].pid))
			return vg_fail(VG_STATE, 0, "process %d (%s) was started meanwhile: try again",
				       (int)now->processes[i].pid, now->processes[i].command);
	return VG_OK;
}

enum vg_status tree_unchanged(const struct tree *tree)
{
	pid_t *roots = calloc(tree->root_count, sizeof *roots);
	struct tree now;

	if (!roots)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", tree->root_count);
	for (size_t i = 0; i < tree->root_count; i++)
		roots[i] = tree->processes[i].pid;
	enum vg_status status = tree_find(roots, tree->root_count, &now);
	free(roots);
	if (status)
		return status;
	status = compare_trees(tree, &now);
	tree_free(&now);
	return status;
}
