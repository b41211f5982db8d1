// Creates, names and opens the file with the host memory of a process (pager/host.h). The file lies in a tmpfs and has
// no name, so the kernel frees it with the process. During a dump or a restore, the process does not map the file. Then
// the file has a name, by which the dump and the restore find it. It keeps the name after that if the daemon can remove
// it. The name identifies the process, so that files of ended processes can be removed. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGER_FILE_DIRECTORY "/dev/shm"
enum { PAGER_FILE_NAME = 80 };

// Identifies a file by three numbers: `process`, which contains the pid namespace in the upper 32 bits and in the lower
// 32 the process's pid in that namespace; the start time of the process; and a random number.
struct pager_file {
	uint64_t process, start_time, number; // number 0: there is no file
};

void pager_file_format(const struct pager_file *file, char ret_name[PAGER_FILE_NAME]);
bool pager_file_parse(const char *name, struct pager_file *ret_file);
// Creates the identity of a new file for a process. `pid`: the process as the caller sees it; 0: this process. Returns
// 0 or -errno.
int pager_file_choose(pid_t pid, struct pager_file *ret_file);
// Creates a new file without a name in the tmpfs. Returns the descriptor or -errno.
int pager_file_create(void);
// Gives the file a name. It must have had no name since pager_file_create(). Returns 0 or -errno.
int pager_file_link(int fd, const struct pager_file *file);
// Opens a file of this user by its name. Returns the descriptor or -errno: -EPERM: the file belongs to another user;
// -EINVAL: it is not a regular file.
int pager_file_open(const struct pager_file *file);
void pager_file_unlink(const struct pager_file *file);
// Returns whether the open file still has this name and belongs to this user, so that pager_file_open() finds it.
bool pager_file_is_named(int fd, const struct pager_file *file);
// Removes the files of ended processes of this pid namespace, as far as this user may. Also removes those of
// `replaced`, a process that runs another program now; 0: none.
void pager_file_sweep(pid_t replaced);
// Identifies the pid namespace, the directory and the user for which pager_file_sweep() works, if a process of the user
// `sweeper` calls it here. Returns 0 on failure.
uint64_t pager_file_place(uid_t sweeper);
