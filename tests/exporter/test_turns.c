// Tests which phases of vGPUs (a turn, waiting, …) the exporter keeps for its readers, and when it asks the daemon.
// Functions of this file replace those of the library.
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exporter/api.h"
#include "exporter/turns.h"
#include "test.h"

enum { PATIENCE_S = 60, ANSWER_MOST = 1024 };

static struct vg_error error = {.text = "no daemon <listens>"};
static struct vg_phase phases[ANSWER_MOST];
static struct vg_phase_list list = {.phases = phases, .started = 1};
static enum vg_status result;
static unsigned asked, begun; // the number of requests, and of those that begin a recording
static uint64_t waiting;      // how many phases the daemon has not sent yet

const struct vg_error *vg_last_error(void)
{
	return &error;
}

enum vg_status vg_phase_list(struct vg_node *node, const struct vg_phase_options *options,
			     struct vg_phase_list **ret_list)
{
	asked++;
	begun += options->begins != 0;
	if (result)
		return result;
	list.count = options->begins ? 0 : waiting < ANSWER_MOST ? (size_t)waiting : ANSWER_MOST;
	waiting -= list.count;
	list.more = waiting > 0;
	for (size_t i = 0; i < list.count; i++)
		phases[i] = (struct vg_phase){.vgpu = "train",
					      .phase = "holds",
					      .turn = list.next + i + 1,
					      .begin_ns = list.now_ns + i,
					      .end_ns = list.now_ns + i + 1,
					      .launches = i % 2 ? VG_HISTORY_UNKNOWN : 3};
	list.next += list.count;
	list.now_ns += ANSWER_MOST;
	*ret_list = &list;
	return VG_OK;
}

void vg_phase_list_free(struct vg_phase_list *freed)
{
}

// Waits until turns_follow() asks the daemon again. It does so at most twice a second.
static const struct turns *follow(void)
{
	const time_t end = time(NULL) + PATIENCE_S;
	const unsigned before = asked;
	const struct turns *turns;

	for (;;) {
		turns = turns_follow(NULL);
		if (asked > before)
			return turns;
		CHECK(time(NULL) < end);
		poll(NULL, 0, 10);
	}
}

// Simulates another daemon, so that a new recording begins in any case. The recording has `count` phases.
static const struct turns *record(uint64_t count)
{
	list.started++;
	list.lost = 0;
	waiting = 0;
	follow();
	waiting = count;
	return follow();
}

static const char *text_of(const struct turns *turns, uint64_t after, bool is_public)
{
	static char *text;
	size_t size;

	free(text);
	FILE *out = open_memstream(&text, &size);
	api_write_turns(out, turns, after, is_public);
	fclose(out);
	return text;
}

static size_t count_parts(const char *text)
{
	size_t count = 0;

	for (; (text = strstr(text, "\"vgpu\"")); text++)
		count++;
	return count;
}

TEST(a_recording_begins_once_and_is_shared)
{
	const time_t start = time(NULL);
	const struct turns *turns = follow();

	CHECK_INT(begun, 1);
	CHECK_INT(count_parts(text_of(turns, 0, false)), 0);
	waiting = 10;
	turns = follow();
	CHECK_INT(begun, 1);
	for (int reader = 0; reader < 100; reader++)
		CHECK_INT(count_parts(text_of(turns_follow(NULL), 0, false)), 10);
	CHECK(asked <= 2 + 2 * (unsigned)(time(NULL) - start + 1)); // twice a second, however many readers there are
}

TEST(a_reader_continues_where_it_was)
{
	const struct turns *turns = record(10);
	uint64_t last = turns->last;

	CHECK_INT(count_parts(text_of(turns, last - 3, false)), 3);
	CHECK_CONTAINS(text_of(turns, last - 3, false), "\"more\":false,\"lost\":false");
	CHECK_INT(count_parts(text_of(turns, last, false)), 0);
	CHECK_CONTAINS(text_of(turns, last, false), "\"lost\":false");
}

TEST(a_number_that_no_part_has_gets_all)
{
	const struct turns *turns = record(10);

	for (uint64_t after = turns->last + 1; after; after *= 2) {
		CHECK_INT(count_parts(text_of(turns, after, false)), 10);
		CHECK_CONTAINS(text_of(turns, after, false), "\"lost\":true");
	}
	CHECK_INT(count_parts(text_of(turns, UINT64_MAX, false)), 10);
	CHECK_CONTAINS(text_of(turns, 0, false), "\"lost\":false");
}

TEST(memory_and_answers_are_bounded)
{
	const struct turns *turns = record(3 * ANSWER_MOST);
	uint64_t before = turns->last, next = turns->first - 1;
	size_t parts = 0;

	CHECK_INT(count_parts(text_of(turns, 0, false)), API_PARTS_MOST);
	CHECK_CONTAINS(text_of(turns, 0, false), "\"more\":true");
	waiting = 100 * ANSWER_MOST;
	turns = follow();
	CHECK_INT(turns->last - turns->first + 1, TURNS_MOST);
	CHECK_CONTAINS(text_of(turns, before, false), "\"lost\":false");
	waiting = 100 * ANSWER_MOST;
	turns = follow();
	CHECK_CONTAINS(text_of(turns, before, false), "\"lost\":true");
	CHECK_INT(count_parts(text_of(turns, before, false)), API_PARTS_MOST);
	for (next = turns->first - 1; next < turns->last; next += API_PARTS_MOST)
		parts += count_parts(text_of(turns, next, false));
	CHECK_INT(parts, TURNS_MOST);
	CHECK(sizeof *turns < 1 << 20 && strlen(text_of(turns, 0, false)) < 256 << 10);
}

TEST(a_gap_is_told_to_those_that_have_the_parts_before_it)
{
	const struct turns *turns = record(5);
	uint64_t before = turns->last;

	list.lost = 1;
	waiting = 5;
	turns = follow();
	list.lost = 0;
	CHECK_CONTAINS(text_of(turns, before, false), "\"lost\":true");
	CHECK_CONTAINS(text_of(turns, before + 1, false), "\"lost\":false");
	CHECK_CONTAINS(text_of(turns, 0, false), "\"lost\":false");
}

TEST(launches_are_only_for_those_that_may_see_them)
{
	const struct turns *turns = record(4);

	CHECK_CONTAINS(text_of(turns, 0, false), "\"launches\":3}");
	CHECK_CONTAINS(text_of(turns, 0, false), "\"launches\":null}");
	CHECK(!strstr(text_of(turns, 0, true), "\"launches\":3"));
}

TEST(another_daemon_begins_again)
{
	const struct turns *turns = record(5);
	uint64_t since = turns->since_ns;

	turns = record(2);
	CHECK_INT(count_parts(text_of(turns, 0, false)), 2);
	CHECK(turns->since_ns > since);
}

TEST(a_daemon_that_does_not_answer_is_asked_once_at_a_time)
{
	record(5);
	result = VG_NO_DAEMON;
	unsigned before = asked;
	const struct turns *turns = follow();
	CHECK_STR(turns->problem, error.text);
	CHECK_INT(asked, before + 1);
	result = VG_OK;
	turns = follow();
	CHECK_STR(turns->problem, "");
}
