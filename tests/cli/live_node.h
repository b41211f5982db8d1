// Runs the verbs with the real daemon, on two simulated GPUs of 4 GiB. Include it in one file per test program.
#pragma once

#include <jansson.h>

#include "fixture.h"

#define GIB 1073741824ll

static pid_t background[32]; // programs of start_in_background()
static size_t background_count;

static inline void node_stop(void)
{
	for (; background_count; background_count--) // end the programs that a failed test left
		if (waitpid(background[background_count - 1], NULL, WNOHANG) == 0)
			kill(background[background_count - 1], SIGKILL);
	// a failed test left a stand-in for the daemon, which does not end on `virgate shutdown`
	if (fixture.server > 0) {
		fixture_stop();
	} else if (*fixture.directory) {
		start_program(WORDS("shutdown"));
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
}

static inline void node_start(void)
{
	char path[128];
	static bool registered;

	node_stop();
	fixture_start();
	if (!registered)
		atexit(node_stop); // runs before fixture_stop
	registered = true;
	unsetenv("VIRGATE_LIBDIR");
	snprintf(path, sizeof path, "%s/state", fixture.directory);
	setenv("VIRGATE_STATE_DIR", path, 1);
	snprintf(path, sizeof path, "%s/sim", fixture.directory);
	setenv("VIRGATE_SIM_DIR", path, 1);
	mkdir(path, 0700);
	setenv("VIRGATE_SIM", "devices=2,memory=4G", 1);
	setenv("VIRGATE_TIMEOUT", "20", 1);
	setenv("VIRGATE_DAEMON", DAEMON, 1);
}

// Starts a program in the background. Its output is discarded, because it would replace the output of the program that
// the test checks.
static inline pid_t start_in_background(const char *const *words)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid) {
		CHECK(background_count < sizeof background / sizeof *background);
		background[background_count++] = pid;
		return pid;
	}
	int null = open("/dev/null", O_RDWR);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	execv(words[0], (char *const *)words);
	_exit(127);
}

static inline json_t *read_listing(const char *const *words)
{
	if (wait_for_program(start_program(words)) != 0)
		FAIL("%s: %s", words[1], result.err);
	json_t *json = json_loads(result.out, 0, NULL);
	if (!json)
		FAIL("not JSON: %s", result.out);
	CHECK_INT(json_integer_value(json_object_get(json, "schema")), 1);
	return json;
}

static inline void node_read_uuids(char ret_uuids[2][48])
{
	json_t *json = read_listing(WORDS("devices", "--json"));

	for (size_t i = 0; i < 2; i++)
		snprintf(ret_uuids[i], sizeof ret_uuids[i], "%s",
			 json_string_value(
				 json_object_get(json_array_get(json_object_get(json, "devices"), i), "uuid")));
	json_decref(json);
}

// Returns the listing of the vGPU `name`, or NULL.
static inline json_t *find_listed(const json_t *listing, const char *name)
{
	json_t *one;
	size_t i;

	json_array_foreach(json_object_get(listing, "vgpus"), i, one)
		if (strcmp(json_string_value(json_object_get(one, "name")), name) == 0)
			return one;
	return NULL;
}

// Returns how many turns a vGPU has had, from a listing; -1: it takes no part in turns.
static inline long long read_turns(const json_t *listing, const char *name)
{
	const json_t *turns = json_object_get(find_listed(listing, name), "turns");

	return json_is_object(turns) ? (long long)json_integer_value(json_object_get(turns, "turns")) : -1;
}
