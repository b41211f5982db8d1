// Tells the parent of a process that the process was dumped, and did not end by itself. The message goes to an abstract
// unix socket, which needs no cleaning up. Any thread.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// Returns a descriptor that receives messages for children of this process, or -errno. Few messages fit into its queue:
// each comes with a SIGCHLD, after which the caller must read.
int notice_listen(void);
// Tells `parent` of its children `pids` before they are ended; `image` "": they continue elsewhere. Does nothing if the
// parent does not listen. Waits up to a second for a parent that does not read.
void notice_send(pid_t parent, const pid_t *pids, size_t count, const char *image);
// Reads the messages from processes that could dump (of root or this user), and calls `each` for every pid.
void notice_read(int fd, void (*each)(void *user, pid_t pid, const char *image), void *user);
