// Allocates and unmaps the pages of host memory.
#pragma once
#include <stddef.h>

// Makes the kernel allocate and map the pages of mapped memory. Uses several threads, because the kernel clears each
// page, which takes most of the time of pinning. Returns 0 or an errno: EINVAL: the kernel does not know
// MADV_POPULATE_WRITE.
int pager_pages_allocate(char *memory, size_t size);
// Unmaps memory, in several threads: the kernel takes about 0.1 s for each GiB of small pages.
void pager_pages_unmap(char *memory, size_t size);
