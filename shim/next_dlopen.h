// The dlopen() that the interposer's own one hides. Any thread.
#pragma once

void *shim_next_dlopen(const char *file, int mode);
