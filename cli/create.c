// create: a vGPU that stays.
#include "base/size.h"
#include "list.h"
#include "session.h"
#include "options.h"
#include "say.h"

#include <stdio.h>

static int create(struct session *session, const struct arguments *arguments, const struct vg_vgpu_options *options)
{
	char size[VG_SIZE_TEXT], share[CELL_TEXT] = "";

	if (vg_vgpu_create(session->node, options))
		return fail_with_last_error(arguments);
	if (options->share)
		snprintf(share, sizeof share, ", share %u %% (not enforced)", options->share);
	print_line("%s: %s%s", options->name, vg_size_format(options->memory, size), share);
	return EXIT_OK;
}

static int run(const struct arguments *arguments)
{
	struct vg_vgpu_options options = {.size = sizeof options, .name = arguments->words[0]};
	struct session session;

	int r = read_memory(arguments, &options.memory);
	if (r == 0)
		r = read_share(arguments, &options.share);
	if (r)
		return r;
	if (!options.memory) {
		say_usage(arguments->verb, "how much memory? give --memory SIZE, such as --memory 8G");
		return EXIT_USAGE;
	}
	options.device = option_value(arguments, "device");
	options.group = option_value(arguments, "group");
	r = session_open(&session, arguments);
	if (r)
		return r;
	r = create(&session, arguments, &options);
	session_close(&session);
	return r;
}

static const struct option options[] = {
	OPTION_MEMORY,
	OPTION_SHARE,
	OPTION_DEVICE,
	{"group", 'g', "GROUP", "a group whose members may run programs in it", 0},
	OPTION_SIM,
	{0},
};

const struct verb verb_create = {
	.name = "create",
	.synopsis = "NAME --memory SIZE [--share PERCENT] [--device GPU] [--group GROUP] [--sim]",
	.summary = "Create a vGPU that stays until it is removed",
	.options = options,
	.least = 1,
	.most = 1,
	.run = run,
};
