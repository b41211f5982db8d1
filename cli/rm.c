// rm: removes vGPUs. Those that can be removed are, whatever becomes of the others.
#include <stdio.h>

#include "session.h"
#include "say.h"

static int remove_all(struct vg_node *node, const struct arguments *arguments)
{
	int r = EXIT_OK;

	for (int i = 0; i < arguments->count; i++)
		if (vg_vgpu_remove(node, arguments->words[i]))
			r = fail_with_last_error(arguments);
		else
			printf("%s: removed\n", arguments->words[i]);
	return r;
}

static int run(const struct arguments *arguments)
{
	return in_session(arguments, remove_all);
}

static const struct option options[] = {OPTION_SIM, {0}};

const struct verb verb_rm = {
	.name = "rm",
	.synopsis = "[--sim] NAME...",
	.summary = "Remove vGPUs",
	.details = "A vGPU in which programs run is not removed.",
	.options = options,
	.least = 1,
	.most = -1,
	.complete = COMPLETE_VGPU,
	.run = run,
};
