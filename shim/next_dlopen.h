// Calls the dlopen() that would be called without the interposer's own one. Any thread.
#pragma once

void *shim_next_dlopen(const char *file, int mode);
