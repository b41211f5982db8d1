// The daemon's runtime directory, the locks that make it the only daemon there, and its socket. Main thread only.
#pragma once
#include "daemon/node.h"

struct directory_events {
	void (*connected)(struct node *node); // a client waits to be accepted
	void (*restored)(struct node *node);  // the directory was removed and is there again, without the ledgers
};
// Creates and locks the directory. Returns 0, or -1 after a log line.
int directory_prepare(struct node *node, const struct directory_events *events);
// Creates the socket. Returns 0, or -1 after a log line.
int directory_listen(struct node *node);
// Creates the directory or the socket again if it was removed.
void directory_check(struct node *node);
// Removes the socket, so that new clients do not find this daemon.
void directory_leave(struct node *node);
// Releases socket and lock for the next daemon, even if a thread of this one hangs in a close().
void directory_release(struct node *node);
