// Who waits for a process is told that it did not end by itself, but was written down: by a message to a socket without
// a file, which nobody has to clear away. Any thread.
#pragma once
#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

// A descriptor that such messages come to, for children of this process; -errno.
int notice_listen(void);
// To the process `parent`, before its child `pid` is ended; `image` "": it goes on elsewhere. Whoever does not listen
// gets nothing.
void notice_send(pid_t parent, pid_t pid, const char *image);
// Whether somebody who might have done it (root, or this user) said so of `pid`: where its image lies.
bool notice_read(int fd, pid_t pid, char ret_image[PATH_MAX]);
