// What tenant.c says in its file.
#pragma once
#include <sys/types.h>

struct tenant_report {
	pid_t pid;
	unsigned round; // so often its memory was as it should be
	unsigned asked; // so often it has tried
	int small, big; // what the driver answered then
};
