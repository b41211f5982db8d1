// Formats figures as short texts for columns of the table. Any thread.
#pragma once
#include <stdint.h>

#include <virgate/vgpu.h>

enum { SHORT_TEXT = 16, STATE_TEXT = 240 };

// Formats a size in at most five characters: "0", "512M", "2.0G", "96.5G", "128G".
const char *short_size(uint64_t bytes, char buffer[SHORT_TEXT]);
// Formats a duration in at most six characters: "0.4 s", "59 s", "12 min", "3 h", "14 d".
const char *short_duration(uint64_t nanoseconds, char buffer[SHORT_TEXT]);
// Returns `value` divided by `whole`, or 0 if `whole` is 0.
double part(uint64_t value, uint64_t whole);
// Describes the state of a program, such as "suspended" or "guest"; "" if the program simply runs.
const char *tenant_state(const struct vg_tenant_info *tenant, char buffer[STATE_TEXT]);
