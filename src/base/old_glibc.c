// Lets the libraries that programs load run with glibc 2.31, even if they were built with a newer glibc. In glibc 2.32,
// 2.33 and 2.34, some functions moved into libc.so.6 and got a second symbol version. A library that uses the second
// version does not load with an older glibc. This file is part of each library of Virgate that programs load. It
// defines these functions for that library alone, and calls their first versions, which every glibc has. Before 2.34,
// these are in libpthread.so.0 and libdl.so.2.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// gcc warns that `value` of pthread_setspecific() may point to uninitialized memory, which this function does not read.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define OLD(result, name, version, parameters, arguments)             \
	extern result old_##name parameters;                          \
	__asm__(".symver old_" #name "," #name "@GLIBC_" version);    \
	__attribute__((visibility("hidden"))) result name parameters; \
	result name parameters                                        \
	{                                                             \
		return old_##name arguments;                          \
	}

OLD(void *, dlsym, "2.2.5", (void *restrict handle, const char *restrict name), (handle, name))
OLD(int, dlclose, "2.2.5", (void *handle), (handle))
OLD(char *, dlerror, "2.2.5", (void), ())
OLD(int, dladdr, "2.2.5", (const void *address, Dl_info *info), (address, info))
OLD(int, pthread_create, "2.2.5",
    (pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*start)(void *),
     void *restrict argument),
    (thread, attributes, start, argument))
OLD(int, pthread_join, "2.2.5", (pthread_t thread, void **result), (thread, result))
OLD(int, pthread_detach, "2.2.5", (pthread_t thread), (thread))
OLD(int, pthread_once, "2.2.5", (pthread_once_t * once, void (*run)(void)), (once, run))
OLD(int, pthread_sigmask, "2.2.5", (int how, const sigset_t *restrict set, sigset_t *restrict old), (how, set, old))
OLD(int, pthread_mutex_trylock, "2.2.5", (pthread_mutex_t * mutex), (mutex))
OLD(int, pthread_rwlock_rdlock, "2.2.5", (pthread_rwlock_t * lock), (lock))
OLD(int, pthread_rwlock_wrlock, "2.2.5", (pthread_rwlock_t * lock), (lock))
OLD(int, pthread_rwlock_unlock, "2.2.5", (pthread_rwlock_t * lock), (lock))
OLD(int, pthread_key_create, "2.2.5", (pthread_key_t * key, void (*destroy)(void *)), (key, destroy))
OLD(void *, pthread_getspecific, "2.2.5", (pthread_key_t key), (key))
OLD(int, pthread_setspecific, "2.2.5", (pthread_key_t key, const void *value), (key, value))
OLD(int, pthread_condattr_setclock, "2.3.3", (pthread_condattr_t * attributes, clockid_t clock), (attributes, clock))

// Before 2.33, glibc had these functions only as inline functions of a header. On x86-64 the kernel's struct is the
// same as glibc's.
__attribute__((visibility("hidden"))) int stat64(const char *restrict path, struct stat64 *restrict info);
int stat64(const char *restrict path, struct stat64 *restrict info)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, 0);
}

__attribute__((visibility("hidden"))) int fstat64(int fd, struct stat64 *info);
int fstat64(int fd, struct stat64 *info)
{
	return (int)syscall(SYS_fstat, fd, info);
}

__attribute__((visibility("hidden"))) int lstat64(const char *restrict path, struct stat64 *restrict info);
int lstat64(const char *restrict path, struct stat64 *restrict info)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, info, AT_SYMLINK_NOFOLLOW);
}
