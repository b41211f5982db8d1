// Stores the reason why a job has no vGPU. slurmd writes this sentence, and the steps of the job read it. A failed
// prolog would drain the node instead. Any thread.
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Writes the sentence to a file that any user may read. Creates the directory if necessary. Returns 0 or -errno.
int refusal_write(const char *state_dir, uint32_t job, const char *text);
// Reads the sentence. Returns false if the job has none.
bool refusal_read(const char *state_dir, uint32_t job, char *ret_text, size_t capacity);
void refusal_remove(const char *state_dir, uint32_t job);
