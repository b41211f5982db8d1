// set: changes the limit or the compute share of a vGPU, also while programs run in it.
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "list.h"
#include "session.h"
#include "options.h"
#include "say.h"

static int read_new_share(const struct arguments *arguments, unsigned *ret_share)
{
	const char *text = option_value(arguments, "share");

	if (!text || (strcmp(text, "none") != 0 && strcmp(text, "0") != 0))
		return read_share(arguments, ret_share);
	*ret_share = VG_SHARE_NONE;
	return 0;
}

static int run_set(const struct arguments *arguments)
{
	struct session session;
	char size[VG_SIZE_TEXT], part[CELL_TEXT] = "";
	uint64_t memory;
	unsigned share;

	int r = read_memory(arguments, &memory);
	if (r == 0)
		r = read_new_share(arguments, &share);
	if (r)
		return r;
	if (!memory && !share)
		return say_usage(arguments->verb, "nothing to change: give --memory SIZE or --share PERCENT|none");
	r = session_open(&session, arguments);
	if (r)
		return r;
	if (vg_vgpu_set(session.node, arguments->words[0], memory, share)) {
		r = fail_with_last_error(arguments);
	} else {
		if (share && share != VG_SHARE_NONE)
			snprintf(part, sizeof part, " share %u %%", share);
		print_line("%s:%s%s%s%s", arguments->words[0], memory ? " memory " : "",
			   memory ? vg_size_format(memory, size) : "", memory && share ? "," : "",
			   share == VG_SHARE_NONE ? " share none" : part);
	}
	session_close(&session);
	return r;
}

static const struct option options[] = {OPTION_MEMORY, OPTION_SHARE, OPTION_SIM, {0}};

const struct verb verb_set = {
	.name = "set",
	.synopsis = "NAME [--memory SIZE] [--share PERCENT|none] [--sim]",
	.summary = "Change a vGPU's limit or share, also while programs run in it",
	.details = "A limit that is smaller than what is in use is refused. A new share is in force at once.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_VGPU,
	.run = run_set,
};
