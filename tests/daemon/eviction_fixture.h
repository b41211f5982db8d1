// Starts a daemon with an evictable vGPU, and reads the state of its eviction from the daemon's listing. Include in
// exactly one file per program. One thread.
#pragma once
#include "daemon_fixture.h"
#include "player.h"

static const struct player_plan obedient = {.bytes = GIB};

static inline const char *path_of(const char *name)
{
	static char path[400];

	snprintf(path, sizeof path, "%s/ledgers/%s", runtime_dir, name);
	return path;
}

static inline struct vg_ledger *ledger_of(const char *name)
{
	struct vg_ledger *ledger;
	int r = vg_ledger_open(path_of(name), &ledger);

	for (int i = 0; i < 2000 && r == -ENOENT; i++) { // a daemon that has just started creates missing ledgers
		poll(NULL, 0, 5);
		r = vg_ledger_open(path_of(name), &ledger);
	}
	CHECK_INT(r, 0);
	return ledger;
}

static inline void start_evictable_node(void)
{
	fresh_node();
	start_daemon();
	CHECK_AGREED(ask("{'op':'create','name':'a','memory':%llu,'device':0,'evictable':true}", 4 * GIB));
}

// Returns the value of a key from the listing: of the vGPU, or of its process `pid`. The caller owns the reference.
static inline json_t *read_member(const char *name, pid_t pid, const char *key)
{
	json_t *reply = ask("{'op':'inspect','name':'%s'}", name), *vgpu = json_object_get(reply, "vgpu"), *one;
	json_t *from = pid ? NULL : json_object_get(vgpu, "eviction"), *value;
	size_t i;

	json_array_foreach(json_object_get(vgpu, "tenants"), i, one)
		if (pid && json_integer_value(json_object_get(one, "pid")) == pid)
			from = strcmp(key, "deep") == 0 ? one : json_object_get(one, "eviction");
	value = json_incref(json_object_get(from, key));
	if (!value)
		FAIL("%s, process %d: no \"%s\" in the listing", name, (int)pid, key);
	json_decref(reply);
	return value;
}

static inline json_int_t number_of(const char *name, pid_t pid, const char *key)
{
	json_t *value = read_member(name, pid, key);
	json_int_t number = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);

	json_decref(value);
	return number;
}

static inline const char *text_of(const char *name, pid_t pid, const char *key)
{
	static char text[64];
	json_t *value = read_member(name, pid, key);

	snprintf(text, sizeof text, "%s", json_is_string(value) ? json_string_value(value) : "null");
	json_decref(value);
	return text;
}

static inline void await_state(const char *name, pid_t pid, const char *wanted)
{
	const char *state = "";

	for (int i = 0; i < 1000; i++) {
		state = text_of(name, pid, "state");
		if (strcmp(state, wanted) == 0 && !(pid && number_of(name, pid, "pending")))
			return;
		poll(NULL, 0, 5);
	}
	FAIL("%s, process %d: \"%s\", not \"%s\"", name, (int)pid, state, wanted);
}

// Returns how many processes the daemon has asked to suspend or resume, according to its answer.
static inline size_t count_asked(json_t *reply)
{
	if (!agreed(reply))
		FAIL("%s", json_string_value(json_object_get(reply, "message")));
	CHECK_STR(json_string_value(json_object_get(reply, "name")), "a");
	size_t count = json_array_size(json_object_get(reply, "asked"));
	json_decref(reply);
	return count;
}
