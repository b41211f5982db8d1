// rm: removes vGPUs. If one cannot be removed, the others are removed all the same.
#include <stdio.h>

#include "options.h"
#include "say.h"
#include "session.h"

static int remove_vgpus(struct vg_node *node, const struct arguments *arguments)
{
	enum vg_status (*remove)(struct vg_node *, const char *) =
		option_value(arguments, "force") ? vg_vgpu_end : vg_vgpu_remove;
	int r = EXIT_OK;

	for (int i = 0; i < arguments->count; i++)
		if (remove(node, arguments->words[i]))
			r = fail_with_last_error(arguments);
		else
			print_line("%s: removed", arguments->words[i]);
	return r;
}

static int run_rm(const struct arguments *arguments)
{
	return run_in_session(arguments, remove_vgpus);
}

static const struct option options[] = {
	{"force", 'f', NULL, "end the programs that run in it", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_rm = {
	.name = "rm",
	.synopsis = "[--force] [--sim] NAME...",
	.summary = "Remove vGPUs",
	.details = "A vGPU in which programs run is removed only with --force, which ends them (SIGKILL).",
	.options = options,
	.least = 1,
	.most = -1,
	.complete = COMPLETE_VGPU,
	.run = run_rm,
};
