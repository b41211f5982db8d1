// Checks the type of a descriptor from a peer before the driver gets it. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Returns whether the descriptor can be one for device memory. Such a descriptor is of NVIDIA's control device, or of a
// pipe with the simulated driver. If not, *ret_what describes the descriptor.
bool share_descriptor_is_memory(int descriptor, char ret_what[], size_t capacity);
