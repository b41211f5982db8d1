// Finds the names of users and groups. The system may ask a directory on the network for them, which can take long. So
// a thread of the user concerned looks them up (work.h). Main thread only, except where a function says otherwise.
#pragma once
#include "daemon/node.h"

enum { NAME_TEXT = 256 };

// Return the name of the id. While the name is unknown, begin a lookup, and return the id as a number. The text is
// valid until the second call after this one.
const char *names_user(uid_t uid);
const char *names_group(gid_t gid);
// Begin a lookup, so that the name is known when an answer shows it. A group is looked up in a thread of `asker`.
void names_expect_user(uid_t uid);
void names_expect_group(gid_t gid, uid_t asker);
// Returns whether a lookup of a name for an answer is in progress.
bool names_are_pending(void);
// Looks up the owner and the group that a request of `asker` names (NULL: none). Also looks up the name of the asker,
// but waits for that at most a second. Returns false if the request must be repeated after the lookups.
bool names_are_ready(uid_t asker, const char *owner, const char *group);
// Find the id of a name in a request of `asker`. Return 0, -ENOENT if the system does not know the name, or -EAGAIN if
// the system cannot look it up now.
int names_find_user(uid_t asker, const char *name, uid_t *ret_uid);
int names_find_group(uid_t asker, const char *name, gid_t *ret_gid);
// Stores the groups of a user whom a request of `asker` names, at most VGPU_GROUPS of them. Returns their number. Call
// it after names_find_user().
unsigned int names_find_groups(uid_t asker, const char *name, gid_t ret_groups[VGPU_GROUPS]);
// Finds the id of a user from a name or a number in text, and waits for the result. Any thread. Returns 0 or -errno.
int names_look_up_user(const char *text, uid_t *ret_uid);
// Lets the loop repeat the requests that have waited long enough for a name. Lowers *deadline to the next time at which
// a request stops waiting.
void names_expire(struct node *node, uint64_t now, uint64_t *deadline);
