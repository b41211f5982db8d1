// migrate: moves CUDA processes to another machine, or to another pid namespace of this one.
#include <stdio.h>

#include "base/size.h"
#include "checkpoint.h"
#include "dump_options.h"
#include "gpus.h"
#include "guard.h"
#include "say.h"

static int follow_progress(void *user, const struct vg_checkpoint_progress *progress)
{
	static enum vg_checkpoint_phase last = VG_CHECKPOINT_PHASES;
	bool begins = progress->phase != last;

	last = progress->phase;
	if (begins && progress->phase == VG_CHECKPOINT_SEND)
		guard_report_step(user, GUARD_IMAGE_COMPLETE);
	if (begins && progress->phase == VG_CHECKPOINT_END)
		guard_report_step(user, GUARD_ENDING);
	if (begins && progress->phase == VG_CHECKPOINT_HANDOVER)
		guard_report_step(user, GUARD_HANDING_OVER);
	return checkpoint_show_progress(NULL, progress);
}

// Prints how long the processes were stopped, and how much memory was copied before they were stopped.
static void print_stop(const struct arguments *arguments, const struct vg_checkpoint_result *result)
{
	char size[VG_SIZE_TEXT];
	double stop = 0;

	for (int i = VG_CHECKPOINT_EVICT; i < VG_CHECKPOINT_PHASES; i++)
		stop += i == VG_CHECKPOINT_PRECOPY ? 0 : result->seconds[i];
	if (*result->warning)
		say_warning("%s", result->warning);
	if (!option_value(arguments, "json"))
		printf("%s went over in %u round%s while they ran; they stood still for %.2f s\n",
		       vg_size_format(result->precopied_bytes, size), result->rounds, result->rounds == 1 ? "" : "s",
		       stop);
}

static int migrate_processes(const struct arguments *arguments, struct vg_dump_options *dump, const struct gpus *gpus)
{
	struct vg_checkpoint_result result = {0};
	struct session session;
	const struct vg_migrate_options options = {.size = sizeof options,
						   .dump = dump,
						   .to = option_value(arguments, "to"),
						   .gpus = gpus->pairs,
						   .gpu_count = gpus->count,
						   .precopy = option_value(arguments, "precopy") != NULL};

	int r = checkpoint_open_session(&session, arguments);
	if (r)
		return r;
	dump->node = session.node;
	if (vg_checkpoint_migrate(&options, &result))
		r = checkpoint_fail(arguments);
	else
		checkpoint_print_result(arguments, &result, "migrated");
	if (r == 0 && options.precopy)
		print_stop(arguments, &result);
	session_close(&session);
	return r;
}

static int migrate_with_guard(const struct arguments *arguments, struct vg_dump_options *dump, const struct gpus *gpus)
{
	char scratch[PATH_MAX] = "";
	struct guard guard = {.end = -1};

	dump->dir = option_value(arguments, "dir");
	int r = dump->dir ? 0 : checkpoint_create_scratch(arguments, scratch);
	if (r)
		return r;
	if (!dump->dir)
		dump->dir = scratch;
	dump->progress = follow_progress;
	dump->user = &guard;
	r = dump_guard(arguments, dump, scratch, &guard);
	if (r == 0) {
		r = migrate_processes(arguments, dump, gpus);
		guard_stop(&guard);
	}
	checkpoint_remove_scratch(scratch);
	return r;
}

static int run_migrate(const struct arguments *arguments)
{
	struct vg_dump_options dump;
	struct gpus gpus = {0};

	int r = dump_options_read(arguments, &dump);
	if (r)
		return r;
	if ((!dump.pid && !dump.vgpu) || !option_value(arguments, "to"))
		return say_usage(arguments->verb, "give --pid or --vgpu to say what to move, and --to to say where");
	r = gpus_read(arguments, &gpus);
	if (r == 0)
		r = migrate_with_guard(arguments, &dump, &gpus);
	gpus_free(&gpus);
	return r;
}

static const struct option migrate_options[] = {
	DUMP_OPTIONS,
	{"to", 0, "TARGET", "ssh:[USER@]HOST: another machine; unix:PATH: the restore listening there", COMPLETE_FILE},
	{"precopy", 0, NULL, "send device memory of evictable vGPUs ahead, in rounds, while the process runs", 0},
	{"dir", 'd', "DIR", "where to keep the image meanwhile; default: a directory in TMPDIR", COMPLETE_FILE},
	OPTION_GPU_MAP,
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_migrate = {
	.name = "migrate",
	.synopsis = "(--pid PID | --vgpu NAME) --to unix:PATH|ssh:[USER@]HOST [--precopy] [--dir DIR]\n"
		    "             [--compress METHOD] [--gpu-map OLD=NEW]...\n"
		    "             [--cpu-only] [--timeout SECONDS] [--shell-job] [--tcp-established] [--file-locks]\n"
		    "             [--json] [--sim]",
	.summary = "Move a CUDA process to another machine",
	.details = "The process is stopped while its image is sent and verified. Then it ends here and runs there. "
		   "If anything fails before that, it continues here and nothing of it is left there.",
	.options = migrate_options,
	.run = run_migrate,
};
