// The file for the host memory of a process (pager/host.h). It lies in a tmpfs and has no name, so the kernel frees it
// with the process. While a dump or a restore is under way, the process does not map it, and it has a name by which
// both find it. The name identifies the process, so that files of processes that were killed can be removed. Any
// thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGER_FILE_DIRECTORY "/dev/shm"
enum { PAGER_FILE_NAME = 80 };

// Identifies a file: the process as it sees itself (pid namespace << 32 | pid), its start time, and a random number.
struct pager_file {
	uint64_t process, start_time, number; // number 0: there is no file
};

void pager_file_format(const struct pager_file *file, char ret_name[PAGER_FILE_NAME]);
bool pager_file_parse(const char *name, struct pager_file *ret_file);
// Identifies a new file for a process. `pid`: as the caller sees the process; 0: this process. Returns 0 or -errno.
int pager_file_choose(pid_t pid, struct pager_file *ret_file);
// Opens a new file without a name in the directory. Returns the descriptor or -errno.
int pager_file_create(void);
// Gives the file a name. It must have had none since pager_file_create(). Returns 0 or -errno.
int pager_file_link(int fd, const struct pager_file *file);
// Opens a file of this user. Returns the descriptor or -errno: -EPERM if it is another user's, -EINVAL if it is not a
// regular file.
int pager_file_open(const struct pager_file *file);
void pager_file_unlink(const struct pager_file *file);
// Removes the files of processes of this pid namespace that have ended, as far as this user may.
void pager_file_sweep(void);
