// Finds and loads the real library behind an interposer. Any thread.
#pragma once

// Loads `soname` (libcuda.so.1, libnvidia-ml.so.1), but never this library itself. If the environment variable
// `override` is set, loads the file that it names and no other. Otherwise searches LD_LIBRARY_PATH, the linker's cache,
// and known directories. Returns a handle for dlsym, or NULL.
void *shim_real_load(const char *soname, const char *override);
