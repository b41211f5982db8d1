// Looks, now and then, whether the program and its descendants use a GPU without the
// interposer: by their memory maps, so nothing is asked of them. One thread.
#pragma once
#include <stdbool.h>
#include <sys/types.h>

struct watch {
	pid_t root;
	bool interposed;      // some process had the interposer loaded
	pid_t stranger;	      // the first process that used a driver without it; 0: none
	char stranger_name[64];
};

void watch_look(struct watch *watch);

// What the maps of one process say.
struct maps {
	bool interposer, driver;
};
struct maps maps_read(pid_t pid);
