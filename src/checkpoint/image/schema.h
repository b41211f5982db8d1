// Defines all keys of virgate.json with their types, in one table. Readers trust only what was checked against the
// table. Tests compare the table with virgate-image(5) and with a dump. Any thread.
#pragma once
#include "virgate/status.h"

#include <jansson.h>
#include <stdbool.h>

enum schema_type {
	SCHEMA_TEXT,
	SCHEMA_NUMBER, // an integer, not negative
	SCHEMA_PID,    // 1 to 4194304
	SCHEMA_TIME,   // seconds since the epoch
	SCHEMA_FLAG,
	SCHEMA_LIST,
	SCHEMA_GROUP, // an object with more keys, which have their own rows
};

struct schema_row {
	const char *path; // "gpus[].uuid": this key in each item of the list "gpus"; "kinds.?": any key in "kinds"
	enum schema_type type;
	bool may_be_unknown; // the value may be null or missing
};
extern const struct schema_row schema_rows[]; // ends with a row whose path is NULL

// Returns the name of a type: "text", "number" and so on.
const char *schema_type_text(enum schema_type type);
// Checks a description against the table. `name` is for messages. Unknown keys are allowed, because later versions may
// add some. INTEGRITY: a key is missing or has the wrong type.
enum vg_status schema_check(const json_t *description, const char *name);
