// key create: creates a file with the secret for seals and audit logs.
#include <stdio.h>

#include "say.h"
#include "session.h"
#include "virgate/seal.h"

static int run_key_create(const struct arguments *arguments)
{
	if (vg_seal_key_create(arguments->words[0]))
		return fail_with_last_error(arguments);
	print_line("%s: created, readable by you only; anyone who has this key can make valid seals",
		   arguments->words[0]);
	return EXIT_OK;
}

static const struct option options[] = {{0}};

const struct verb verb_key_create = {
	.name = "key create",
	.synopsis = "FILE",
	.summary = "Create a key file",
	.details = "FILE must not exist yet. It gets 64 random hexadecimal digits and mode 0600.",
	.options = options,
	.least = 1,
	.most = 1,
	.complete = COMPLETE_FILE,
	.run = run_key_create,
};
