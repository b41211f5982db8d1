// Marks on open descriptors, by which processes recognise the memory behind them. Any thread.
//
// Descriptors of device memory all look alike (/dev/nvidiactl). The kernel keeps the locks of an open file with the
// file, so they go with it through dup, sockets and exec. A mark is a read lock on one byte beyond the end of any file:
// read locks exclude no other process, and /proc/self/fdinfo lists them.
#pragma once
#include <stdint.h>

// Marks a descriptor with `mark`, or with a random one if that is 0. Returns the mark, or 0 if it cannot be set.
uint64_t shim_mark_put(int descriptor, uint64_t mark);
// Stores the marks of a descriptor, at most `most`, and returns their number.
unsigned int shim_mark_read(int descriptor, uint64_t *ret_marks, unsigned int most);
