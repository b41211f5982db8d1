// The verbs with the real daemon, on two simulated GPUs of 4 GiB. Include in one file per test program.
#pragma once

#include <jansson.h>

#include "served.h"

#define GIB 1073741824ll

static inline void node_end(void)
{
	if (place.server > 0) { // of a test that failed: a stand-in, which no verb ends
		place_end();
	} else if (*place.folder) {
		begin(WORDS("shutdown"));
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
}

static inline void node_begin(void)
{
	char path[128];
	static bool registered;

	node_end();
	place_begin();
	if (!registered)
		atexit(node_end); // runs before place_end
	registered = true;
	unsetenv("VIRGATE_LIBDIR");
	snprintf(path, sizeof path, "%s/state", place.folder);
	setenv("VIRGATE_STATE_DIR", path, 1);
	snprintf(path, sizeof path, "%s/sim", place.folder);
	setenv("VIRGATE_SIM_DIR", path, 1);
	mkdir(path, 0700);
	setenv("VIRGATE_SIM", "devices=2,memory=4G", 1);
	setenv("VIRGATE_TIMEOUT", "20", 1);
	setenv("VIRGATE_DAEMON", DAEMON, 1);
}

static inline json_t *listing(const char *const *words)
{
	if (finish(begin(words)) != 0)
		FAIL("%s: %s", words[1], result.err);
	json_t *json = json_loads(result.out, 0, NULL);
	if (!json)
		FAIL("not JSON: %s", result.out);
	CHECK_INT(json_integer_value(json_object_get(json, "schema")), 1);
	return json;
}

static inline void node_read_uuids(char ret_uuids[2][48])
{
	json_t *json = listing(WORDS("devices", "--json"));

	for (size_t i = 0; i < 2; i++)
		snprintf(ret_uuids[i], sizeof ret_uuids[i], "%s",
			 json_string_value(json_object_get(
				 json_array_get(json_object_get(json, "devices"), i), "uuid")));
	json_decref(json);
}
