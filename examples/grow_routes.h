// Declares the routes by which grow allocates device memory. One thread.
#pragma once

#include "example.h"

struct route {
	const char *name, *how;
	// Allocates one more chunk and writes to it. Returns the driver's result. *ret_bytes: the allocated bytes.
	CUresult (*allocate)(size_t chunk, size_t *ret_bytes);
	size_t grain; // chunks are multiples of this
};

struct route_setup {
	CUdevice device;
	CUcontext context;
	int descriptor; // the route "import" imports this descriptor of another process's memory
	bool touch;
};
extern struct route_setup setup;

const struct route *route_find(const char *name);
void route_list(FILE *file);
