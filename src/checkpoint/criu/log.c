// Finds the reason for a failure in CRIU's log, and explains it.
#include "checkpoint/criu/criu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 400 };

// Returns whether CRIU continues after this error.
static bool is_harmless(const char *error)
{
	return strstr(error, "RLIMIT_NOFILE") != NULL;
}

// Explains a line of CRIU's log. "": the line needs no explanation.
static const char *find_advice(const char *error)
{
	static const struct {
		const char *words, *advice, *also;
	} known[] = {
		{"External socket is used",
		 "a unix socket is connected to a process outside of what is dumped: close it"},
		{"Connected TCP socket", "there is an open TCP connection: close it, or see --tcp-established"},
		{"dangling tty", "it hangs on a terminal: see --shell-job"},
		{"Don't have tty to inherit", "it hangs on a terminal: restore it from one, and without --detach"},
		{"file locks are hold", "it holds locks of files: see --file-locks"},
		{"Can't link remap to",
		 "a file has lost the name it was opened by, and link_remap.N beside it is another "
		 "image's: remove that name if that image is gone"},
		{"Address already in use", "a socket's address is taken: end who has it"},
		{"Can't fork for ",
		 "a pid of the image was taken meanwhile: end who has it, or restore in a new pid namespace",
		 .also = "File exists"},
		{"has bad size",
		 "the programs ran in a vGPU of another version of Virgate: restore them with that version",
		 .also = "/ledgers/"},
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strstr(error, known[i].words) && (!known[i].also || strstr(error, known[i].also)))
			return known[i].advice;
	return "";
}

bool criu_reason(const char *path, char *ret_text, size_t capacity)
{
	char *line = NULL, first[KEPT] = "";
	const char *known = "";
	size_t size = 0;

	FILE *file = fopen(path, "re");
	// Take the first error with a known explanation, else the first error.
	while (file && !*known && getline(&line, &size, file) > 0) {
		char *error = strstr(line, "Error (");
		if (!error || is_harmless(error))
			continue;
		error[strcspn(error, "\n")] = '\0';
		known = find_advice(error);
		if (!*first || *known)
			snprintf(first, sizeof first, "%s", error);
	}
	snprintf(ret_text, capacity, "%s%s%s", *known ? known : "", *known ? ": " : "", first);
	free(line);
	if (file)
		fclose(file);
	return *first;
}
