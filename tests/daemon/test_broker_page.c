// Checks that the daemon and other publications work as before when a user overwrites or truncates the page of a
// publication.
#include "broker_fixture.h"

#define OWN ",'mode':384" // 0600

static const uint64_t patterns[] = {0, UINT64_MAX, 0x8badf00dfeedfaceull};

static void page_path_of(const char *name, char path[400])
{
	snprintf(path, 400, "%s/publications/%s", runtime_dir, name);
}

static void overwrite_word(const char *name, size_t offset, uint64_t word)
{
	char path[400];

	page_path_of(name, path);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_INT(pwrite(fd, &word, sizeof word, (off_t)offset), sizeof word);
	close(fd);
}

// Checks that no figure is negative, since clients would reject the list.
static void check_list(size_t rows)
{
	json_t *reply = ask("{'op':'publications'}"), *row, *value;
	const char *key;
	size_t i;

	CHECK_INT(json_array_size(json_object_get(reply, "publications")), rows);
	json_array_foreach(json_object_get(reply, "publications"), i, row)
		json_object_foreach(row, key, value)
			if (json_is_integer(value) && json_integer_value(value) < 0)
				FAIL("%s of %s is %lld", key, json_string_value(json_object_get(row, "name")),
				     (long long)json_integer_value(value));
	json_decref(reply);
}

TEST(overwritten_page_harms_no_other_publication)
{
	start_fresh_broker();
	struct published other = publish("other", OWN, 1);
	for (size_t at = 0; at < sizeof(struct vg_wire_page); at += sizeof(uint64_t)) {
		for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
			struct published mine = publish("mine", OWN, 2);
			CHECK_INT(mine.generation, 1);
			overwrite_word("mine", at, patterns[i]);
			check_list(2);
			await_state("other", 1, "open");
			await_state("mine", 1, "open"); // the daemon does not read the overwritten page
			struct lease lease = open_lease("other", "read");
			close_lease(&lease);
			close(mine.fd);
			await_state("mine", 0, "gone");
		}
	}
	close(other.fd);
}

TEST(next_daemon_takes_over_valid_pages_only)
{
	start_fresh_broker();
	for (size_t at = 0; at < sizeof(struct vg_wire_page); at += sizeof(uint64_t)) {
		struct published mine = publish("mine", OWN, 2), other = publish("other", OWN, 1);
		overwrite_word("mine", at, patterns[at / sizeof(uint64_t) % 3]);
		kill_daemon();
		start_broker();
		json_decref(ask("{'op':'publications'}"));
		await_state("other", 1, "lost");
		close(mine.fd);
		close(other.fd);
		kill_daemon();
		char path[400];
		page_path_of("mine", path);
		unlink(path);
		page_path_of("other", path);
		unlink(path);
		start_broker();
		check_list(0);
	}
}

TEST(truncated_page_does_not_end_the_daemon)
{
	char path[400];

	start_fresh_broker();
	struct published first = publish("mine", OWN, 1), other = publish("other", OWN, 2);
	page_path_of("mine", path);
	CHECK_INT(truncate(path, 0), 0);
	struct published second = publish("mine", OWN, 3); // the daemon writes to the truncated page
	CHECK_INT(second.generation, 2);
	check_list(3);
	close(first.fd);
	close(second.fd);
	await_state("mine", 0, "gone");
	await_state("other", 1, "open");
	close(other.fd);
}

TEST(offer_of_absurd_sizes_is_listed)
{
	enum { RANGES = 3 };
	struct share_header header = {.magic = SHARE_MAGIC,
				      .version = SHARE_VERSION,
				      .count = RANGES,
				      .total = RANGES,
				      .size = RANGES * sizeof(struct share_entry)};
	struct share_entry entries[RANGES];
	int memory[RANGES];

	start_fresh_broker();
	for (int i = 0; i < RANGES; i++) {
		memory[i] = make_memory(i);
		entries[i] = (struct share_entry){.bytes = 1ull << 62, .mapped = 1ull << 62, .granularity = 2 * MIB};
	}
	int fd = connect_to_broker();
	CHECK_INT(send_request(fd, "{'op':'publish','name':'absurd','ranges':3,'mode':384}"), 0);
	CHECK_AGREED(receive_answer(fd, NULL));
	CHECK_INT(vg_wire_send_raw(fd, &header, sizeof header, entries, header.size, memory, RANGES), 0);
	json_t *reply = receive_answer(fd, NULL);
	bool taken = agreed(reply);
	json_decref(reply);
	if (taken)
		commit(fd);
	check_list(taken);
	close(fd);
	for (int i = 0; i < RANGES; i++)
		close(memory[i]);
}
