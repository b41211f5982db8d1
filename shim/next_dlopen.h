// The real dlopen, behind the interposer's. Any thread.
#pragma once

void *shim_next_dlopen(const char *file, int mode);
