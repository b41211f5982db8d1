// Tells the parent of a process that the process did not exit by itself, but was dumped. The message goes to an
// abstract unix socket, which needs no cleanup. Any thread.
#pragma once
#include <stddef.h>
#include <sys/types.h>

// Returns a descriptor that receives messages about children of this process, or -errno. The caller must read it after
// every SIGCHLD: its queue is short, and each message causes a SIGCHLD.
int notice_listen(void);
// Tells the process `parent` that its children `pids` are about to be ended by a dump into `image`; "": they were
// migrated. Does nothing if the parent does not listen. If the parent does not read, waits up to a second.
void notice_send(pid_t parent, const pid_t *pids, size_t count, const char *image);
// Reads the messages, and calls `each` for every pid. Accepts messages only from processes of root or this user, which
// are able to dump.
void notice_read(int fd, void (*each)(void *user, pid_t pid, const char *image), void *user);
