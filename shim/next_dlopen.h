// The dlopen that comes after ours. Any thread.
#pragma once

void *shim_next_dlopen(const char *file, int mode);
