// Prints listings: aligned tables for people, JSON for programs. One thread.
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "virgate/vgpu.h"

enum { TABLE_COLUMNS = 16, TABLE_CELL = 1024 };

struct table {
	int columns;
	bool right[TABLE_COLUMNS]; // which columns are aligned to the right
	char (*cells)[TABLE_COLUMNS][TABLE_CELL];
	size_t rows, capacity;
};

// Adds a row. Copies the texts, and replaces unprintable characters.
void table_add(struct table *table, const char *const *texts);
// Prints the table with two spaces between columns, and frees the rows.
void table_print_to(struct table *table, FILE *out);
void table_print(struct table *table); // to standard output

// Returns a size such as "1.5 GiB", or "-" if it is unknown.
const char *size_or_unknown(uint64_t bytes, int known, char *buffer);
// Returns the name and kind of a process: "python"; "python (guest)" if it has only opened memory of the vGPU; "python
// (ended)" if it has ended.
const char *program_text(const struct vg_tenant_info *tenant, char *buffer);
// Writes " in ID IMAGE", with the first 12 characters of the id, for a tenant in a container; "" for others.
const char *container_text(const struct vg_tenant_info *tenant, char *buffer);
// Formats the time in the local time zone: "2026-01-31 09:30:00".
const char *time_text(double seconds, char *buffer);
enum { CELL_TEXT = 64 };

// Returns a JSON string, or null if `text` is NULL. Replaces bytes that are not UTF-8.
json_t *text_json(const char *text);
json_t *text_or_null(const char *text); // returns JSON null if `text` is NULL or ""
// Prints {"schema":1, ...} with the members of `body`. Consumes `body`. Escapes unprintable characters. Returns the
// verb's exit code.
int print_json(json_t *body);
json_t *vgpu_json(const struct vg_vgpu_info *vgpu);
