// Converts texts and ids to JSON for answers. Main thread only.
#pragma once
#include <jansson.h>
#include <sys/types.h>

json_t *json_user(uid_t uid);
json_t *json_group(gid_t gid); // (gid_t)-1: null
// Returns the name that a program gave itself, in printable ASCII. The name may contain any bytes.
json_t *json_command(const char *command);
// Reads the present name of the process. Returns null if it is unknown, or if this answer has read too many names
// already.
json_t *json_command_of(pid_t pid);
// Begins a new answer, and so resets the limit of json_command_of().
void json_begin_answer(void);
