#include <string.h>

#include "residence/residence.h"
#include "test.h"

#define GIB (UINT64_C(1) << 30)
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static const uint64_t capacity = 79 * GIB;

static struct residence_vgpu vgpu_of(uint64_t memory, enum residence_state state)
{
	return (struct residence_vgpu){.memory = memory, .fixed = 2 * GIB, .state = state};
}

static void want(struct residence_vgpu *vgpu, uint64_t since)
{
	vgpu->wants = true;
	vgpu->wants_since_ns = since;
}

TEST(sizes_add_up)
{
	struct residence_vgpu vgpus[] = {vgpu_of(60 * GIB, RESIDENCE_OUT), vgpu_of(40 * GIB, RESIDENCE_OUT),
					 vgpu_of(GIB, RESIDENCE_OUT)};

	CHECK_INT(residence_most(vgpus, 3), 101 * GIB);
	CHECK_INT(residence_least(vgpus, 3), 60 * GIB + 2 * GIB + GIB);
	CHECK_INT(residence_least(vgpus, 0), 0);
}

TEST(all_are_in_if_they_fit)
{
	struct residence_vgpu vgpus[] = {vgpu_of(40 * GIB, RESIDENCE_OUT), vgpu_of(39 * GIB, RESIDENCE_LEAVING)};

	CHECK_INT(residence_decide(vgpus, 2, capacity, SECOND), UINT64_MAX);
	CHECK(!vgpus[0].out && !vgpus[1].out);
	vgpus[1].is_suspended = true;
	residence_decide(vgpus, 2, capacity, SECOND);
	CHECK(!vgpus[0].out && vgpus[1].out);
}

TEST(one_that_is_not_used_leaves_though_all_fit)
{
	struct residence_vgpu vgpus[] = {vgpu_of(40 * GIB, RESIDENCE_IN), vgpu_of(20 * GIB, RESIDENCE_IN)};

	vgpus[0].idle_ns = 30 * SECOND;
	vgpus[0].in_since_ns = 5 * SECOND;
	vgpus[0].active_ns = 10 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, 39 * SECOND), 40 * SECOND);
	CHECK(!vgpus[0].out && !vgpus[1].out);
	vgpus[0].busy_until_ns = 42 * SECOND; // it could not leave
	CHECK_INT(residence_decide(vgpus, 2, capacity, 41 * SECOND), 42 * SECOND);
	CHECK(!vgpus[0].out);
	CHECK_INT(residence_decide(vgpus, 2, capacity, 42 * SECOND), UINT64_MAX);
	CHECK(vgpus[0].out && !vgpus[1].out);
	// It stays out until one of its threads needs the memory.
	vgpus[0].state = RESIDENCE_LEAVING;
	residence_decide(vgpus, 2, capacity, 43 * SECOND);
	CHECK(vgpus[0].out);
	vgpus[0].state = RESIDENCE_OUT;
	residence_decide(vgpus, 2, capacity, 100 * SECOND);
	CHECK(vgpus[0].out);
	want(&vgpus[0], 101 * SECOND);
	residence_decide(vgpus, 2, capacity, 101 * SECOND);
	CHECK(!vgpus[0].out && !vgpus[1].out);
}

TEST(nobody_moves_without_a_wish)
{
	struct residence_vgpu vgpus[] = {vgpu_of(60 * GIB, RESIDENCE_IN), vgpu_of(60 * GIB, RESIDENCE_OUT)};

	CHECK_INT(residence_decide(vgpus, 2, capacity, 1000 * SECOND), UINT64_MAX);
	CHECK(!vgpus[0].out && vgpus[1].out);
}

TEST(an_idle_one_makes_room_at_once_and_a_busy_one_after_its_quantum)
{
	struct residence_vgpu vgpus[] = {vgpu_of(60 * GIB, RESIDENCE_IN), vgpu_of(60 * GIB, RESIDENCE_OUT)};
	uint64_t now = 100 * SECOND;

	want(&vgpus[1], now);
	vgpus[0].in_since_ns = 10 * SECOND;
	vgpus[0].active_ns = 98 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), UINT64_MAX);
	CHECK(vgpus[0].out && vgpus[1].out);
	// In use: five seconds, or ten times its last move.
	vgpus[0].in_since_ns = now - 2 * SECOND;
	vgpus[0].active_ns = now;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + SECOND); // when it would be idle
	CHECK(!vgpus[0].out && vgpus[1].out);
	vgpus[0].switch_ns = 200 * MS;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + 500 * MS);
	vgpus[0].switch_ns = 1600 * MS;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + 800 * MS); // half of its last move
	vgpus[0].switch_ns = 3 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now), now + SECOND);
	vgpus[0].switch_ns = 900 * MS;
	vgpus[0].active_ns = now + 6900 * MS;
	CHECK_INT(residence_decide(vgpus, 2, capacity, now + 6900 * MS), now + 7 * SECOND);
	CHECK(!vgpus[0].out);
	residence_decide(vgpus, 2, capacity, now + 7 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out);
	// It comes in when the other one has left, not before.
	vgpus[0].state = RESIDENCE_LEAVING;
	residence_decide(vgpus, 2, capacity, now + 7 * SECOND);
	CHECK(vgpus[0].out && vgpus[1].out);
	vgpus[0].state = RESIDENCE_OUT;
	residence_decide(vgpus, 2, capacity, now + 7 * SECOND);
	CHECK(vgpus[0].out && !vgpus[1].out);
}

TEST(one_that_could_not_leave_is_left_alone_for_a_while)
{
	struct residence_vgpu vgpus[] = {vgpu_of(60 * GIB, RESIDENCE_IN), vgpu_of(60 * GIB, RESIDENCE_OUT)};

	want(&vgpus[1], 0);
	vgpus[0].busy_until_ns = 50 * SECOND;
	CHECK_INT(residence_decide(vgpus, 2, capacity, 49 * SECOND), 50 * SECOND);
	CHECK(!vgpus[0].out);
	residence_decide(vgpus, 2, capacity, 50 * SECOND);
	CHECK(vgpus[0].out);
}

TEST(only_as_many_leave_as_are_needed_and_latency_last)
{
	struct residence_vgpu vgpus[] = {vgpu_of(20 * GIB, RESIDENCE_IN), vgpu_of(20 * GIB, RESIDENCE_IN),
					 vgpu_of(30 * GIB, RESIDENCE_IN), vgpu_of(20 * GIB, RESIDENCE_OUT)};
	uint64_t now = 100 * SECOND;

	for (int i = 0; i < 3; i++) {
		vgpus[i].active_ns = now;
		vgpus[i].in_since_ns = (uint64_t)(10 + i) * SECOND;
	}
	want(&vgpus[3], now);
	vgpus[0].is_latency = true;
	residence_decide(vgpus, 4, capacity, now);
	CHECK(!vgpus[0].out && vgpus[1].out && !vgpus[2].out && vgpus[3].out);
	vgpus[0].active_ns = now - 2 * SECOND; // idle ones of any class before those in use
	residence_decide(vgpus, 4, capacity, now);
	CHECK(vgpus[0].out && !vgpus[1].out && !vgpus[2].out);
}

TEST(those_that_wait_come_in_order)
{
	struct residence_vgpu vgpus[] = {vgpu_of(60 * GIB, RESIDENCE_IN), vgpu_of(60 * GIB, RESIDENCE_OUT),
					 vgpu_of(10 * GIB, RESIDENCE_OUT)};

	want(&vgpus[1], 10);
	want(&vgpus[2], 20);
	vgpus[0].in_since_ns = vgpus[0].active_ns = SECOND;
	// The small one would fit, but the large one would wait for ever if others came before it.
	residence_decide(vgpus, 3, capacity, SECOND + MS);
	CHECK(!vgpus[0].out && vgpus[1].out && vgpus[2].out);
	vgpus[0].state = RESIDENCE_OUT;
	residence_decide(vgpus, 3, capacity, SECOND + MS);
	CHECK(vgpus[0].out && !vgpus[1].out && !vgpus[2].out);
}

// A model: each vGPU works whenever it is in, for `work_ms` of every period, and moves at 50 GiB/s.
struct program {
	uint64_t next_ns; // when it wants to work next
	uint64_t moved_ns;
	uint64_t worked_ms, longest_wait_ns;
	bool always;
};

static void move_on(struct residence_vgpu *vgpu, struct program *program, uint64_t now)
{
	uint64_t switch_ns = (vgpu->memory - vgpu->fixed) / (50 * GIB / SECOND);

	if (vgpu->out && vgpu->state == RESIDENCE_IN) {
		vgpu->state = RESIDENCE_LEAVING;
		program->moved_ns = now + switch_ns;
	} else if (!vgpu->out && vgpu->state == RESIDENCE_OUT) {
		vgpu->state = RESIDENCE_COMING;
		program->moved_ns = now + switch_ns;
	} else if (vgpu->state == RESIDENCE_LEAVING && now >= program->moved_ns) {
		vgpu->state = RESIDENCE_OUT;
		vgpu->switch_ns = switch_ns;
	} else if (vgpu->state == RESIDENCE_COMING && now >= program->moved_ns) {
		vgpu->state = RESIDENCE_IN;
		vgpu->in_since_ns = now;
	}
}

static void work(struct residence_vgpu *vgpu, struct program *program, uint64_t now)
{
	bool wants = program->always || now >= program->next_ns;

	if (wants && vgpu->state == RESIDENCE_IN) {
		vgpu->active_ns = now;
		program->worked_ms += 10;
		vgpu->wants = false;
		if (!program->always)
			program->next_ns = now + (uint64_t)(rand() % 4000) * MS;
	} else if (wants && !vgpu->wants) {
		want(vgpu, now);
	}
	if (vgpu->wants && now - vgpu->wants_since_ns > program->longest_wait_ns)
		program->longest_wait_ns = now - vgpu->wants_since_ns;
}

static void run_model(struct residence_vgpu *vgpus, struct program *programs, size_t count, unsigned int seconds)
{
	for (uint64_t now = 0; now < seconds * SECOND; now += 10 * MS) {
		uint64_t taken = 0;
		residence_decide(vgpus, count, capacity, now);
		for (size_t i = 0; i < count; i++) {
			move_on(&vgpus[i], &programs[i], now);
			work(&vgpus[i], &programs[i], now);
			taken += vgpus[i].state == RESIDENCE_OUT ? vgpus[i].fixed : vgpus[i].memory;
		}
		CHECK(taken <= capacity);
	}
}

TEST(two_that_always_work_get_the_device_in_turns)
{
	struct residence_vgpu vgpus[] = {vgpu_of(60 * GIB, RESIDENCE_OUT), vgpu_of(60 * GIB, RESIDENCE_OUT)};
	struct program programs[2] = {{.always = true}, {.always = true}};

	run_model(vgpus, programs, 2, 420);
	CHECK(programs[0].worked_ms + programs[1].worked_ms > 420 * 820); // a quantum of 11.6 s and moves of 2.3 s
	CHECK(programs[0].worked_ms > 420 * 400);
	CHECK(programs[1].worked_ms > 420 * 400);
}

TEST(servers_that_are_asked_now_and_then_all_answer)
{
	struct residence_vgpu vgpus[] = {vgpu_of(42 * GIB, RESIDENCE_OUT), vgpu_of(42 * GIB, RESIDENCE_OUT),
					 vgpu_of(42 * GIB, RESIDENCE_OUT)};
	struct program programs[3] = {{0}};

	srand(1);
	run_model(vgpus, programs, 3, 300);
	for (int i = 0; i < 3; i++) {
		CHECK(programs[i].worked_ms > 200);
		CHECK(programs[i].longest_wait_ns < 30 * SECOND);
	}
}

// Random facts: no order asks for more room than there is, and no suspended one comes in.
TEST(no_facts_make_the_device_too_full)
{
	srand(2);
	for (int round = 0; round < 20000; round++) {
		struct residence_vgpu vgpus[6];
		uint64_t now = (uint64_t)(rand() % 1000) * SECOND, there = 0, after = 0;
		for (int i = 0; i < 6; i++) {
			vgpus[i] = vgpu_of((uint64_t)(2 + rand() % 60) * GIB, (enum residence_state)(rand() % 4));
			vgpus[i].is_suspended = rand() % 5 == 0;
			vgpus[i].in_since_ns = (uint64_t)(rand() % 1000) * SECOND;
			vgpus[i].active_ns = (uint64_t)(rand() % 1000) * SECOND;
			if (rand() % 2)
				want(&vgpus[i], (uint64_t)rand());
			there += vgpus[i].state == RESIDENCE_OUT ? vgpus[i].fixed : vgpus[i].memory;
		}
		uint64_t next = residence_decide(vgpus, 6, capacity, now);
		CHECK(next > now);
		for (int i = 0; i < 6; i++) {
			CHECK(!vgpus[i].is_suspended || vgpus[i].out);
			after += vgpus[i].state != RESIDENCE_OUT || !vgpus[i].out ? vgpus[i].memory : vgpus[i].fixed;
		}
		CHECK(after <= (there > capacity ? there : capacity));
	}
}
