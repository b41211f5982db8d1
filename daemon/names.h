// Names of users and groups. The system may ask a directory on the network for them, which may take long, so the threads
// of those who want them do it (work.h). One thread.
#pragma once
#include "daemon/request.h"

enum { NAME_TEXT = 256 };

// The name, or the number where the name is not known: a lookup has begun then. Stands until the next call.
const char *names_user(uid_t uid);
const char *names_group(gid_t gid);
// Begins a lookup, so that the name is known when it is shown. A group's is done in the thread of `asker`.
void names_expect_user(uid_t uid);
void names_expect_group(gid_t gid, uid_t asker);
bool names_are_pending(void); // some of those that are shown
// False: the request is to be asked again later, since its "owner" or "group", or for a moment its user's name, is being
// looked up.
bool names_are_ready(const struct request *request);
// The number of what the request names. 0, -ENOENT: the system does not know the name, or -EAGAIN: it cannot be asked.
int names_find_user(const struct request *request, const char *name, uid_t *ret_uid);
int names_find_group(const struct request *request, const char *name, gid_t *ret_gid);
// In a thread: the user of a name, or of a number. 0 or -errno.
int names_look_up_user(const char *text, uid_t *ret_uid);
// Asks the requests again that have waited long enough for a name.
void names_expire(struct node *node, uint64_t now, uint64_t *deadline);
