// The routes by which grow takes device memory. One thread.
#pragma once

#include "example.h"

struct route {
	const char *name, *how;
	// Takes and touches one more chunk: the driver's answer. *ret_bytes: what it really asked for.
	CUresult (*take)(size_t chunk, size_t *ret_bytes);
	size_t grain; // chunks are multiples of this
};

struct route_setup {
	CUdevice device;
	CUcontext context;
	int descriptor; // for import: somebody else's exported memory
	bool touch;
};
extern struct route_setup setup;

const struct route *route_find(const char *name);
void route_list(FILE *file);
