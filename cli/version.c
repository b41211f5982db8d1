// version, --version: prints "virgate VERSION".
#include <stdio.h>

#include "verb.h"
#include "virgate/version.h"

static int run_version(const struct arguments *arguments)
{
	puts("virgate " VG_VERSION_TEXT);
	return EXIT_OK;
}

const struct verb verb_version = {
	.name = "version",
	.synopsis = "",
	.summary = "Print the version",
	.run = run_version,
};
