// Who waits for a process is told that it did not end by itself, but was written down: by a message to a socket without
// a file, which nobody has to clear away. Any thread.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// A descriptor that such messages come to, for children of this process; -errno. Few of them wait there at a time:
// SIGCHLD comes with each, for the reader to take it.
int notice_listen(void);
// Tells the process `parent` of its children `pids` before they are ended; `image` "": they go on elsewhere. A parent
// that does not listen gets nothing; one that listens and does not read is waited for, for a second.
void notice_send(pid_t parent, const pid_t *pids, size_t count, const char *image);
// Reads what has come, from somebody who might have done it (root, or this user), and calls `each` for every process.
void notice_read(int fd, void (*each)(void *user, pid_t pid, const char *image), void *user);
