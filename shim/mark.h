// Marks open descriptors, so that other processes recognise the memory of a descriptor. Any thread.
//
// All descriptors of device memory look alike (/dev/nvidiactl). The kernel keeps file locks with the open file, so they
// stay there through dup, sockets and exec. A mark is a read lock on one byte beyond the end of any file; the byte's
// offset is the number of the mark. Read locks exclude no other process, and /proc/self/fdinfo lists them.
#pragma once
#include <stdint.h>

// Sets the number `mark` on a descriptor, or a random number if `mark` is 0. Returns the mark, or 0 if it cannot be
// set.
uint64_t shim_mark_put(int descriptor, uint64_t mark);
// Stores the marks that processes have set on the open file of a descriptor, at most `most` of them. Returns how many
// it stored.
unsigned int shim_mark_read(int descriptor, uint64_t *ret_marks, unsigned int most);
