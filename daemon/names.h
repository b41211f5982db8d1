// Names of users and groups. The system may ask a directory on the network for them, which can take long, so threads of
// the users concerned look them up (work.h). Main thread only, except where a function says otherwise.
#pragma once
#include "daemon/node.h"

enum { NAME_TEXT = 256 };

// Return the name, or the number while the name is unknown, and begin a lookup then. A result is valid until the second
// next call.
const char *names_user(uid_t uid);
const char *names_group(gid_t gid);
// Begin a lookup, so that the name is known when it is shown. A group is looked up in a thread of `asker`.
void names_expect_user(uid_t uid);
void names_expect_group(gid_t gid, uid_t asker);
// Returns whether a lookup of a name to be shown is in progress.
bool names_are_pending(void);
// Looks up the owner and the group that a request of `asker` names (NULL: none), and for at most a second the name of
// the asker. Returns false if the request must be repeated after the lookups.
bool names_are_ready(uid_t asker, const char *owner, const char *group);
// Find the number of a name in a request of `asker`. Return 0, -ENOENT if the system does not know the name, or -EAGAIN
// if the system cannot be asked.
int names_find_user(uid_t asker, const char *name, uid_t *ret_uid);
int names_find_group(uid_t asker, const char *name, gid_t *ret_gid);
// Finds the user of a name or a number, and waits for the answer. Any thread. Returns 0 or -errno.
int names_look_up_user(const char *text, uid_t *ret_uid);
// Lets the loop repeat the requests that have waited long enough for a name, and lowers *deadline to the next such
// time.
void names_expire(struct node *node, uint64_t now, uint64_t *deadline);
