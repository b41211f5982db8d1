// Checks the type of a descriptor from a peer before the driver gets it. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Returns whether the descriptor can be one of device memory: of NVIDIA's control device, or, with the simulated
// driver, of a pipe. If not, *ret_what describes it.
bool share_descriptor_is_memory(int descriptor, char ret_what[], size_t capacity);
