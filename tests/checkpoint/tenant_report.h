// The contents of the file of tenant.c.
#pragma once
#include <sys/types.h>

struct tenant_report {
	pid_t pid;
	unsigned round; // how often all memory was right
	unsigned asked; // how often it has tried to allocate
	int small, big; // results of the driver then
};
