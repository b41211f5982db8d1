// Writes the figures of the page as JSON. Unknown figures are null. Any thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "exporter/gather.h"
#include "exporter/turns.h"

enum { API_VGPUS_MOST = 1000, API_POINTS = 120, API_PARTS_MOST = 1024 };

void api_write_problem(FILE *out, const char *problem);
// Writes devices, at most API_VGPUS_MOST vGPUs and, unless `is_public`, at most PAGE_TENANTS_MOST tenants of each.
void api_write_overview(FILE *out, const struct gathered *gathered, bool is_public);
// Reads the names of figures with commas between them; NULL: all figures. Returns false if a name is unknown.
bool api_read_figures(const char *text, unsigned *ret_figures);
// Writes figures of one vGPU with all its samples; NULL: of all GPUs and vGPUs, with samples merged to about
// API_POINTS points. Returns false, and writes nothing, if the vGPU has no series.
bool api_write_history(FILE *out, const struct samples *samples, const char *vgpu, unsigned figures);
// Writes the events whose numbers are larger than `after`, oldest first; of too many the newest `most`.
void api_write_events(FILE *out, const struct vg_journal_list *events, uint64_t after, uint64_t most);
// Writes the oldest API_PARTS_MOST parts whose numbers are larger than `after`. If `after` is 0, or larger than all
// numbers, writes the oldest of all. Unless `is_public`, with launches.
void api_write_turns(FILE *out, const struct turns *turns, uint64_t after, bool is_public);
