// Closes descriptors that users sent or opened. The last close of a file can take long. So the daemon does it in the
// thread that it has for that user (work.h). Main thread only.
#pragma once
#include "daemon/node.h"

// Sets the user for the following calls of discard().
void discard_from(uid_t uid);
// Closes a descriptor that belongs to the user set by discard_from().
void discard(int descriptor);
// Returns whether the daemon must not receive more descriptors of the user, because too many wait to be closed.
bool discard_is_full(const struct node *node, uid_t uid);
// Closes a connection whose queue may contain messages and descriptors.
void discard_connection(int socket);
// Closes a connection as discard_connection() does. The loop stops waiting for events of `source` first.
void discard_source(struct node *node, struct source *source, uid_t uid);
// Sends a refusal to a connection that is not served, and closes it.
void discard_with_refusal(int socket, const char *text);
