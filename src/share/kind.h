// Checks the type of a descriptor from a peer before the driver gets it. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>

// Returns whether the descriptor can be one for device memory. With NVIDIA's driver it must be of the device
// /dev/nvidiactl, with the simulated driver of a pipe. Otherwise *ret_what says what the descriptor is.
bool share_descriptor_is_memory(int descriptor, char ret_what[], size_t capacity);
