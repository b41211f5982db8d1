// Writes the state file. Syncing a disk takes long, so a thread does it (work.h), one write after the other. The next
// write contains all changes that are made during a write. So no request waits for more than two writes, and the file
// never returns to an older state.
#include "daemon/save.h"

#include "base/descriptor.h"
#include "daemon/say.h"
#include "daemon/state.h"
#include "daemon/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct write {
	struct work work;
	const char *path;
	char *text;
	uint64_t number; // the number of the last change in `text`
	int error;
};

static uint64_t last_number;
static bool is_writing;
static struct change *waiting;
static void (*answer_change)(struct node *node, const struct change *change, int error);

void save_set_answer(void (*answer)(struct node *node, const struct change *change, int error))
{
	answer_change = answer;
}

static void run_write(struct work *work)
{
	struct write *write = (struct write *)work;

	write->error = vg_file_write_atomic(write->path, write->text, strlen(write->text), 0600);
}

static void finish_changes(struct node *node, uint64_t number, int error)
{
	for (struct change **link = &waiting; *link;) {
		struct change *change = *link;
		if (change->number > number) {
			link = &change->next;
			continue;
		}
		*link = change->next;
		if (change->vgpu)
			change->vgpu->change = NULL;
		answer_change(node, change, error);
		free(change);
		link = &waiting; // start again: finish() may have removed changes from the list, or added some
	}
}

static void end_write(struct node *node, struct work *work);

static int begin_write(struct node *node)
{
	struct write *write = calloc(1, sizeof *write);
	char *text = state_text(node);

	if (!write || !text) {
		free(write);
		free(text);
		return -ENOMEM;
	}
	*write = (struct write){.work = {.lane = WORK_DISK, .run = run_write, .done = end_write},
				.path = node->state_path,
				.text = text,
				.number = last_number};
	if (work_post(geteuid(), &write->work)) {
		is_writing = true;
		return 0;
	}
	free(text);
	free(write);
	return -EAGAIN;
}

static void report_error(const struct node *node, int error)
{
	say("%s cannot be written: %s", node->state_path, strerror(-error));
}

static void end_write(struct node *node, struct work *work)
{
	struct write *write = (struct write *)work;
	uint64_t number = write->number;
	int r;

	is_writing = false;
	if (write->error)
		report_error(node, write->error);
	finish_changes(node, number, write->error);
	free(write->text);
	free(write);
	if (last_number > number && !is_writing && (r = begin_write(node)) < 0) {
		report_error(node, r);
		finish_changes(node, last_number, r);
	}
	node->must_retry = true;
}

int save_state(struct node *node)
{
	last_number++;
	int r = is_writing ? 0 : begin_write(node);
	if (r < 0)
		report_error(node, r);
	return r;
}

json_t *save_change(struct node *node, const struct change *wanted)
{
	bool is_ephemeral = wanted->vgpu && wanted->vgpu->ephemeral;
	struct change *change = is_ephemeral ? NULL : malloc(sizeof *change);

	if (is_ephemeral)
		return wanted->finish(node, wanted, 0);
	int r = change ? save_state(node) : -ENOMEM;
	if (r < 0) {
		free(change);
		return wanted->finish(node, wanted, r);
	}
	*change = *wanted;
	change->number = last_number;
	change->next = waiting;
	waiting = change;
	if (change->vgpu)
		change->vgpu->change = change;
	node->change = change;
	return NULL;
}

bool save_is_writing(void)
{
	return is_writing;
}
