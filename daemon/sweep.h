// Removes the files with host memory of ended processes (pager/host_file.h). Main thread.
#pragma once
#include <sys/types.h>

// Removes the files in a thread: the kernel takes 0.1 to 0.2 s for each GiB of a file. `owner`: the user of the vGPU
// whose process has ended.
void sweep_files(uid_t owner);
