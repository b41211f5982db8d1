// share list: lists publications and their readers.
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "list.h"
#include "options.h"
#include "session.h"
#include "virgate/broker.h"

static void add_publication(struct table *table, const struct vg_publication_info *one)
{
	char generation[CELL_TEXT], size[VG_SIZE_TEXT], device[CELL_TEXT], owner[2 * CELL_TEXT], mode[CELL_TEXT];
	char readers[CELL_TEXT];

	snprintf(generation, sizeof generation, "%llu", (unsigned long long)one->generation);
	snprintf(device, sizeof device, one->device < 0 ? "-" : "%d", one->device);
	snprintf(owner, sizeof owner, *one->group ? "%.60s:%.60s" : "%.60s", one->owner, one->group);
	snprintf(mode, sizeof mode, one->mode ? "%03o" : "-", one->mode);
	snprintf(readers, sizeof readers, "%u", one->leases);
	table_add(table, (const char *const[]){one->name, generation, size_or_unknown(one->bytes, one->bytes > 0, size),
					       device, owner, mode, *one->vgpu ? one->vgpu : "-", readers, one->state});
}

static void add_reader(struct table *table, const struct vg_reader_info *reader)
{
	char name[2 * CELL_TEXT];

	snprintf(name, sizeof name, "  %lld %.60s", (long long)reader->pid, reader->command);
	table_add(table,
		  (const char *const[]){name, "", "", "", reader->user, reader->writable ? "rw" : "r", "", "", ""});
}

static void print_table(const struct vg_publication_list *list, bool readers)
{
	struct table table = {.columns = 9, .right = {[1] = true, [2] = true, [7] = true}};

	table_add(&table, (const char *const[]){"NAME", "GENERATION", "SIZE", "DEVICE", "OWNER", "MODE", "VGPU",
						"READERS", "STATE"});
	for (size_t i = 0; i < list->count; i++) {
		add_publication(&table, &list->publications[i]);
		for (size_t j = 0; readers && j < list->publications[i].reader_count; j++)
			add_reader(&table, &list->publications[i].readers[j]);
	}
	table_print(&table);
}

static json_t *publication_json(const struct vg_publication_info *one)
{
	json_t *readers = one->readers_known ? json_array() : json_null(); // JSON null: the readers are unknown
	char mode[8];

	snprintf(mode, sizeof mode, "%04o", one->mode);
	for (size_t i = 0; i < one->reader_count; i++)
		json_array_append_new(readers,
				      json_pack("{s:I, s:s, s:s, s:s, s:f}", "pid", (json_int_t)one->readers[i].pid,
						"command", one->readers[i].command, "user", one->readers[i].user,
						"access", one->readers[i].writable ? "read-write" : "read", "since",
						one->readers[i].since));
	bool known = strcmp(one->state, "lost") != 0;
	return json_pack("{s:s, s:I, s:s, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "name", one->name,
			 "generation", (json_int_t)one->generation, "state", one->state, "bytes",
			 known ? json_integer((json_int_t)one->bytes) : json_null(), "ranges",
			 known ? json_integer(one->ranges) : json_null(), "device",
			 one->device < 0 ? json_null() : json_integer(one->device), "owner", one->owner, "group",
			 text_or_null(one->group), "mode", known ? json_string(mode) : json_null(), "vgpu",
			 text_or_null(one->vgpu), "publisher",
			 one->publisher ? json_integer((json_int_t)one->publisher) : json_null(), "published",
			 known ? json_real(one->published) : json_null(), "leases", (json_int_t)one->leases, "readers",
			 readers);
}

static int show_publications(struct vg_node *node, const struct arguments *arguments)
{
	struct vg_publication_list *list;
	int r = EXIT_OK;

	if (vg_publication_list(node, &list))
		return fail_with_last_error(arguments);
	if (option_value(arguments, "json")) {
		json_t *array = json_array();
		for (size_t i = 0; i < list->count; i++)
			json_array_append_new(array, publication_json(&list->publications[i]));
		r = print_json(json_pack("{s:o}", "publications", array));
	} else {
		print_table(list, !option_value(arguments, "quiet"));
	}
	vg_publication_list_free(list);
	return r;
}

static int run_share_list(const struct arguments *arguments)
{
	return run_in_session(arguments, show_publications);
}

static const struct option options[] = {
	{"quiet", 'q', NULL, "leave out the readers", 0},
	OPTION_JSON,
	OPTION_SIM,
	{0},
};

const struct verb verb_share_list = {
	.name = "share list",
	.synopsis = "[--quiet] [--json] [--sim]",
	.summary = "List the publications and their readers",
	.details = "Prints a row for each generation that is open. VGPU is the vGPU that is charged. The readers of "
		   "other users' publications are not shown.",
	.options = options,
	.run = run_share_list,
};
