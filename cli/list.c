#include "list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/printable.h"
#include "base/size.h"
#include "eviction.h"
#include "say.h"
#include "terms.h"

void table_add(struct table *table, const char *const *texts)
{
	if (table->rows == table->capacity) {
		size_t capacity = table->capacity ? 2 * table->capacity : 16;
		void *cells = realloc(table->cells, capacity * sizeof *table->cells);
		if (!cells) {
			say_error("out of memory");
			exit(EXIT_FAILED);
		}
		table->cells = cells;
		table->capacity = capacity;
	}
	for (int i = 0; i < table->columns; i++) {
		char *cell = table->cells[table->rows][i];
		snprintf(cell, TABLE_CELL, "%s", texts[i]);
		vg_make_printable(cell);
	}
	table->rows++;
}

void table_print_to(struct table *table, FILE *out)
{
	int widths[TABLE_COLUMNS] = {0};

	for (size_t row = 0; row < table->rows; row++)
		for (int i = 0; i < table->columns; i++) {
			int width = (int)strlen(table->cells[row][i]);
			widths[i] = width > widths[i] ? width : widths[i];
		}
	for (size_t row = 0; row < table->rows; row++) {
		for (int i = 0; i < table->columns; i++) {
			const char *cell = table->cells[row][i];
			bool last = i == table->columns - 1;
			if (table->right[i])
				fprintf(out, "%*s%s", widths[i], cell, last ? "\n" : "  ");
			else
				fprintf(out, "%-*s%s", last ? 0 : widths[i], cell, last ? "\n" : "  ");
		}
	}
	free(table->cells);
	table->cells = NULL;
}

void table_print(struct table *table)
{
	table_print_to(table, stdout);
}

const char *size_or_unknown(uint64_t bytes, int known, char *buffer)
{
	return known ? vg_size_format(bytes, buffer) : strcpy(buffer, "-");
}

const char *program_text(const struct vg_tenant_info *tenant, char *buffer)
{
	const char *mark = tenant->ended ? "(ended)" : tenant->guest ? "(guest)" : tenant->outside ? "(outside)" : "";
	const char *space = *tenant->command && *mark ? " " : "";
	snprintf(buffer, CELL_TEXT, "%.50s%s%s", tenant->command, space, mark);
	return buffer;
}

const char *container_text(const struct vg_tenant_info *tenant, char *buffer)
{
	*buffer = '\0';
	if (*tenant->container)
		snprintf(buffer, CELL_TEXT, " in %.12s%s%.45s", tenant->container, *tenant->image ? " " : "",
			 tenant->image);
	return buffer;
}

const char *time_text(double seconds, char *buffer)
{
	time_t whole = (time_t)seconds;
	struct tm parts;

	if (!localtime_r(&whole, &parts) || !strftime(buffer, CELL_TEXT, "%Y-%m-%d %H:%M:%S", &parts))
		snprintf(buffer, CELL_TEXT, "%.0f", seconds);
	return buffer;
}

json_t *text_json(const char *text)
{
	json_t *string = text ? json_string(text) : json_null();
	char *copy = string ? NULL : strdup(text);

	if (copy)
		string = json_string(vg_make_printable(copy));
	free(copy);
	return string;
}

json_t *text_or_null(const char *text)
{
	return text_json(*text ? text : NULL);
}

// Prints JSON and escapes unprintable characters. They occur only inside strings, where an escape sequence means the
// same character; four digits are enough for all of them.
static void put_escaped(const char *text)
{
	unsigned character;

	while (*text) {
		size_t length = vg_character_read(text, &character);
		if (vg_is_printable(character) || *text == '\n')
			fwrite(text, 1, length, stdout);
		else
			printf("\\u%04x", character);
		text += length;
	}
}

int print_json(json_t *body)
{
	json_t *whole = json_pack("{s:i}", "schema", 1);

	char *text = json_object_update(whole, body) == 0 ? json_dumps(whole, JSON_INDENT(2) | JSON_REAL_PRECISION(17))
							  : NULL;
	json_decref(body);
	json_decref(whole);
	if (!text) {
		say_error("cannot write the listing as JSON: out of memory, or a text in it is not UTF-8");
		return EXIT_FAILED;
	}
	put_escaped(text);
	putchar('\n');
	free(text);
	return EXIT_OK;
}

static json_t *known_integer(uint64_t value, int known)
{
	return known ? json_integer((json_int_t)value) : json_null();
}

static json_t *known_text(const char *text)
{
	return *text ? text_json(text) : json_null();
}

static json_t *tenant_json(const struct vg_tenant_info *tenant)
{
	return json_pack("{s:I, s:s, s:I, s:I, s:o, s:f, s:b, s:b, s:o, s:o, s:o, s:o, s:b}", "pid",
			 (json_int_t)tenant->pid, "command", tenant->command, "charged", (json_int_t)tenant->charged,
			 "overhead", (json_int_t)tenant->overhead, "physical",
			 known_integer(tenant->physical, tenant->physical_known), "started", tenant->started, "guest",
			 tenant->guest, "ended", tenant->ended, "eviction", eviction_json(&tenant->eviction), "deep",
			 deep_json(tenant), "container", known_text(tenant->container), "image",
			 known_text(tenant->image), "outside", tenant->outside);
}

json_t *vgpu_json(const struct vg_vgpu_info *vgpu)
{
	json_t *tenants = vgpu->tenants_known ? json_array() : json_null();
	bool sound = !vgpu->damaged;

	for (size_t i = 0; i < vgpu->tenant_count; i++)
		json_array_append_new(tenants, tenant_json(&vgpu->tenants[i]));
	return json_pack(
		"{s:s, s:i, s:s, s:I, s:o, s:o, s:o, s:b, s:o, s:b, s:s, s:s, s:o, s:s, s:o, s:b, s:f, s:I, s:o, "
		"s:b, s:o, s:o, s:o, s:o, s:b, s:o, s:o}",
		"name", vgpu->name, "device", vgpu->device, "uuid", vgpu->uuid, "memory", (json_int_t)vgpu->memory,
		"charged", known_integer(vgpu->charged, sound), "overhead", known_integer(vgpu->overhead, sound),
		"physical", known_integer(vgpu->physical, vgpu->physical_known), "damaged", !sound, "share",
		known_integer(vgpu->share, vgpu->share != 0), "share_limit", vgpu->share_limit != 0, "class",
		vgpu->scheduling_class == VG_CLASS_LATENCY ? "latency" : "batch", "mode", mode_text(vgpu->mode),
		"turns", turns_json(&vgpu->turns), "owner", vgpu->owner, "group", text_or_null(vgpu->group),
		"ephemeral", vgpu->ephemeral, "created", vgpu->created, "refusals", (json_int_t)vgpu->refusals,
		"shared", known_integer(vgpu->shared, sound), "evictable", vgpu->evictable, "swap",
		known_integer(vgpu->swap, vgpu->evictable), "fixed", known_integer(vgpu->fixed, vgpu->evictable),
		"idle_suspend", known_integer(vgpu->idle_suspend, vgpu->idle_suspend != 0), "eviction",
		vgpu_eviction_json(vgpu), "drained", vgpu->drained, "job", text_or_null(vgpu->job), "tenants", tenants);
}
