// Manages descriptors that the loop waits for. Main thread only.
#pragma once
#include "daemon/node.h"

// Makes the loop wait for these events of the source (EPOLLIN, EPOLLOUT), and no longer for those it waited for before.
// Returns 0 or -errno.
int source_watch(struct node *node, struct source *source, uint32_t events);
// Stops waiting for the descriptor, but keeps it open.
void source_ignore(struct node *node, struct source *source);
// Stops waiting for the descriptor, and closes it. Does nothing if the source has no descriptor.
void source_close(struct node *node, struct source *source);
// Checks that a descriptor may be kept for as long as a process lives: a quarter of the daemon's descriptors stays free
// for connections. Returns `fd`, or closes it and returns -EMFILE. Returns a negative `fd` unchanged.
int source_keep_descriptor(int fd);
