// Finds and loads the real library that an interposer stands in front of. Any thread.
#pragma once

// Loads `soname` (libcuda.so.1, libnvidia-ml.so.1), never this library itself: the path in
// the environment variable `override` and no other, if that is set; else LD_LIBRARY_PATH,
// the linker's cache, known folders. Returns a handle for dlsym, or NULL.
void *shim_real_load(const char *soname, const char *override);
