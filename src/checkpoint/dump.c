// Dumps processes. If a step fails before the image is complete, all earlier steps are rolled back.
#include "base/descriptor.h"
#include "base/hint.h"
#include "base/status.h"
#include "checkpoint/criu/criu.h"
#include "checkpoint/criu/image_tree.h"
#include "checkpoint/criu/remap.h"
#include "checkpoint/device/out.h"
#include "checkpoint/dump.h"
#include "checkpoint/image/directory.h"
#include "checkpoint/image/image.h"
#include "checkpoint/machine/describe.h"
#include "checkpoint/machine/fit.h"
#include "checkpoint/notice.h"
#include "checkpoint/process/gpu_state.h"
#include "checkpoint/process/hold.h"
#include "checkpoint/process/phase.h"
#include "checkpoint/process/refusal.h"
#include "checkpoint/process/tree.h"
#include "checkpoint/suspend/park.h"
#include "checkpoint/tenant/tenant.h"
#include "core/object.h"
#include "virgate/checkpoint.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// GATE_MOST_MS: the longest time for which a daemon opens a gate
enum { LOCK_MS = 10000, GATE_MOST_MS = 60000, MOST_BASES = 64 };

struct dump {
	struct vg_dump_options options;
	struct phase phase;
	struct tree tree;
	struct tenants tenants;
	struct criu criu;
	struct image_draft draft;
	struct remaps remaps;
	struct device_bases bases;
	struct tenants evicted; // tenants of evictable vGPUs, whose pagers were asked to park their memory
	struct parking parking;
	struct device_out *device; // writes the parked memory into the image; NULL: no memory is parked
	// True: remaps_set_aside() (criu/remap.h) may have given links of earlier images temporary names.
	bool aside;
	json_t *description;
	uint64_t host_bytes;	      // the most that CRIU will write
	const struct dump_gate *gate; // called when the image is complete; may be NULL
	bool stands;		      // true: the image is complete
	bool touched;		      // true: the driver or CRIU has changed a process
	struct vg_checkpoint_result result;
};

enum vg_status dump_find_tree(const struct vg_dump_options *options, struct tree *ret_tree)
{
	struct vg_node *own = NULL;
	pid_t *pids = NULL;
	size_t count;

	if (!options->vgpu)
		return tree_find(&options->pid, 1, ret_tree);
	if (options->pid)
		return vg_fail(VG_INVALID, 0, "both a process and a vGPU are named: name one of them");
	enum vg_status status = options->node ? VG_OK : vg_node_open(NULL, &own);
	if (status)
		goto finish;
	status = tenant_pids(own ? own : options->node, options->vgpu, &pids, &count);
	if (status)
		goto finish;
	status = tree_find(pids, count, ret_tree);
finish:
	free(pids);
	vg_node_close(own);
	return status;
}

// Finds out which processes use CUDA. With the option `cpu_only`, it is no error if the driver is missing or too old.
static enum vg_status find_cuda(struct dump *dump)
{
	enum vg_status status = tree_find_cuda(&dump->tree);

	return dump->options.cpu_only && (status == VG_NO_DRIVER || status == VG_UNSUPPORTED) ? VG_OK : status;
}

static enum vg_status find_processes(struct dump *dump)
{
	enum vg_status status = phase_begin(&dump->phase, VG_CHECKPOINT_FIND);
	if (status)
		return status;
	status = criu_find(&dump->criu);
	if (status)
		return status;
	status = dump_find_tree(&dump->options, &dump->tree);
	if (status)
		return status;
	status = hold_tree(&dump->tree, 0);
	if (status)
		return status;
	status = refusal_by_kernel(&dump->tree);
	if (status)
		return status;
	status = find_cuda(dump);
	if (status)
		return status;
	dump->result.processes = dump->tree.count;
	dump->result.cuda_processes = dump->tree.cuda_count;
	dump->result.pid = dump->tree.processes[0].pid;
	dump->result.roots = dump->tree.root_count;
	return VG_OK;
}

static enum vg_status check_processes(struct dump *dump)
{
	const struct vg_dump_options *options = &dump->options;

	if (!options->cpu_only && dump->tree.cuda_count == 0)
		return refuse(REFUSE_NO_CUDA, 0,
			      "process %d (%s) does not use CUDA, nor does a child of it: CRIU alone can dump it "
			      "(--cpu-only)",
			      (int)dump->result.pid, dump->tree.processes[0].command);
	enum vg_status status = tenants_find(&dump->tree, &dump->tenants);
	if (status)
		return status;
	status = tenants_refuse_jobs(&dump->tenants);
	if (status)
		return status;
	status = tenants_refuse_deep(&dump->tenants);
	if (status)
		return status;
	status = refusal_by_driver(&dump->tree);
	if (status)
		return status;
	if (options->vgpu)
		status = tenants_check_roots(&dump->tenants, &dump->tree, options->vgpu);
	if (status)
		return status;
	return tenants_refuse_shared(&dump->tenants);
}

static enum vg_status begin_image(struct dump *dump)
{
	const struct vg_dump_options *options = &dump->options;

	enum vg_status status = device_bases_open(options->bases, options->base_count, &dump->bases);
	if (status)
		return status;
	if (dump->gate && dump->gate->base && dump->gate->base->dir.fd >= 0)
		status = device_bases_add(&dump->bases, dump->gate->base);
	if (status)
		return status;
	status = image_begin(options->dir, &dump->draft);
	dump->draft.compression = options->compression;
	dump->draft.level = options->compression_level;
	dump->draft.threads = options->threads;
	dump->draft.progress = &dump->phase.bytes;
	return status;
}

unsigned dump_timeout(const struct vg_dump_options *options)
{
	return options->lock_timeout_ms ? options->lock_timeout_ms : LOCK_MS;
}

void dump_open_gates(const struct tenants *tenants, unsigned milliseconds)
{
	tenants_open_gates(tenants, milliseconds < GATE_MOST_MS ? milliseconds : GATE_MOST_MS);
}

// Starts writing the memory in the files into the image. Threads do that during all later steps.
static enum vg_status write_device(void *user, const struct parking *parking)
{
	struct device_source *sources = NULL;
	struct dump *dump = user;

	enum vg_status status = parking_open(parking, &sources);
	if (status == VG_OK)
		status = device_out_start(&dump->draft, sources, parking->count, &dump->bases,
					  dump->gate ? dump->gate->packed : NULL, &dump->device);
	free(sources);
	return status;
}

// Checks the disk before memory moves to the host. With bases, it is unknown yet how much the image has in common with
// them. take_off_gpu() checks again, when all sizes are known.
static enum vg_status check_disk(const struct dump *dump)
{
	uint64_t need = dump->bases.count ? 0 : parking_estimate(&dump->evicted), memory;

	return fit_disk(dump->draft.directory, need, dump->options.compression, &memory);
}

// Parks device memory, and opens the gates meanwhile. Parking waits until work on the GPU has ended. That work may wait
// for a launch that a closed gate would delay. lock_tree() opens the gates for the same reason.
static enum vg_status park_memory(struct dump *dump)
{
	const struct parking_wish wish = {
		.drain_ms = dump_timeout(&dump->options), .limit = "--timeout", .read = write_device, .user = dump};

	if (!parking_concerns(&dump->tenants))
		return VG_OK;
	enum vg_status status = phase_begin(&dump->phase, VG_CHECKPOINT_EVICT);
	if (status)
		return status;
	status = tenants_find(&dump->tree, &dump->evicted);
	if (status)
		return status;
	status = check_disk(dump);
	if (status)
		return status;
	dump->touched = true;
	dump_open_gates(&dump->tenants, wish.drain_ms);
	status = parking_begin(&dump->evicted, &wish, &dump->phase, &dump->parking);
	tenants_open_gates(&dump->tenants, 0);
	return status;
}

static enum vg_status lock_tree(struct dump *dump)
{
	unsigned timeout_ms = dump_timeout(&dump->options);

	dump_open_gates(&dump->tenants, timeout_ms);
	enum vg_status status = gpu_lock(&dump->tree, timeout_ms, &dump->phase);
	tenants_open_gates(&dump->tenants, 0);
	return refusal_of_step(REFUSE_MPS, status);
}

// Returns how many bytes of parked memory will still go to the disk, at most. The rest is there already. With bases,
// the new image may use their packs, so the size of its own packs is unknown yet: returns 0.
static uint64_t unwritten_bytes(const struct dump *dump)
{
	if (!dump->device || dump->bases.count)
		return 0;
	uint64_t stored = device_out_stored(dump->device);
	// A hostile process may have changed the size of its file meanwhile.
	return stored < dump->parking.bytes ? dump->parking.bytes - stored : 0;
}

// Describes what is on the GPU, checks that it fits, and then has the driver move it to the host.
static enum vg_status take_off_gpu(struct dump *dump)
{
	enum vg_status status = describe_dump(&dump->tree, &dump->criu, &dump->description);

	if (status)
		return status;
	status = fit_dump(&dump->tree, dump->description, dump->draft.directory, dump->options.compression,
			  unwritten_bytes(dump), &dump->host_bytes);
	if (status)
		return status;
	status = phase_begin(&dump->phase, VG_CHECKPOINT_LOCK);
	if (status)
		return status;
	dump->touched = true;
	status = lock_tree(dump);
	if (status)
		return status;
	status = phase_begin(&dump->phase, VG_CHECKPOINT_DEVICE_OUT);
	if (status)
		return status;
	status = refusal_of_step(REFUSE_MANAGED, gpu_checkpoint(&dump->tree, &dump->phase));
	if (status)
		return status;
	status = tree_unchanged(&dump->tree);
	return status ? status : refusal_by_leftovers(&dump->tree);
}

// Reports the progress while CRIU runs. Always returns true: interrupting CRIU would leave CRIU's code in the
// processes.
static bool report_progress(void *user)
{
	phase_tick(user);
	return true;
}

// Returns whether all parked processes can take their memory from a window (pager/window.h) after a restore.
static bool know_window(const struct parking *parking)
{
	for (size_t i = 0; i < parking->count; i++)
		if (!parking->list[i].knows_window)
			return false;
	return true;
}

static enum vg_status finish_device(struct dump *dump)
{
	struct device_out *device = dump->device;
	struct device_written written = {0};

	dump->device = NULL;
	enum vg_status status = device ? device_out_finish(device, dump->description, &dump->phase, &written) : VG_OK;
	if (device && status == VG_OK &&
	    json_object_set_new(json_object_get(dump->description, "device"), "window",
				json_boolean(know_window(&dump->parking))))
		status = vg_fail(VG_NO_MEMORY, 0, "no memory for an image's description");
	dump->result.device_bytes = written.bytes;
	dump->result.linked_bytes = written.linked_bytes;
	dump->result.copied_bytes = written.copied_bytes;
	return status;
}

static enum vg_status write_trees(struct dump *dump)
{
	const struct vg_dump_options *options = &dump->options;
	struct criu_work work = {.tcp_established = options->tcp_established,
				 .file_locks = options->file_locks,
				 .keep = dump->tree.holds,
				 .keep_count = dump->tree.hold_count,
				 .tick = report_progress,
				 .user = &dump->phase};

	enum vg_status status = phase_begin(&dump->phase, VG_CHECKPOINT_HOST_OUT);
	if (status)
		return status;
	dump->phase.total = dump->host_bytes;
	status = tenants_stop(&dump->tree, options->vgpu, &dump->tenants);
	if (status)
		return status;
	dump->aside = true;
	remaps_set_aside(&dump->tree, &dump->remaps);
	for (size_t i = 0; i < dump->tree.root_count; i++) {
		pid_t root = dump->tree.processes[i].pid;
		work.shell_job = options->shell_job || getsid(root) != root;
		status = image_dump_tree(&dump->draft, (unsigned)i, &dump->criu, &work, root);
		if (status)
			return status;
	}
	// All processes are stopped now. Refuse processes that started after the tree was found: they would be in the
	// image, but not in its description.
	return tree_unchanged(&dump->tree);
}

static enum vg_status write_image(struct dump *dump)
{
	enum vg_status status = write_trees(dump);
	if (status)
		return status;
	describe_stopped(&dump->tree, dump->description);
	tenants_ask_terms(&dump->tenants);
	status = tenants_describe(&dump->tenants, dump->description);
	if (status)
		return status;
	status = finish_device(dump);
	if (status)
		return status;
	status = phase_begin(&dump->phase, VG_CHECKPOINT_COMMIT);
	if (status)
		return status;
	status = image_commit(&dump->draft, dump->description);
	if (status)
		return status;
	dump->stands = true;
	const struct image_dir dir = image_draft_dir(&dump->draft);
	return dump->gate ? dump->gate->pass(dump->gate->user, &dump->phase, &dir) : VG_OK;
}

// Lets the processes continue after a failure, or with the option to leave them running. CRIU may also have stopped
// processes that are not in `dump->tree`, because they were created later.
static enum vg_status continue_processes(struct dump *dump)
{
	struct tree now;

	tenants_restore_slots(&dump->tenants);
	tree_signal(&dump->tree, SIGCONT);
	for (size_t i = 0; i < dump->tree.root_count; i++)
		if (tree_find(&dump->tree.processes[i].pid, 1, &now) == VG_OK) {
			tree_signal(&now, SIGCONT);
			tree_free(&now);
		}
	enum vg_status status = gpu_roll_back(&dump->tree);
	// Let the pagers continue only after gpu_roll_back() has unlocked the processes: before, the driver blocks the
	// pagers' calls.
	parking_release(&dump->evicted);
	return status;
}

// Tells the parents of the roots about the dump. Sends one message for all roots of a parent.
static void notify_parents(const struct dump *dump)
{
	size_t count = dump->tree.root_count;
	pid_t *pids = calloc(count + 1, sizeof *pids);

	for (size_t i = 0; i < count && pids; i++) {
		pid_t parent = dump->tree.processes[i].parent;
		size_t siblings = 0;
		bool is_done = false;
		for (size_t before = 0; before < i && !is_done; before++)
			is_done = dump->tree.processes[before].parent == parent;
		for (size_t k = i; k < count && !is_done; k++)
			if (dump->tree.processes[k].parent == parent)
				pids[siblings++] = dump->tree.processes[k].pid;
		if (!is_done)
			notice_send(parent, pids, siblings, dump->gate ? "" : dump->draft.final);
	}
	free(pids);
}

// Ends the processes, or lets them continue, after the image is complete.
static enum vg_status end_processes(struct dump *dump)
{
	phase_go_on(&dump->phase, VG_CHECKPOINT_END);
	tenants_report_dump(&dump->tenants, dump->gate ? NULL : dump->draft.final);
	if (dump->options.leave_running) {
		char text[512];
		enum vg_status status = continue_processes(dump);
		int code = vg_last_error()->code;
		snprintf(text, sizeof text, "%s", vg_last_error()->text);
		return status ? vg_fail(status, code, "the image stands at %s, but %s", dump->draft.final, text)
			      : VG_OK;
	}
	notify_parents(dump);
	tree_end(&dump->tree);
	return VG_OK;
}

static const char *describe_outcome(const struct tree *tree)
{
	size_t ended = 0;

	for (size_t i = 0; i < tree->count; i++)
		ended += vg_process_is_dead(tree->processes[i].pid, tree->processes[i].start_time);
	return ended == tree->count ? "the process has ended meanwhile"
	       : ended		    ? "a process has ended meanwhile, and the others run on as before"
				    : "the processes run on as before";
}

// Rolls the dump back. The last error stays that of the failed step, and the outcome of the rollback is added to it.
static enum vg_status roll_back(struct dump *dump, enum vg_status status)
{
	const struct vg_error *error = vg_last_error();
	const char *phase = vg_checkpoint_phase_name(dump->phase.now);
	uint64_t need = error->need, have = error->have;
	char text[512], problem[256];
	int code = error->code;

	snprintf(text, sizeof text, "%s", error->text);
	device_out_abort(dump->device);
	dump->device = NULL;
	if (dump->stands)
		image_remove(dump->draft.final);
	image_finish(&dump->draft);
	if (dump->aside)
		remaps_remove(&dump->tree);
	if (!dump->touched) {
		status = vg_fail(status, code, "%s", text);
		vg_fail_amounts(need, have);
		return status;
	}
	if (continue_processes(dump) == VG_OK)
		return vg_fail(status, code, "step %s: %s; %s", phase, text, describe_outcome(&dump->tree));
	snprintf(problem, sizeof problem, "%s", vg_last_error()->text);
	return vg_fail(VG_STATE, code,
		       "step %s: %s; the processes could not be resumed: %s (virgate recover%s --pid %d tries again)",
		       phase, text, problem, vg_hint_own_sim(), (int)dump->tree.processes[0].pid);
}

static enum vg_status check_options(const struct vg_dump_options *options)
{
	enum vg_status status = image_check_compression(options->compression, options->compression_level);
	if (status)
		return status;
	status = image_check_threads(options->threads);
	if (status)
		return status;
	if (options->base_count > MOST_BASES || (options->base_count && !options->bases))
		return vg_fail(VG_INVALID, 0, "%zu base images: there may be %d, and they must be named",
			       options->base_count, MOST_BASES);
	return VG_OK;
}

// Runs all steps until the image is complete.
static enum vg_status make_image(struct dump *dump)
{
	enum vg_status status = find_processes(dump);
	if (status)
		return status;
	status = check_processes(dump);
	if (status)
		return status;
	status = begin_image(dump);
	if (status)
		return status;
	status = park_memory(dump);
	if (status)
		return status;
	status = take_off_gpu(dump);
	if (status)
		return status;
	status = write_image(dump);
	dump->result.bytes = dump->draft.sizes.stored;
	dump->result.raw_bytes = dump->draft.sizes.raw;
	return status;
}

enum vg_status dump_run(const struct vg_dump_options *options, const struct dump_gate *gate,
			struct vg_checkpoint_result *ret_result)
{
	struct dump dump = {.options = *options, .gate = gate};

	dump.phase =
		(struct phase){.progress = dump.options.progress, .user = dump.options.user, .result = &dump.result};
	enum vg_status status = check_options(options);
	if (status)
		return status;
	pager_file_sweep(0); // remove pager files of ended processes, because the files use host memory
	status = make_image(&dump);
	status = status ? roll_back(&dump, status) : end_processes(&dump);
	remaps_put_back(&dump.remaps);
	phase_end(&dump.phase);
	image_finish(&dump.draft);
	if (ret_result)
		*ret_result = dump.result;
	parking_finish(&dump.parking);
	device_bases_close(&dump.bases);
	json_decref(dump.description);
	tenants_free(&dump.tenants);
	tenants_free(&dump.evicted);
	tree_free(&dump.tree);
	return status;
}

enum vg_status vg_checkpoint_dump(const struct vg_dump_options *options, struct vg_checkpoint_result *ret_result)
{
	VG_ENTRY();
	struct vg_dump_options known;

	CORE_NEEDED(options);
	CORE_OPTIONS(known, options);
	CORE_NEEDED(known.dir);
	return dump_run(&known, NULL, ret_result);
}
