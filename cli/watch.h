// Finds out from memory maps whether a program or its descendants use a GPU without the interposer. One thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct watch {
	pid_t root;
	bool interposed; // a process had the interposer loaded
	pid_t unlimited; // first process that used a driver without interposer and quota; 0: none
	char unlimited_name[64];
};

void watch_processes(struct watch *watch);

// Tells whether one process has mapped the interposer, and the driver.
struct maps {
	bool interposer, driver;
};
struct maps maps_read(pid_t pid);
