// Who waits for a process is told that it did not end by itself, but was written down: by a message to a socket without
// a file, which nobody has to clear away. Any thread.
#pragma once
#include <limits.h>
#include <sys/types.h>

// A descriptor that such messages come to, for children of this process; -errno.
int notice_listen(void);
// To the process `parent`, before its child `pid` is ended; `image` "": it goes on elsewhere. Whoever does not listen
// gets nothing.
void notice_send(pid_t parent, pid_t pid, const char *image);
// The next process of which somebody who might have done it (root, or this user) said so, and where its image lies.
// 0: nothing more was said.
pid_t notice_read(int fd, char ret_image[PATH_MAX]);
