// Starts the system's daemon, and sends it requests of several users. Needs root. Include it in one file per program.
#pragma once
#include "daemon_fixture.h"

#include <grp.h>

// SHARED_GROUP is "games" on Debian; it can be any group that has a name.
enum { ALICE = 60001, BOB = 60002, SHARED_GROUP = 60 };

// Starts the system's daemon in the directories of this test.
static inline void launch_system_daemon(void)
{
	char state[300];
	bool ready;

	snprintf(state, sizeof state, "%s/state", directory);
	daemon_pid = launch_daemon(runtime_dir, state, "--system", NULL, &ready);
	CHECK(ready);
}

static inline void start_system_daemon(void)
{
	if (geteuid() != 0)
		SKIP("only root can be several users");
	fresh_node();
	CHECK_INT(chmod(directory, 0755), 0);
	launch_system_daemon();
}

// Sends a request as a user, and returns the text that `describe` makes of the answer.
static inline void ask_as(uid_t uid, gid_t group, const char *request, const char *(*describe)(json_t *reply),
			  char ret_outcome[256])
{
	int answer[2];

	CHECK_INT(pipe(answer), 0);
	pid_t child = fork();
	if (child == 0) {
		if ((group ? setgroups(1, &group) : setgroups(0, NULL)) < 0 || setgid((gid_t)uid) < 0 ||
		    setuid(uid) < 0)
			_exit(1);
		const char *outcome = describe(ask("%s", request));
		_exit(write(answer[1], outcome, strlen(outcome) + 1) < 0);
	}
	close(answer[1]);
	ssize_t length = read(answer[0], ret_outcome, 255);
	close(answer[0]);
	waitpid(child, NULL, 0);
	CHECK(length > 0);
	ret_outcome[length] = '\0';
}

// Returns the error code of the daemon's answer; "": the daemon agreed.
static inline const char *find_code(json_t *reply)
{
	return agreed(reply) ? "" : json_string_value(json_object_get(reply, "code"));
}

static inline const char *tenants_of_first(json_t *reply)
{
	const json_t *tenants = json_object_get(json_array_get(json_object_get(reply, "vgpus"), 0), "tenants");

	return json_is_array(tenants) ? "a list" : json_is_null(tenants) ? "null" : "nothing";
}

#define CHECK_OUTCOME(uid, group, request, describe, wanted)     \
	do {                                                     \
		char outcome_[256];                              \
		ask_as(uid, group, request, describe, outcome_); \
		CHECK_STR(outcome_, wanted);                     \
	} while (0)
#define CHECK_ANSWER(uid, group, request, wanted) CHECK_OUTCOME(uid, group, request, find_code, wanted)

static inline const char *find_message(json_t *reply)
{
	return json_string_value(json_object_get(reply, "message"));
}
