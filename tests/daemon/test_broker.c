// Tests the broker's protocol: publishing in two steps, leases, generations, and refused requests.
#include "broker_fixture.h"

#define OWN ",'mode':384" // 0600

TEST(publish_and_open)
{
	start_fresh_broker();
	struct published published = publish("weights", OWN, 1);
	CHECK_INT(published.generation, 1);
	struct lease lease = open_lease("weights", "read");
	int same = make_memory(1);
	CHECK_INT(inode_of(lease.memory), inode_of(same));
	CHECK_INT(lease.page->current, 1);
	CHECK_INT(listed_figure("weights", 1, "leases", NULL), 1);
	CHECK_INT(listed_figure("weights", 1, "bytes", NULL), 2 * MIB);
	await_state("weights", 1, "open");
	close_lease(&lease);
	await_leases("weights", 0);
	close(published.fd);
	await_state("weights", 0, "gone");
	await_released(1);
	close(same);
}

TEST(uncommitted_publication_is_invisible)
{
	int memory, fd;

	start_fresh_broker();
	memory = make_memory(1);
	int publisher = register_ranges("w", OWN, &memory, 1, 0);
	CHECK_REFUSED(try_open("w", "read", &fd), "not_ready", "is not complete");
	close(fd);
	CHECK_INT(listed_figure("w", 0, "leases", NULL), -1);
	struct published published = commit(publisher);
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	// A publisher that ends before its commit leaves no publication.
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

	start_fresh_broker();
	for (int i = 0; i < MANY; i++)
		memory[i] = make_memory(i);
	int publisher = register_ranges("many", OWN, memory, MANY, 0);
	commit(publisher);
	json_t *reply = try_open("many", "read", &fd);
	CHECK_INT(json_integer_value(json_object_get(reply, "ranges")), MANY);
	CHECK_AGREED(reply);
	CHECK(receive_ranges(fd, taken, MANY, 0));
	for (int i = 0; i < MANY; i++) {
		CHECK_INT(inode_of(taken[i]), inode_of(memory[i]));
		close(memory[i]);
		close(taken[i]);
	}
	close(fd);
	close(publisher);
}

TEST(publishing_again_makes_the_next_generation)
{
	struct vg_wire_event event;

	start_fresh_broker();
	struct published first = publish("w", OWN, 1);
	struct lease old = open_lease("w", "read");
	struct published second = publish("w", OWN, 2);
	CHECK_INT(second.generation, 2);
	CHECK_STR(second.id, first.id);
	CHECK(strcmp(second.ticket, first.ticket) != 0);
	CHECK_INT(await_event(old.fd, 1000, &event), VG_WIRE_SUPERSEDED);
	CHECK_INT(event.generation, 1);
	CHECK_INT(old.page->current, 2); // the daemon updates the page, so the reader needs no request
	struct lease new = open_lease("w", "read");
	CHECK_INT(new.generation, 2);
	CHECK(inode_of(new.memory) != inode_of(old.memory));
	await_state("w", 1, "superseded");
	close(first.fd); // the reader `old` still has a lease on generation 1
	await_state("w", 1, "orphaned");
	CHECK_INT(count_daemon_descriptors(1), 1);
	close_lease(&old);
	await_state("w", 1, "gone");
	await_released(1);
	close_lease(&new);
	close(second.fd);
}

TEST(readers_keep_a_publication_whose_publisher_ended)
{
	int fd;

	start_fresh_broker();
	struct published published = publish("w", OWN, 1);
	struct lease lease = open_lease("w", "read");
	close(published.fd);
	CHECK_INT(await_event(lease.fd, 1000, NULL), VG_WIRE_WITHDRAWN);
	CHECK_INT(lease.page->current, 0);
	await_state("w", 1, "orphaned");
	CHECK_REFUSED(try_open("w", "read", &fd), "not_found", "withdrawn");
	close(fd);
	CHECK_INT(count_daemon_descriptors(1), 1);
	// Publishing again under a name makes the next generation, and the daemon notifies the reader.
	published = publish("w", OWN, 2);
	CHECK_INT(published.generation, 2);
	CHECK_INT(lease.page->current, 2);
	close_lease(&lease);
	await_state("w", 1, "gone");
	close(published.fd);
	await_state("w", 0, "gone");
	// After the last reader has ended, the generations of the name begin at 1 again, with another id.
	struct published other = publish("w", OWN, 3);
	CHECK_INT(other.generation, 1);
	CHECK(strcmp(other.id, published.id) != 0);
	close(other.fd);
}

TEST(withdraw_answers_number_of_readers)
{
	int fd;

	start_fresh_broker();
	struct published published = publish("w", OWN, 1);
	struct lease lease = open_lease("w", "read-write");
	CHECK_INT(send_request(published.fd, "{'op':'withdraw'}"), 0);
	json_t *reply = receive_answer(published.fd, NULL);
	CHECK_INT(json_integer_value(json_object_get(reply, "readers")), 1);
	json_decref(reply);
	CHECK_REFUSED(try_open("w", "read", &fd), "not_found", "withdrawn");
	close(fd);
	close_lease(&lease);
	await_state("w", 0, "gone");
	close(published.fd);
}

// Ends a process that has a lease. The lease must end, even if a child of the process keeps the connection open.
TEST(lease_ends_with_its_process)
{
	int ready[2];
	pid_t grandchild;

	start_fresh_broker();
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
	CHECK_INT(kill(grandchild, SIGKILL), 0); // the grandchild was alive until now, with the connection open
	close(published.fd);
	close(ready[0]);
	close(ready[1]);
}

// ---- refusals -------------------------------------------------------------------------------------------------

static void check_refused(const char *request, const char *code, const char *part)
{
	int fd = connect_to_broker();

	CHECK_INT(send_request(fd, "%s", request), 0);
	CHECK_REFUSED(receive_answer(fd, NULL), code, part);
	close(fd);
}

TEST(invalid_requests_are_refused)
{
	start_fresh_broker();
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
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':384,'generation':-3}", "invalid", "to resume it");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':384,'generation':3,'id':'xyz'}", "invalid",
		      "to resume it");
	check_refused("{'op':'publish','name':'a','ranges':1,'mode':384,'simulate':''}", "invalid", "simulated GPU");
	check_refused("{'op':'open','name':'a','access':'read'}", "not_found", "there is no publication a");
	check_refused("{'op':'open','name':'a','access':'all'}", "invalid", "read-write");
	check_refused("{'op':'open'}", "invalid", "a lease needs a name");
	check_refused("{'op':'commit'}", "invalid", "is not valid in this state");
	check_refused("{'op':'list'}", "invalid", "is not valid in this state");
	check_refused("[]", "invalid", "is not valid in this state");
	check_refused("}{", "invalid", "is not valid in this state");
	check_refused("{'op':'revoke','name':'a','deadline':1}", "not_found", "there is no publication a");
	check_refused("{'op':'revoke','name':'a','deadline':-1}", "invalid", "in seconds");
	check_refused("{'op':'revoke','name':'a'}", "invalid", "in seconds");
}

TEST(requests_in_the_wrong_state_are_refused)
{
	int memory, fd;

	start_fresh_broker();
	memory = make_memory(1);
	struct published published = publish("w", OWN, 1);
	CHECK_INT(send_request(published.fd, "{'op':'commit'}"), 0); // a second commit
	CHECK_REFUSED(receive_answer(published.fd, NULL), "invalid", "is not valid in this state");
	await_state("w", 0, "gone"); // a refused request ends the session of the publisher
	close(published.fd);
	fd = register_ranges("w", OWN, &memory, 1, 0);
	CHECK_INT(send_request(fd, "{'op':'withdraw'}"), 0);
	CHECK_REFUSED(receive_answer(fd, NULL), "invalid", "is not valid in this state");
	close(fd);
	// The publisher sends another request where the broker expects ranges.
	fd = connect_to_broker();
	CHECK_INT(send_request(fd, "{'op':'publish','name':'v','ranges':1,'mode':384}"), 0);
	CHECK_AGREED(receive_answer(fd, NULL));
	CHECK_INT(send_request(fd, "{'op':'commit'}"), 0);
	CHECK_REFUSED(receive_answer(fd, NULL), "protocol", "");
	close(fd);
	close(memory);
	CHECK_AGREED(ask("{'op':'ping'}"));
}

static void check_offer_refused(const struct share_header *header, const struct share_entry *entry, const int *memory,
				unsigned int count, const char *code, const char *part)
{
	int fd = connect_to_broker();

	CHECK_INT(send_request(fd, "{'op':'publish','name':'w','ranges':1,'mode':384}"), 0);
	CHECK_AGREED(receive_answer(fd, NULL));
	CHECK_INT(vg_wire_send_raw(fd, header, sizeof *header, entry, sizeof *entry, memory, count), 0);
	CHECK_REFUSED(receive_answer(fd, NULL), code, part);
	close(fd);
	await_state("w", 0, "gone");
}

TEST(invalid_offers_are_refused)
{
	struct share_header header = valid_header;
	struct share_entry entry = valid_entry;
	int memory[2], pipes[2];

	start_fresh_broker();
	memory[0] = make_memory(1);
	memory[1] = make_memory(2);
	CHECK_INT(pipe(pipes), 0);
	check_offer_refused(&header, &entry, memory, 0, "protocol", "0 descriptors came with 1 ranges");
	check_offer_refused(&header, &entry, memory, 2, "protocol", "2 descriptors came with 1 ranges");
	check_offer_refused(&header, &entry, pipes, 1, "invalid", "not one of simulated device memory");
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

TEST(read_only_range_is_not_opened_for_writing)
{
	int memory, fd;

	start_fresh_broker();
	memory = make_memory(1);
	struct published published = commit(register_ranges("w", OWN, &memory, 1, 0));
	CHECK_REFUSED(try_open("w", "read-write", &fd), "invalid", "for reading only");
	close(fd);
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	close(published.fd);
	close(memory);
}

TEST(mode_applies_to_the_owner)
{
	int fd;

	start_fresh_broker();
	struct published published = publish("w", ",'mode':256", 1); // 0400
	// root may open the publication in spite of its mode
	if (geteuid() != 0) {
		CHECK_REFUSED(try_open("w", "read-write", &fd), "denied", "mode 0400");
		close(fd);
	}
	struct lease lease = open_lease("w", "read");
	close_lease(&lease);
	close(published.fd);
}
