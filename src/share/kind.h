// What a descriptor that a peer sent is, before the driver is handed it. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Whether it can stand for device memory: the control device of NVIDIA's driver, or with the simulated driver a pipe.
// If not, *ret_what says in words what it is.
bool share_descriptor_is_memory(int descriptor, char ret_what[], size_t capacity);
