// Describes the file that tenant.c writes.
#pragma once
#include <sys/types.h>

struct tenant_report {
	pid_t pid;
	unsigned round; // number of rounds in which all memory was right
	unsigned asked; // number of attempts to allocate
	int small, big; // results of the driver in the last attempt
};
