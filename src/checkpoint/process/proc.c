#include "checkpoint/process/proc.h"

#include "base/descriptor.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNEL_THREAD = 0x00200000 }; // PF_KTHREAD

static const char *find_value(const char *text, const char *key)
{
	const char *line = strstr(text, key);

	return line ? line + strlen(key) : "-1";
}

int proc_status_read(pid_t pid, struct proc_status *ret_status)
{
	char path[64], text[8192];

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	ssize_t length = vg_file_read(path, text, sizeof text);
	if (length < 0)
		return length == -ESRCH ? -ENOENT : (int)length;
	*ret_status = (struct proc_status){.group = (pid_t)atol(find_value(text, "\nTgid:")),
					   .parent = (pid_t)atol(find_value(text, "\nPPid:")),
					   .tracer = (pid_t)atol(find_value(text, "\nTracerPid:")),
					   .user = (uid_t)atol(find_value(text, "\nUid:")),
					   .state = *find_value(text, "\nState:\t")};
	size_t at = strcspn(text, "\t") + 1; // "Name:\tNAME\n"
	if (at < (size_t)length)
		snprintf(ret_status->command, sizeof ret_status->command, "%.*s", (int)strcspn(text + at, "\n"),
			 text + at);
	return 0;
}

bool proc_is_kernel(pid_t pid)
{
	char path[64], text[1024];
	unsigned flags = 0;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	const char *end = vg_file_read(path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
	return end && sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 && flags & KERNEL_THREAD;
}

bool proc_let_go_on(pid_t pid)
{
	struct proc_status status;

	return proc_status_read(pid, &status) == 0 && status.state == 'T' && kill(pid, SIGCONT) == 0;
}
