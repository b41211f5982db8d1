#include "checkpoint/image/schema.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

const struct schema_row schema_rows[] = {
	{"xxh3", SCHEMA_TEXT, false},
	{"version", SCHEMA_NUMBER, false},
	{"created", SCHEMA_TIME, false},
	{"virgate", SCHEMA_TEXT, false},
	{"criu", SCHEMA_TEXT, false},
	{"host", SCHEMA_TEXT, true},
	{"kernel", SCHEMA_GROUP, false},
	{"kernel.release", SCHEMA_TEXT, false},
	{"kernel.machine", SCHEMA_TEXT, false},
	{"cpu", SCHEMA_GROUP, false},
	{"cpu.model", SCHEMA_TEXT, true},
	{"cpu.features", SCHEMA_TEXT, true},
	{"driver", SCHEMA_GROUP, false},
	{"driver.version", SCHEMA_TEXT, true},
	{"driver.cuda", SCHEMA_TEXT, true},
	{"gpus", SCHEMA_LIST, false},
	{"gpus[]", SCHEMA_GROUP, false},
	{"gpus[].uuid", SCHEMA_TEXT, false},
	{"gpus[].name", SCHEMA_TEXT, false},
	{"gpus[].memory", SCHEMA_NUMBER, true},
	{"gpus[].compute_capability", SCHEMA_TEXT, true},
	{"gpus[].compute_mode", SCHEMA_TEXT, true},
	{"gpus[].ecc", SCHEMA_FLAG, true},
	{"gpus[].mig", SCHEMA_FLAG, true},
	{"gpus[].persistence", SCHEMA_FLAG, true},
	{"gpus[].held", SCHEMA_NUMBER, true},
	{"roots", SCHEMA_LIST, false},
	{"roots[]", SCHEMA_PID, false},
	{"processes", SCHEMA_LIST, false},
	{"processes[]", SCHEMA_GROUP, false},
	{"processes[].pid", SCHEMA_PID, false},
	{"processes[].parent", SCHEMA_NUMBER, false},
	{"processes[].group", SCHEMA_NUMBER, true},
	{"processes[].session", SCHEMA_NUMBER, true},
	{"processes[].threads", SCHEMA_LIST, false},
	{"processes[].threads[]", SCHEMA_PID, false},
	{"processes[].user", SCHEMA_NUMBER, true},
	{"processes[].command", SCHEMA_TEXT, false},
	{"processes[].command_line", SCHEMA_LIST, false},
	{"processes[].command_line[]", SCHEMA_TEXT, false},
	{"processes[].program", SCHEMA_TEXT, true},
	{"processes[].build_id", SCHEMA_TEXT, true},
	{"processes[].folder", SCHEMA_TEXT, true},
	{"processes[].host_memory", SCHEMA_NUMBER, true},
	{"processes[].cuda", SCHEMA_FLAG, false},
	{"processes[].gpus", SCHEMA_LIST, true},
	{"processes[].gpus[]", SCHEMA_GROUP, false},
	{"processes[].gpus[].uuid", SCHEMA_TEXT, false},
	{"processes[].gpus[].held", SCHEMA_NUMBER, true},
	{"processes[].gpus[].contexts", SCHEMA_NUMBER, true},
	{"processes[].gpus[].kinds", SCHEMA_GROUP, true},
	{"processes[].gpus[].kinds.?", SCHEMA_NUMBER, false},
	{"mapped_files", SCHEMA_LIST, false},
	{"mapped_files[]", SCHEMA_GROUP, false},
	{"mapped_files[].path", SCHEMA_TEXT, false},
	{"mapped_files[].bytes", SCHEMA_NUMBER, false},
	{"mapped_files[].build_id", SCHEMA_TEXT, true},
	{"open_files", SCHEMA_LIST, false},
	{"open_files[]", SCHEMA_GROUP, false},
	{"open_files[].path", SCHEMA_TEXT, false},
	{"open_files[].bytes", SCHEMA_NUMBER, false},
	{"open_files[].written", SCHEMA_FLAG, false},
	{"vgpus", SCHEMA_LIST, true},
	{"vgpus[]", SCHEMA_GROUP, false},
	{"vgpus[].name", SCHEMA_TEXT, false},
	{"vgpus[].ledger", SCHEMA_TEXT, false},
	{"vgpus[].uuid", SCHEMA_TEXT, false},
	{"vgpus[].memory", SCHEMA_NUMBER, false},
	{"vgpus[].share", SCHEMA_NUMBER, false},
	{"vgpus[].share_limit", SCHEMA_FLAG, true},
	{"vgpus[].class", SCHEMA_TEXT, true},
	{"vgpus[].ephemeral", SCHEMA_FLAG, false},
	{"vgpus[].evictable", SCHEMA_FLAG, true},
	{"vgpus[].swap", SCHEMA_NUMBER, true},
	{"vgpus[].fixed", SCHEMA_NUMBER, true},
	{"vgpus[].owner", SCHEMA_NUMBER, true},
	{"vgpus[].group", SCHEMA_NUMBER, true},
	{"tenants", SCHEMA_LIST, true},
	{"tenants[]", SCHEMA_GROUP, false},
	{"tenants[].pid", SCHEMA_PID, false},
	{"tenants[].vgpu", SCHEMA_TEXT, false},
	{"tenants[].slot", SCHEMA_NUMBER, false},
	{"tenants[].address", SCHEMA_NUMBER, false},
	{"tenants[].command", SCHEMA_TEXT, false},
	{"tenants[].program", SCHEMA_TEXT, false},
	{"tenants[].entered", SCHEMA_NUMBER, false},
	{"tenants[].undeclared", SCHEMA_NUMBER, false},
	{"tenants[].first_context", SCHEMA_FLAG, false},
	{"tenants[].host", SCHEMA_FLAG, false},
	{"tenants[].charged", SCHEMA_GROUP, false},
	{"tenants[].charged.?", SCHEMA_NUMBER, false},
	{"device", SCHEMA_GROUP, true},
	{"device.bytes", SCHEMA_NUMBER, true},
	{"device.zero", SCHEMA_NUMBER, true},
	{"device.linked", SCHEMA_NUMBER, true},
	{"device.copied", SCHEMA_NUMBER, true},
	{"device.window", SCHEMA_FLAG, true},
	{"files", SCHEMA_LIST, false},
	{"files[]", SCHEMA_GROUP, false},
	{"files[].name", SCHEMA_TEXT, false},
	{"files[].bytes", SCHEMA_NUMBER, false},
	{"files[].xxh3", SCHEMA_TEXT, true},
	{"files[].raw", SCHEMA_NUMBER, true},
	{"files[].stored", SCHEMA_NUMBER, true},
	{"files[].compression", SCHEMA_TEXT, true},
	{"files[].chunk_bytes", SCHEMA_NUMBER, true},
	{"files[].chunks", SCHEMA_LIST, true},
	{"files[].chunks[]", SCHEMA_TEXT, false},
	{0},
};

const char *schema_type_text(enum schema_type type)
{
	static const char *const texts[] = {"text", "number", "pid", "time", "flag", "list", "group"};

	return texts[type];
}

static bool has_type(const json_t *value, enum schema_type type)
{
	switch (type) {
	case SCHEMA_TEXT:
		return json_is_string(value);
	case SCHEMA_NUMBER:
		return json_is_integer(value) && json_integer_value(value) >= 0;
	case SCHEMA_PID:
		return json_is_integer(value) && json_integer_value(value) >= 1 && json_integer_value(value) <= 4194304;
	case SCHEMA_TIME:
		return json_is_number(value) && json_number_value(value) >= 0 && json_number_value(value) < 1e12;
	case SCHEMA_FLAG:
		return json_is_boolean(value);
	case SCHEMA_LIST:
		return json_is_array(value);
	case SCHEMA_GROUP:
		return json_is_object(value);
	}
	return false;
}

// Checks the values at one path of the schema. `rest` is the part of the path that is still to be followed. Returns
// true if a key on the path is missing: the row for that key reports it.
static bool row_holds(const struct schema_row *row, const char *rest, json_t *value)
{
	char key[64];
	json_t *item;
	size_t i;

	if (!*rest)
		return value && !json_is_null(value) ? has_type(value, row->type) : row->may_be_unknown;
	if (rest[0] == '[') {
		json_array_foreach(value, i, item)
			if (!row_holds(row, rest + 2, item))
				return false;
		return true;
	}
	rest += *rest == '.';
	if (!json_is_object(value))
		return true;
	if (*rest == '?') {
		const char *name;
		json_object_foreach(value, name, item)
			if (!row_holds(row, rest + 1, item))
				return false;
		return true;
	}
	size_t length = strcspn(rest, ".[");
	snprintf(key, sizeof key, "%.*s", (int)length, rest);
	item = json_object_get(value, key);
	return item || !rest[length] ? row_holds(row, rest + length, item) : true;
}

enum vg_status schema_check(const json_t *description, const char *name)
{
	if (!json_is_object(description))
		return vg_fail(VG_INTEGRITY, 0, "%s is no group of keys", name);
	for (const struct schema_row *row = schema_rows; row->path; row++)
		if (!row_holds(row, row->path, (json_t *)description))
			return vg_fail(VG_INTEGRITY, 0, "%s: \"%s\" is missing, or no %s", name, row->path,
				       schema_type_text(row->type));
	return VG_OK;
}
