// Keeps the journal on the disk, in two files beside the state file: NAME.events and NAME.events.old, each of at most
// JOURNAL_FILE_SIZE. A line has one event: the hash of its JSON in 16 hexadecimal digits, a space, and the JSON.
// Damaged lines are skipped. If the disk is full, events stay in memory, and are written with a later event. The
// daemon's log says once that the journal cannot be written, and again when it can. Main thread only.
#pragma once
#include "daemon/node.h"

enum { JOURNAL_FILE_SIZE = 1 << 20 };

// Begins to write the events to the disk that are not there yet.
void journal_file_write(struct node *node);
bool journal_file_is_writing(void);
// Reads both files, and returns the number of damaged lines.
uint64_t journal_file_load(struct node *node);
uint64_t journal_file_errors(void);
// Returns the number of the last event on the disk; 0: the disk has no event.
uint64_t journal_file_last(void);
// Writes to the daemon's log how many events are not on the disk. Call it when the daemon ends, since these events are
// lost then.
void journal_file_finish(const struct node *node);
