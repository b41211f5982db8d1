// The broker's protocol: publishing in two steps, leases, generations, and what is refused.
#include "broker_fixture.h"

#define OWN ",'mode':384" // 0600

TEST(what_is_published_is_opened_by_another)
{
	fresh_broker();
	struct published published = publish("weights", OWN, 1);
	CHECK_INT(published.generation, 1);
	struct lease lease = open_lease("weights", "read");
	int same = make_memory(1);
	CHECK_INT(inode_of(lease.memory), inode_of(same));
	CHECK_INT(lease.page->current, 1);
	CHECK_INT(listed("weights", 1, "leases", NULL), 1);
	CHECK_INT(listed("weights", 1, "bytes", NULL), 2 * MIB);
	await_state("weights", 1, "open");
	close_lease(&lease);
	await_leases("weights", 0);
	close(published.fd);
	await_state("weights", 0, "gone");
	await_released(1);
	close(same);
}

TEST(nobody_sees_what_is_not_committed)
{
	int memory, fd;

	fresh_broker();
	memory = make_memory(1);
	int publisher = register_ranges("w", OWN, &memory, 1, 0);
	CHECK_REFUSED(try_open("w", "read", &fd), "not_ready", "is not complete");
	close(fd);
	CHECK_INT(listed("w", 0, "leases", NULL), -1);
	struct published published = commit(publisher);
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	// One that gives up in between leaves nothing.
	int second = register_ranges("w", OWN, &memory, 1, 0);
	close(second);
	await_state("w", 1, "open");
	close(published.fd);
	close(memory);
	await_state("w", 0, "gone");
	await_released(1);
}

TEST(many_ranges_arrive_in_order)
{
	enum { MANY = 61 };
	int memory[MANY], taken[MANY], fd;

	fresh_broker();
	for (int i = 0; i < MANY; i++)
		memory[i] = make_memory(i);
	int publisher = register_ranges("many", OWN, memory, MANY, 0);
	commit(publisher);
	json_t *reply = try_open("many", "read", &fd);
	CHECK_INT(json_integer_value(json_object_get(reply, "ranges")), MANY);
	CHECK_AGREED(reply);
	CHECK(take_ranges(fd, taken, MANY, 0));
	for (int i = 0; i < MANY; i++) {
		CHECK_INT(inode_of(taken[i]), inode_of(memory[i]));
		close(memory[i]);
		close(taken[i]);
	}
	close(fd);
	close(publisher);
}

TEST(each_publishing_is_a_new_generation)
{
	struct vg_wire_event event;

	fresh_broker();
	struct published first = publish("w", OWN, 1);
	struct lease old = open_lease("w", "read");
	struct published second = publish("w", OWN, 2);
	CHECK_INT(second.generation, 2);
	CHECK_STR(second.id, first.id);
	CHECK(strcmp(second.ticket, first.ticket) != 0);
	CHECK_INT(event_within(old.fd, 1000, &event), VG_WIRE_SUPERSEDED);
	CHECK_INT(event.generation, 1);
	CHECK_INT(old.page->current, 2); // without asking
	struct lease new = open_lease("w", "read");
	CHECK_INT(new.generation, 2);
	CHECK(inode_of(new.memory) != inode_of(old.memory));
	await_state("w", 1, "superseded");
	close(first.fd); // its reader keeps it
	await_state("w", 1, "orphaned");
	CHECK_INT(held_by_daemon(1), 1);
	close_lease(&old);
	await_state("w", 1, "gone");
	await_released(1);
	close_lease(&new);
	close(second.fd);
}

TEST(a_publication_outlives_its_publisher_for_its_readers)
{
	int fd;

	fresh_broker();
	struct published published = publish("w", OWN, 1);
	struct lease lease = open_lease("w", "read");
	close(published.fd);
	CHECK_INT(event_within(lease.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	CHECK_INT(lease.page->current, 0);
	await_state("w", 1, "orphaned");
	CHECK_REFUSED(try_open("w", "read", &fd), "not_found", "withdrawn");
	close(fd);
	CHECK_INT(held_by_daemon(1), 1);
	// Published again it goes on counting, and the reader knows.
	published = publish("w", OWN, 2);
	CHECK_INT(published.generation, 2);
	CHECK_INT(lease.page->current, 2);
	close_lease(&lease);
	await_state("w", 1, "gone");
	close(published.fd);
	await_state("w", 0, "gone");
	// And anew from 1, with another identity, once nobody is left.
	struct published other = publish("w", OWN, 3);
	CHECK_INT(other.generation, 1);
	CHECK(strcmp(other.id, published.id) != 0);
	close(other.fd);
}

TEST(withdrawing_is_answered)
{
	int fd;

	fresh_broker();
	struct published published = publish("w", OWN, 1);
	struct lease lease = open_lease("w", "read-write");
	CHECK_INT(speak(published.fd, "{'op':'withdraw'}"), 0);
	json_t *reply = hear(published.fd, NULL);
	CHECK_INT(json_integer_value(json_object_get(reply, "readers")), 1);
	json_decref(reply);
	CHECK_REFUSED(try_open("w", "read", &fd), "not_found", "withdrawn");
	close(fd);
	close_lease(&lease);
	await_state("w", 0, "gone");
	close(published.fd);
}

// A process that ends while a child of it keeps the connection.
TEST(a_lease_ends_with_its_process)
{
	int ready[2];
	pid_t grandchild;

	fresh_broker();
	struct published published = publish("w", OWN, 1);
	CHECK_INT(pipe(ready), 0);
	pid_t reader = fork();
	if (reader == 0) {
		open_lease("w", "read");
		grandchild = fork();
		if (grandchild == 0) {
			alarm(TEST_CHILD_SECONDS);
			for (;;)
				pause();
		}
		_exit(write(ready[1], &grandchild, sizeof grandchild) < 0);
	}
	CHECK_INT(read(ready[0], &grandchild, sizeof grandchild), sizeof grandchild);
	CHECK_INT(waitpid(reader, NULL, 0), reader);
	await_leases("w", 0);
	CHECK_INT(kill(grandchild, SIGKILL), 0); // it was there all the time
	close(published.fd);
	close(ready[0]);
	close(ready[1]);
}

// ---- what is refused ------------------------------------------------------------------------------------------

static void check_refused(const char *request, const char *code, const char *part)
{
	int fd = reach();

	CHECK_INT(speak(fd, "%s", request), 0);
	CHECK_REFUSED(hear(fd, NULL), code, part);
	close(fd);
}

TEST(requests_that_make_no_sense)
{
	fresh_broker();
	check_refused("{'op':'publish','name':'a b','ranges':1,'mode':384}", "invalid", "1 to 63 letters");
	check_refused("{'op':'publish','ranges':1,'mode':384}", "invalid", "1 to 63 letters");
	check_refused("{'op':'publish','name':'../x','ranges':1,'mode':384}", "invalid", "1 to 63 letters");
	check_refused("{'op':'publish','name':'a','ranges':0,'mode':384}", "invalid", "1 to 1024 ranges");
	check_refused("{'op':'publish','name':'a','ranges':1025,'mode':384}", "invalid", "1 to 1024 ranges");
	check_refused("{'op':'publish','name':'a','ranges':-1,'mode':384}", "invalid", "1 to 1024 ranges");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':511}", "invalid", "its mode says");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':'rw'}", "invalid", "its mode says");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':416,'group':'games'}", "invalid",
		      "system's daemon");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':384,'generation':-3}", "invalid", "which one");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':384,'generation':3,'id':'xyz'}", "invalid",
		      "which one");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':384,'simulate':''}", "invalid", "simulated GPU");
	check_refused("{'op':'open','name':'a','access':'read'}", "not_found", "there is no publication a");
	check_refused("{'op':'open','name':'a','access':'all'}", "invalid", "read-write");
	check_refused("{'op':'open'}", "invalid", "a lease needs a name");
	check_refused("{'op':'commit'}", "invalid", "makes no sense here");
	check_refused("{'op':'list'}", "invalid", "makes no sense here");
	check_refused("[]", "invalid", "makes no sense here");
	check_refused("}{", "invalid", "makes no sense here");
	check_refused("{'op':'revoke','name':'a','deadline':1}", "not_found", "there is no publication a");
	check_refused("{'op':'revoke','name':'a','deadline':-1}", "invalid", "in seconds");
	check_refused("{'op':'revoke','name':'a'}", "invalid", "in seconds");
}

TEST(words_at_the_wrong_time)
{
	int memory, fd;

	fresh_broker();
	memory = make_memory(1);
	struct published published = publish("w", OWN, 1);
	CHECK_INT(speak(published.fd, "{'op':'commit'}"), 0); // a second time
	CHECK_REFUSED(hear(published.fd, NULL), "invalid", "makes no sense here");
	await_state("w", 0, "gone"); // a publisher that errs is none any more
	close(published.fd);
	fd = register_ranges("w", OWN, &memory, 1, 0);
	CHECK_INT(speak(fd, "{'op':'withdraw'}"), 0);
	CHECK_REFUSED(hear(fd, NULL), "invalid", "makes no sense here");
	close(fd);
	// Words where ranges are due.
	fd = reach();
	CHECK_INT(speak(fd, "{'op':'publish','name':'v','ranges':1,'mode':384}"), 0);
	CHECK_AGREED(hear(fd, NULL));
	CHECK_INT(speak(fd, "{'op':'commit'}"), 0);
	CHECK_REFUSED(hear(fd, NULL), "protocol", "");
	close(fd);
	close(memory);
	CHECK_AGREED(ask("{'op':'ping'}"));
}

static void check_offer_refused(const struct share_header *header, const struct share_entry *entry, const int *memory,
				unsigned int count, const char *code, const char *part)
{
	int fd = reach();

	CHECK_INT(speak(fd, "{'op':'publish','name':'w','ranges':1,'mode':384}"), 0);
	CHECK_AGREED(hear(fd, NULL));
	CHECK_INT(vg_wire_send_raw(fd, header, sizeof *header, entry, sizeof *entry, memory, count), 0);
	CHECK_REFUSED(hear(fd, NULL), code, part);
	close(fd);
	await_state("w", 0, "gone");
}

TEST(offers_that_are_none)
{
	struct share_header header = {.magic = SHARE_MAGIC,
				      .version = SHARE_VERSION,
				      .count = 1,
				      .total = 1,
				      .size = sizeof(struct share_entry)};
	struct share_entry entry = {.bytes = MIB, .mapped = 2 * MIB, .granularity = 2 * MIB};
	int memory[2], pipes[2];

	fresh_broker();
	memory[0] = make_memory(1);
	memory[1] = make_memory(2);
	CHECK_INT(pipe(pipes), 0);
	check_offer_refused(&header, &entry, memory, 0, "protocol", "0 descriptors came with 1 ranges");
	check_offer_refused(&header, &entry, memory, 2, "protocol", "2 descriptors came with 1 ranges");
	check_offer_refused(&header, &entry, pipes, 1, "invalid", "none of simulated device memory");
	entry.mapped = MIB;
	check_offer_refused(&header, &entry, memory, 1, "protocol", "no multiple of the granularity");
	entry.mapped = 2 * MIB;
	header.total = 2;
	check_offer_refused(&header, &entry, memory, 1, "protocol", "ranges 0 of 2 came");
	header.total = 1;
	header.version = 9;
	check_offer_refused(&header, &entry, memory, 1, "protocol", "version 9");
	header.version = SHARE_VERSION;
	header.size = 1;
	check_offer_refused(&header, &entry, memory, 1, "protocol", "a packet of");
	for (int i = 0; i < 2; i++)
		close(memory[i]), close(pipes[i]);
	await_released(1);
}

TEST(a_range_for_reading_is_not_opened_for_writing)
{
	int memory, fd;

	fresh_broker();
	memory = make_memory(1);
	struct published published = commit(register_ranges("w", OWN, &memory, 1, 0));
	CHECK_REFUSED(try_open("w", "read-write", &fd), "invalid", "for reading only");
	close(fd);
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	close(published.fd);
	close(memory);
}

TEST(the_owner_obeys_the_mode_too)
{
	int fd;

	fresh_broker();
	struct published published = publish("w", ",'mode':256", 1); // 0400
	if (geteuid() != 0) {					     // root may anything
		CHECK_REFUSED(try_open("w", "read-write", &fd), "denied", "mode 0400");
		close(fd);
	}
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	close(published.fd);
}
