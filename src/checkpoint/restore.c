// Restores processes. Creates no process before all checks have passed.
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/status.h"
#include "checkpoint/criu/criu.h"
#include "checkpoint/criu/image_tree.h"
#include "checkpoint/criu/remap.h"
#include "checkpoint/image/image.h"
#include "checkpoint/image/inspect.h"
#include "checkpoint/machine/fit.h"
#include "checkpoint/machine/gpu_map.h"
#include "checkpoint/memories.h"
#include "checkpoint/process/gpu_state.h"
#include "checkpoint/process/hold.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/restore.h"
#include "checkpoint/tenant/tenant.h"
#include "core/object.h"
#include "virgate/checkpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAUSE_US = 20000 };
#define PLACES_NS UINT64_C(3000000000)

struct restore {
	struct vg_restore_options options;
	struct phase phase;
	const struct restore_gate *gate; // called before the first process is created; may be NULL
	struct tree tree;		 // at first the tree of the image, later the tree of the restored processes
	struct criu criu;
	struct gpu_map map;
	// `node`: the connection to the daemon; NULL if there are no tenants. `own_node`: the same if this restore
	// opened the connection and must close it, else NULL.
	struct vg_node *node, *own_node;
	struct tenants tenants;
	struct memories memories; // the device memory of the processes
	uint64_t later_bytes;	  // bytes of the image that are read after CRIU has restored the processes
	json_t *description;
	struct image_dir image;
	pid_t *roots;
	size_t root_count, made; // made: number of roots that CRIU has restored
	struct vg_checkpoint_result result;
};

static enum vg_status read_roots(struct restore *restore)
{
	const json_t *roots = json_object_get(restore->description, "roots");
	bool sound = json_array_size(roots) > 0;
	json_t *root;
	size_t i;

	restore->root_count = json_array_size(roots);
	restore->roots = calloc(restore->root_count + 1, sizeof *restore->roots);
	if (!restore->roots)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu processes", restore->root_count);
	json_array_foreach((json_t *)roots, i, root) {
		restore->roots[i] = (pid_t)json_integer_value(root);
		sound &= restore->roots[i] > 0;
	}
	restore->result.pid = restore->roots[0];
	restore->result.roots = restore->root_count;
	return sound ? VG_OK : vg_fail(VG_INTEGRITY, 0, "%s/" IMAGE_DESCRIPTION " names no root", restore->options.dir);
}

// Finds the vGPUs that the restored processes will belong to. A later step checks that the files exist which the
// processes had open. The ledgers of these vGPUs are among them, so the vGPUs must be known before.
static enum vg_status find_vgpus(struct restore *restore)
{
	const struct vg_restore_options *options = &restore->options;
	struct tenant_way way = {.gpus = restore->map.pairs,
				 .gpu_count = restore->map.count,
				 .vgpus = options->vgpus,
				 .vgpu_count = options->vgpu_count};
	enum vg_status status = VG_OK;

	if (!json_array_size(json_object_get(restore->description, "tenants")))
		return !options->vgpu_count
			       ? VG_OK
			       : vg_fail(VG_INVALID, 0, "no process of the image ran inside a vGPU: none is replaced");
	restore->node = options->node;
	if (!restore->node)
		status = vg_node_open(NULL, &restore->own_node);
	if (restore->own_node)
		restore->node = restore->own_node;
	way.node = restore->node;
	return status ? status : tenants_read_at(restore->description, &way, &restore->tenants);
}

static enum vg_status take_slots_and_pids(struct restore *restore)
{
	enum vg_status status = fit_pids(restore->description);

	return status ? status : tenants_reserve(&restore->tenants);
}

// Waits until the pids and slots of the processes are free. In a migration within this machine, the sender's processes
// have them. An ended process keeps its pid until its parent has reaped it, and its slot until the driver has freed its
// memory.
static enum vg_status wait_for_slots_and_pids(struct restore *restore)
{
	uint64_t end = vg_clock_monotonic_ns() + PLACES_NS;
	enum vg_status status;

	while (((status = take_slots_and_pids(restore)) == VG_EXISTS || status == VG_INSUFFICIENT) &&
	       vg_clock_monotonic_ns() < end) {
		phase_tick(&restore->phase);
		usleep(PAUSE_US);
	}
	return status;
}

static enum vg_status read_image(struct restore *restore)
{
	const struct restore_gate *gate = restore->gate;
	struct image_files files = {0};

	enum vg_status status = gate && gate->image ? image_open_again(gate->image, &restore->image)
						    : image_open(restore->options.dir, &restore->image);
	if (status)
		return status;
	status = image_check_owner(&restore->image);
	if (status)
		return status;
	status = inspect_read(&restore->image, &restore->description, &files);
	if (status)
		return status;
	restore->result.bytes = files.stored;
	restore->result.raw_bytes = files.raw;
	status = memories_read(&restore->memories, &restore->image, &files, restore->description);
	for (size_t i = 0; i < files.count && restore->memories.know_window; i++)
		restore->later_bytes += files.files[i].is_pack ? files.files[i].bytes : 0;
	image_files_free(&files);
	return status;
}

// Checks that the image fits this machine.
static enum vg_status check_machine(struct restore *restore)
{
	const struct vg_restore_options *options = &restore->options;

	fit_kernel_is_older(restore->description, restore->result.warning, sizeof restore->result.warning);
	enum vg_status status = gpu_map_make(restore->description, options->gpus, options->gpu_count, &restore->map);
	if (status)
		return status;
	status = find_vgpus(restore);
	if (status)
		return status;
	status = fit_restore(restore->description, &restore->criu, restore->map.pairs, restore->map.count,
			     &restore->tenants);
	restore->memories.image = &restore->image;
	restore->memories.tenants = &restore->tenants;
	restore->memories.prefill = restore->gate ? restore->gate->prefill : NULL;
	return status ? status : memories_check(&restore->memories, &restore->result.device_bytes);
}

static enum vg_status verify_image(struct restore *restore)
{
	const struct restore_gate *gate = restore->gate;
	bool is_late = gate && gate->is_late;

	enum vg_status status = phase_begin(&restore->phase, VG_CHECKPOINT_VERIFY);
	if (status)
		return status;
	status = criu_find(&restore->criu);
	if (status)
		return status;
	status = read_image(restore);
	if (status)
		return status;
	status = check_machine(restore);
	if (status)
		return status;
	if (!is_late)
		status = take_slots_and_pids(restore);
	if (status)
		return status;
	if (!(gate && gate->image))
		status = image_check(&restore->image, restore->description, &restore->phase, NULL);
	if (status)
		return status;
	status = read_roots(restore);
	if (status)
		return status;
	if (gate && gate->pass)
		status = gate->pass(gate->user, &restore->phase);
	if (status)
		return status;
	return is_late ? wait_for_slots_and_pids(restore) : VG_OK;
}

static bool is_known(const struct tree *tree, json_int_t pid)
{
	for (size_t i = 0; i < tree->count; i++)
		if (tree->processes[i].cuda && tree->processes[i].pid == pid)
			return true;
	return false;
}

// Finds out which processes use CUDA. The driver must know each process that used CUDA when it was dumped. Otherwise
// the next CUDA call of that process would never return. If no process used CUDA, no driver is needed.
static enum vg_status find_cuda(struct restore *restore)
{
	enum vg_status status = VG_OK;
	bool asked = false;
	json_t *process;
	size_t i;

	json_array_foreach(json_object_get(restore->description, "processes"), i, process) {
		json_int_t pid = json_integer_value(json_object_get(process, "pid"));
		if (!json_is_true(json_object_get(process, "cuda")))
			continue;
		if (!asked)
			status = tree_find_cuda(&restore->tree);
		asked = true;
		if (status)
			return status;
		if (!is_known(&restore->tree, pid))
			return vg_fail(VG_STATE, 0,
				       "the driver does not know process %d, which used CUDA: nothing of it can go "
				       "back onto a GPU",
				       (int)pid);
	}
	return VG_OK;
}

static enum vg_status continue_processes(struct restore *restore)
{
	enum vg_status status = tenants_hand_over(&restore->tenants);

	if (status)
		return status;
	if (restore->node)
		tenants_register(&restore->tenants, restore->node);
	tree_signal(&restore->tree, SIGCONT);
	// Call this only after SIGCONT, because a stopped process does not answer the driver.
	status = find_cuda(restore);
	restore->result.processes = restore->tree.count;
	restore->result.cuda_processes = restore->tree.cuda_count;
	return status;
}

// Returns whether the root leads a session. If not, it belonged to the session of the program that started it, and
// joins this process's session.
static bool leads_session(const json_t *description, pid_t root)
{
	json_t *process;
	size_t i;

	json_array_foreach(json_object_get(description, "processes"), i, process)
		if (json_integer_value(json_object_get(process, "pid")) == root)
			return json_integer_value(json_object_get(process, "session")) == root;
	return false;
}

// Returns whether a restored process that had a terminal gets the terminal of this process. Restored processes must
// then become children of this process, see tool_start().
static bool gives_terminal(void)
{
	int reaps = 0;

	return isatty(STDIN_FILENO) && prctl(PR_GET_CHILD_SUBREAPER, &reaps) == 0 && reaps;
}

// Returns whether CRIU may continue. Interrupting CRIU is harmless here, because no restored process has run yet.
static bool may_continue(void *user)
{
	struct phase *phase = user;

	phase_tick(phase);
	return !phase->stop;
}

static enum vg_status make_trees(struct restore *restore, struct criu_work work)
{
	enum vg_status status = VG_OK;
	bool made;

	for (size_t i = 0; i < restore->root_count && status == VG_OK; i++) {
		work.shell_job = !leads_session(restore->description, restore->roots[i]);
		work.terminal = work.shell_job && gives_terminal();
		status = image_restore_tree(&restore->image, restore->description, (unsigned)i, &restore->criu, &work,
					    &restore->phase.bytes, &made);
		restore->made += made;
	}
	return status;
}

static enum vg_status make_processes(struct restore *restore)
{
	struct criu_work work = {
		.tick = may_continue, .user = &restore->phase, .move_count = restore->tenants.vgpu_count};
	struct remaps remaps;

	enum vg_status status = phase_begin(&restore->phase, VG_CHECKPOINT_HOST_IN);
	if (status)
		return status;
	restore->phase.total = restore->result.raw_bytes - restore->later_bytes;
	struct criu_move *moves = calloc(work.move_count + 1, sizeof *moves);
	if (!moves)
		return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu vGPUs", work.move_count);
	for (size_t i = 0; i < work.move_count; i++)
		moves[i] = (struct criu_move){restore->tenants.vgpus[i].old_path, restore->tenants.vgpus[i].path};
	work.moves = moves;
	// Keep the hard links of deleted files (criu/remap.h), so that the image can be restored again.
	remaps_keep(restore->description, &remaps);
	status = make_trees(restore, work);
	remaps_put_back(&remaps);
	free(moves);
	if (status)
		return status;
	status = tree_find(restore->roots, restore->root_count, &restore->tree);
	if (status)
		return status;
	status = hold_tree(&restore->tree, 0);
	if (status)
		return status;
	status = memories_begin(&restore->memories, &restore->phase);
	return status ? status : continue_processes(restore);
}

static enum vg_status move_to_gpu(struct restore *restore)
{
	phase_go_on(&restore->phase, VG_CHECKPOINT_DEVICE_IN);
	enum vg_status status = gpu_restore(&restore->tree, restore->map.pairs, restore->map.count, &restore->phase);
	if (status)
		return status;
	phase_go_on(&restore->phase, VG_CHECKPOINT_UNLOCK);
	status = gpu_unlock(&restore->tree);
	if (status || !memories_late_bytes(&restore->memories))
		return status;
	phase_go_on(&restore->phase, VG_CHECKPOINT_DEVICE_IN);
	restore->phase.total = memories_late_bytes(&restore->memories);
	return memories_finish(&restore->memories, &restore->phase);
}

// Kills the living processes of the tree with the children that they have created since the tree was found.
static void end_children(const struct tree *tree)
{
	struct tree now;

	for (size_t i = 0; i < tree->count; i++)
		if (!vg_process_is_dead(tree->processes[i].pid, tree->processes[i].start_time) &&
		    tree_find(&tree->processes[i].pid, 1, &now) == VG_OK) {
			tree_end(&now);
			tree_free(&now);
		}
}

// Kills the restored processes, because they cannot continue. The image still exists.
static enum vg_status end_processes(struct restore *restore, enum vg_status status)
{
	const struct vg_error *error = vg_last_error();
	const char *phase = vg_checkpoint_phase_name(restore->phase.now);
	uint64_t need = error->need, have = error->have;
	int code = error->code;
	char text[512];

	snprintf(text, sizeof text, "%s", error->text);
	if (restore->made && !restore->tree.count)
		(void)tree_find(restore->roots, restore->made, &restore->tree);
	end_children(&restore->tree);
	tree_end(&restore->tree); // kills the processes, which also frees their pids
	memories_abort(&restore->memories);
	status = vg_fail(status, code, "step %s: %s%s", phase, text,
			 restore->made ? "; the processes were ended, and the image is as it was" : "");
	vg_fail_amounts(need, have);
	tenants_undo(&restore->tenants);
	return status;
}

static void report_roots(const struct restore *restore)
{
	size_t count = restore->options.root_capacity < restore->root_count ? restore->options.root_capacity
									    : restore->root_count;

	if (restore->options.roots && count)
		memcpy(restore->options.roots, restore->roots, count * sizeof *restore->roots);
}

static enum vg_status run_steps(struct restore *restore)
{
	enum vg_status status = verify_image(restore);
	if (status)
		return status;
	status = make_processes(restore);
	return status ? status : move_to_gpu(restore);
}

enum vg_status restore_run(const struct vg_restore_options *options, const struct restore_gate *gate,
			   struct vg_checkpoint_result *ret_result)
{
	struct restore restore = {.options = *options, .gate = gate, .image = {.fd = -1}};

	restore.phase = (struct phase){
		.progress = restore.options.progress, .user = restore.options.user, .result = &restore.result};
	enum vg_status status = run_steps(&restore);
	if (status)
		status = end_processes(&restore, status);
	else
		report_roots(&restore);
	phase_end(&restore.phase);
	if (ret_result)
		*ret_result = restore.result;
	json_decref(restore.description);
	memories_free(&restore.memories);
	free(restore.roots);
	image_close(&restore.image);
	tenants_free(&restore.tenants);
	vg_node_close(restore.own_node);
	tree_free(&restore.tree);
	return status;
}

enum vg_status vg_checkpoint_restore(const struct vg_restore_options *options, struct vg_checkpoint_result *ret_result)
{
	VG_ENTRY();
	struct vg_restore_options known;

	CORE_NEEDED(options);
	CORE_OPTIONS(known, options);
	CORE_NEEDED(known.dir);
	return restore_run(&known, NULL, ret_result);
}
