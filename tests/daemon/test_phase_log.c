// Tests the log of phases. A phase is a time in which a vGPU has one state, such as having the turn (enum turn_phase).
// The tests check which records a reader gets, and that a reader learns if older records are missing.
#include "daemon/phase_log.h"
#include "test.h"

#define ALL UINT64_MAX

static struct phase_record records[2 * PHASE_RECORDS];

static void add(struct phase_log *log, size_t count)
{
	for (size_t i = 0; i < count; i++)
		phase_log_add(log, &(struct phase_record){.turn = (uint32_t)i});
}

static size_t read_range(const struct phase_log *log, uint64_t after, uint64_t last, bool *ret_lost)
{
	*ret_lost = false;
	return phase_log_read(log, &(struct phase_range){after, last}, records, sizeof records / sizeof *records,
			      ret_lost);
}

TEST(numbers_are_shared_by_all_logs)
{
	struct phase_log *one = phase_log_create(1), *other = phase_log_create(1);
	uint64_t before = phase_log_newest();
	bool lost;

	add(one, 2);
	add(other, 1);
	add(one, 1);
	CHECK_INT(phase_log_newest(), before + 4);
	CHECK_INT(read_range(one, before, ALL, &lost), 3);
	CHECK(!lost && records[0].number == before + 1 && records[2].number == before + 4);
	CHECK_INT(read_range(one, before + 1, before + 3, &lost), 1);
	CHECK_INT(records[0].number, before + 2);
	CHECK_INT(read_range(other, before + 2, ALL, &lost), 1);
	CHECK_INT(phase_log_read(one, &(struct phase_range){before, ALL}, records, 2, &lost), 2);
	phase_log_destroy(one);
	phase_log_destroy(other);
	phase_log_destroy(NULL);
}

TEST(a_log_has_room_for_each_device)
{
	struct phase_log *log = phase_log_create(2);
	uint64_t before = phase_log_newest();
	bool lost;

	add(log, 2 * PHASE_RECORDS);
	CHECK_INT(read_range(log, before, ALL, &lost), 2 * PHASE_RECORDS);
	CHECK(!lost);
	add(log, 1);
	read_range(log, before, ALL, &lost);
	CHECK(lost);
	phase_log_destroy(log);
}

TEST(a_full_log_has_the_newest_records)
{
	struct phase_log *log = phase_log_create(1);
	uint64_t before = phase_log_newest();
	bool lost;

	add(log, PHASE_RECORDS);
	CHECK_INT(read_range(log, before, ALL, &lost), PHASE_RECORDS);
	CHECK(!lost);
	add(log, 10);
	CHECK_INT(read_range(log, before, ALL, &lost), PHASE_RECORDS);
	CHECK(lost && records[0].number == before + 11);
	CHECK_INT(read_range(log, before + 9, ALL, &lost), PHASE_RECORDS);
	CHECK(lost);
	CHECK_INT(read_range(log, before + 10, ALL, &lost), PHASE_RECORDS);
	CHECK(!lost);
	phase_log_destroy(log);
}
