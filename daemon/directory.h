// Keeps the daemon's runtime directory, its socket, and the locks by which only one daemon uses that directory. Main
// thread only.
#pragma once
#include "daemon/node.h"

struct directory_events {
	void (*connected)(struct node *node); // called when a client waits to be accepted
	void (*restored)(struct node *node);  // called when the removed directory was created again, without ledgers
};
// Creates and locks the directory. Returns 0, or -1 after a log line.
int directory_prepare(struct node *node, const struct directory_events *events);
// Creates the socket. Returns 0, or -1 after a log line.
int directory_listen(struct node *node);
// Creates the directory or the socket again if it was removed.
void directory_check(struct node *node);
// Removes the socket, so that new clients do not find this daemon.
void directory_leave(struct node *node);
// Releases the socket and the lock for the next daemon, even if a thread of this daemon hangs in a close().
void directory_release(struct node *node);
