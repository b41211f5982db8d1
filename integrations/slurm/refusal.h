// A sentence that slurmd leaves for the steps of a job: why the job has no vGPU. A failed prolog would drain the node
// instead. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Writes the sentence, which any user may read. Creates the directory. Returns 0 or -errno.
int refusal_write(const char *state_dir, uint32_t job, const char *text);
// Returns whether there is a sentence for the job.
bool refusal_read(const char *state_dir, uint32_t job, char *ret_text, size_t capacity);
void refusal_remove(const char *state_dir, uint32_t job);
