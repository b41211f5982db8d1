#include "exporter/turns.h"

#include <stdbool.h>
#include <stdio.h>
#include <time.h>

// The daemon ends a recording after 3 seconds without a request. The next request then begins another one.
static const double FRESH_SECONDS = 0.5, LEASE_SECONDS = 2.8;
enum { ANSWERS_AT_ONCE = 4 };

static double read_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void add_part(struct turns *turns, const struct vg_phase *phase)
{
	struct turns_part *part = &turns->at[++turns->last % TURNS_MOST];

	*part = (struct turns_part){.device = phase->device,
				    .turn = phase->turn,
				    .begin_ns = phase->begin_ns,
				    .end_ns = phase->end_ns,
				    .charged_ns = phase->charged_ns,
				    .launches = phase->launches};
	snprintf(part->vgpu, sizeof part->vgpu, "%s", phase->vgpu);
	snprintf(part->phase, sizeof part->phase, "%s", phase->phase);
	if (turns->last - turns->first >= TURNS_MOST)
		turns->first = turns->last - TURNS_MOST + 1;
}

// Adds the parts of a list. If `begins`, a recording begins: earlier parts are forgotten.
static void add_list(struct turns *turns, const struct vg_phase_list *list, bool begins)
{
	if (begins) {
		turns->since_ns = list->now_ns;
		turns->first = turns->last + 1;
	}
	if (list->lost)
		turns->gap = turns->last;
	turns->now_ns = list->now_ns;
	for (size_t i = 0; i < list->count; i++)
		add_part(turns, &list->phases[i]);
}

// Asks the daemon until it has no more, a bounded number of times. Another daemon's numbers begin again.
static enum vg_status ask_daemon(struct vg_node *node, struct turns *turns, bool begins)
{
	static uint64_t next;
	static double started;
	bool has_more = true;

	for (int i = 0; i < ANSWERS_AT_ONCE && has_more; i++) {
		const struct vg_phase_options options = {.size = sizeof options, .after = next, .begins = begins};
		struct vg_phase_list *list;
		enum vg_status status = vg_phase_list(node, &options, &list);
		if (status)
			return status;
		begins |= list->started != started;
		add_list(turns, list, begins);
		next = list->next;
		started = list->started;
		has_more = list->more;
		begins = false;
		vg_phase_list_free(list);
	}
	return VG_OK;
}

const struct turns *turns_follow(struct vg_node *node)
{
	static struct turns turns = {.first = 1};
	static double asked = -1e9, answered = -1e9;
	double now = read_clock();

	if (now - asked < FRESH_SECONDS)
		return &turns;
	enum vg_status status = ask_daemon(node, &turns, now - answered > LEASE_SECONDS);
	asked = read_clock(); // after a failure, too: the next attempt comes later
	turns.problem[0] = '\0';
	if (status)
		snprintf(turns.problem, sizeof turns.problem, "%s", vg_last_error()->text);
	else
		answered = now;
	return &turns;
}
