#include "daemon/json_text.h"

#include "base/descriptor.h"
#include "daemon/names.h"
#include "ledger/ledger.h"

#include <stdio.h>
#include <string.h>

enum { MOST_READ = 256 }; // the most names of processes that are read for one answer

static int reads_left;

json_t *json_user(uid_t uid)
{
	return json_string(names_user(uid));
}

json_t *json_group(gid_t gid)
{
	return gid == (gid_t)-1 ? json_null() : json_string(names_group(gid));
}

// Returns the name with "?" for each byte that is not printable ASCII, since JSON accepts only UTF-8.
json_t *json_command(const char *command)
{
	char printable[VG_LEDGER_COMMAND];
	size_t length = strnlen(command, sizeof printable - 1);

	for (size_t i = 0; i < length; i++)
		printable[i] = command[i] >= ' ' && command[i] < 127 ? command[i] : '?';
	printable[length] = '\0';
	return json_string(printable);
}

void json_begin_answer(void)
{
	reads_left = MOST_READ;
}

json_t *json_command_of(pid_t pid)
{
	char path[48], text[64];

	snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
	ssize_t length = pid > 0 && reads_left-- > 0 ? vg_file_read(path, text, sizeof text) : -1;
	if (length <= 0)
		return json_null();
	text[strcspn(text, "\n")] = '\0';
	return json_command(text);
}
