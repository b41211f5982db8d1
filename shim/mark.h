// Marks open descriptors, so that other processes recognise the memory of a descriptor. Any thread.
//
// All descriptors of device memory look alike (/dev/nvidiactl). The kernel keeps file locks with the open file, so they
// stay there through dup, sockets and exec. A mark is a read lock on one byte beyond the end of any file. Read locks
// exclude no other process, and /proc/self/fdinfo lists them.
#pragma once
#include <stdint.h>

// Marks a descriptor with `mark`, or with a random mark if `mark` is 0. Returns the mark, or 0 if it cannot be set.
uint64_t shim_mark_put(int descriptor, uint64_t mark);
// Stores at most `most` marks of a descriptor, and returns how many it stored.
unsigned int shim_mark_read(int descriptor, uint64_t *ret_marks, unsigned int most);
