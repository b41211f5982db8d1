// restore: CUDA processes from their images.
#include "checkpoint.h"
#include "options.h"
#include "say.h"

static int restore(const struct arguments *arguments)
{
	struct vg_checkpoint_result result = {0};
	struct session session;

	if (!option_value(arguments, "dir")) {
		say_usage(arguments->verb, "--dir is needed: the image");
		return verb_usage_code(arguments->verb);
	}
	int r = checkpoint_settle(&session, arguments);
	if (r)
		return r;
	const struct vg_restore_options options = {
		.size = sizeof options, .dir = option_value(arguments, "dir"), .progress = checkpoint_show};
	if (vg_checkpoint_restore(&options, &result))
		r = checkpoint_fail(arguments);
	else
		checkpoint_print(arguments, &result, "restored");
	session_close(&session);
	return r;
}

static const struct option restore_options[] = {
	{"dir", 'd', "DIR", "the image", COMPLETE_FILE},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_restore = {
	.name = "restore",
	.synopsis = "--dir DIR [--json] [--sim]",
	.summary = "Let a CUDA process run again from its image",
	.details = "With the pid it had, on the GPU it had. What does not fit is said before anything is made.",
	.options = restore_options,
	.run = restore,
};
