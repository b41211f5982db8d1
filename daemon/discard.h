// Closes what users made. The last close of a file can take long, so the user's thread does it (work.h). Main thread
// only.
#pragma once
#include "daemon/node.h"

// Sets the user whose descriptors discard() closes.
void discard_from(uid_t uid);
// Closes a descriptor of the user last set.
void discard(int descriptor);
// Returns whether so many descriptors of the user wait to be closed that the daemon must not receive more.
bool discard_is_full(const struct node *node, uid_t uid);
// Closes a connection whose queue may contain messages and descriptors.
void discard_connection(int socket);
// The same, for a connection that the loop waits for.
void discard_source(struct node *node, struct source *source, uid_t uid);
// Sends a refusal to a connection that is not served, and closes it.
void discard_with_refusal(int socket, const char *text);
