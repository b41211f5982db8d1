// Every key of virgate.json with its type, in one table: what reads an image trusts the table and nothing else, and the
// tests hold it beside virgate-image(5) and beside what a dump writes. Any thread.
#pragma once
#include "virgate/status.h"

#include <jansson.h>
#include <stdbool.h>

enum schema_type {
	SCHEMA_TEXT,
	SCHEMA_NUMBER, // a whole one, not negative
	SCHEMA_PID,    // 1 to 4194304
	SCHEMA_TIME,   // seconds since the epoch
	SCHEMA_FLAG,
	SCHEMA_LIST,
	SCHEMA_GROUP, // of keys
};

struct schema_row {
	const char *path; // "gpus[].uuid": in every item of the list "gpus"; "kinds.?": whatever key
	enum schema_type type;
	bool may_be_unknown; // null, or not there
};
extern const struct schema_row schema_rows[]; // a row without a path is behind the last

// "text", "number", ...
const char *schema_type_text(enum schema_type type);
// INTEGRITY: which key is missing, or is something else. `name` is the file's. What is not in the table is let pass: a
// later Virgate may say more.
enum vg_status schema_check(const json_t *description, const char *name);
