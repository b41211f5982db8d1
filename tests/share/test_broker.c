// Tests the library's functions for the broker: publishing, leases, generations, revocation, and a killed daemon.
#include "broker_test.h"
#include "count_entries.h"

#include <pthread.h>
#include <semaphore.h>

#include "core/stream.h"

TEST(published_memory_is_not_copied)
{
	const struct vg_share_import_options writable = {.size = sizeof writable, .writable = 1};
	struct vg_vram_handle handle, other;
	struct vg_share_range range;
	uint32_t word;
	char state[16];

	struct vg_publication *publication = publish("weights", &handle);
	CHECK_INT(vg_publication_generation(publication), 1);
	CHECK_INT(state_of(publication), VG_PUBLICATION_CURRENT);
	struct vg_share_lease *lease = open_lease("weights", 1);
	CHECK_INT(vg_share_lease_generation(lease), 1);
	CHECK(vg_share_lease_is_current(lease));
	CHECK_INT(vg_share_offer_count(vg_share_lease_offer(lease)), 1);
	OK(vg_share_offer_range(vg_share_lease_offer(lease), 0, &range));
	CHECK_INT(range.generation, 100);
	CHECK_INT(range.bytes, MIB);
	OK(vg_share_import(open_vram(), vg_share_lease_offer(lease), 0, &writable, &other));
	OK(vg_vram_write_at(handle, 4096, &(uint32_t){0xfeed}, 4));
	OK(vg_vram_read_at(other, 4096, &word, 4));
	CHECK_INT(word, 0xfeed); // no copy
	CHECK_INT(listed("weights", NULL, state), 1);
	CHECK_STR(state, "open");
	OK(vg_vram_free(other));
	vg_share_lease_close(lease);
	await_leases("weights", 0);
	vg_publication_destroy(publication);
	await_rows("weights", 0);
	OK(vg_vram_read_at(handle, 4096, &word, 4)); // the region of the publisher stays valid
	OK(vg_vram_free(handle));
}

TEST(read_lease_refuses_writable_imports)
{
	const struct vg_share_import_options writable = {.size = sizeof writable, .writable = 1};
	struct vg_vram_handle handle, other;

	struct vg_publication *publication = publish("r", &handle);
	struct vg_share_lease *lease = open_lease("r", 0);
	REFUSED(vg_share_import(open_vram(), vg_share_lease_offer(lease), 0, &writable, &other), VG_POLICY, "");
	OK(vg_share_import(open_vram(), vg_share_lease_offer(lease), 0, NULL, &other));
	REFUSED(vg_vram_write_at(other, 0, "x", 1), VG_POLICY, "");
	OK(vg_vram_free(other));
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

TEST(publication_of_many_ranges)
{
	struct vg_vram_handle handles[40], other;
	struct vg_publication *publication;
	uint32_t word;

	struct vg_share_offer *offer = offer_of(40, MIB, 0, handles);
	OK(vg_share_publish(open_node(), "many", offer, NULL, &publication));
	vg_share_offer_destroy(offer);
	struct vg_share_lease *lease = open_lease("many", 0);
	CHECK_INT(vg_share_offer_count(vg_share_lease_offer(lease)), 40);
	for (uint32_t i = 0; i < 40; i++) {
		OK(vg_share_import(open_vram(), vg_share_lease_offer(lease), i, NULL, &other));
		OK(vg_vram_read_at(other, 0, &word, 4));
		CHECK_INT(word, i);
		OK(vg_vram_free(other));
		OK(vg_vram_free(handles[i]));
	}
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
}

TEST(generations_and_withdrawal)
{
	struct vg_vram_handle handles[3];
	struct vg_publication_view view = {.size = sizeof view};
	unsigned readers;

	struct vg_publication *first = publish("w", &handles[0]);
	struct vg_share_lease *old = open_lease("w", 0);
	struct vg_publication *second = publish("w", &handles[1]);
	struct pollfd told = {.fd = vg_share_lease_descriptor(old), .events = POLLIN};
	CHECK_INT(vg_publication_generation(second), 2);
	CHECK(!vg_share_lease_is_current(old));
	CHECK_INT(poll(&told, 1, 2000), 1);
	OK(vg_share_lease_look(old, &view));
	CHECK_INT(view.state, VG_PUBLICATION_SUPERSEDED);
	CHECK_INT(view.generation, 1);
	CHECK_INT(view.current, 2);
	// vg_share_lease_look() has consumed the event, so the descriptor is not readable any more
	CHECK_INT(poll(&told, 1, 0), 0);
	CHECK_INT(state_of(first), VG_PUBLICATION_SUPERSEDED);
	CHECK_INT(state_of(second), VG_PUBLICATION_CURRENT);
	struct vg_share_lease *new = open_lease("w", 0);
	OK(vg_publication_withdraw(second, &readers));
	CHECK_INT(readers, 1);
	OK(vg_publication_withdraw(second, NULL)); // a second call succeeds
	CHECK_INT(state_of(second), VG_PUBLICATION_WITHDRAWN);
	CHECK(!vg_share_lease_is_current(new));
	CHECK_INT(lease_state(new), VG_PUBLICATION_WITHDRAWN);
	struct vg_share_lease *none;
	REFUSED(vg_share_open(node, "w", NULL, &none), VG_NOT_FOUND, "publication w is withdrawn");
	struct vg_publication *third = publish("w", &handles[2]);
	CHECK_INT(vg_publication_generation(third), 3);
	CHECK_INT(lease_state(new), VG_PUBLICATION_SUPERSEDED);
	vg_share_lease_close(old);
	vg_share_lease_close(new);
	vg_publication_destroy(first);
	vg_publication_destroy(second);
	vg_publication_destroy(third);
	await_rows("w", 0);
	for (int i = 0; i < 3; i++)
		OK(vg_vram_free(handles[i]));
}

static sem_t gate;

static void CUDA_CB wait_at_gate(void *user)
{
	sem_wait(&gate);
}

static void *publish_behind(void *stream)
{
	const struct vg_publish_options options = {.size = sizeof options, .fence = stream};
	struct vg_vram_handle handle;
	struct vg_publication *publication = NULL;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);

	vg_share_publish(open_node(), "fenced", offer, &options, &publication);
	vg_share_offer_destroy(offer);
	vg_vram_free(handle);
	return publication;
}

TEST(open_waits_for_the_fence)
{
	struct vg_share_lease *lease;
	struct vg_stream *stream;
	pthread_t thread;
	void *publication;
	enum vg_status status;

	open_node();
	open_vram();
	struct vg_context *context = first_context();
	OK(vg_stream_create(context, NULL, &stream));
	sem_init(&gate, 0, 0);
	CHECK_INT(core_driver->cuLaunchHostFunc(stream->handle, wait_at_gate, NULL), 0);
	CHECK_INT(pthread_create(&thread, NULL, publish_behind, stream), 0);
	for (int i = 0; i < 1000 && (status = vg_share_open(node, "fenced", NULL, &lease)) == VG_NOT_FOUND; i++)
		poll(NULL, 0, 2); // wait until the other thread's publication has registered its name
	CHECK_INT(status, VG_NOT_READY);
	poll(NULL, 0, 50);
	CHECK_INT(vg_share_open(node, "fenced", NULL, &lease), VG_NOT_READY);
	CHECK(vg_status_is_retriable(VG_NOT_READY));
	sem_post(&gate);
	CHECK_INT(pthread_join(thread, &publication), 0);
	CHECK(publication);
	lease = open_lease("fenced", 0);
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	vg_stream_destroy(stream);
	vg_context_destroy(context);
}

// ---- revoking -----------------------------------------------------------------------------------------------

static void *let_go_when_asked(void *user)
{
	struct vg_share_lease *lease = user;
	struct vg_publication_view view = {.size = sizeof view};
	struct pollfd told = {.fd = vg_share_lease_descriptor(lease), .events = POLLIN};

	do {
		poll(&told, 1, 5000);
		vg_share_lease_look(lease, &view);
	} while (view.state == VG_PUBLICATION_CURRENT);
	if (view.state != VG_PUBLICATION_ASKED_BACK || view.seconds_left <= 0 || vg_share_lease_is_current(lease))
		return NULL;
	vg_share_lease_close(lease);
	return lease;
}

TEST(revoke_returns_when_readers_close)
{
	const struct vg_revoke_options patient = {.size = sizeof patient, .deadline = 20};
	struct vg_revoke_report *report;
	struct vg_vram_handle handle;
	pthread_t thread;
	void *done;

	struct vg_publication *publication = publish("asked", &handle);
	struct vg_share_lease *lease = open_lease("asked", 0);
	CHECK_INT(pthread_create(&thread, NULL, let_go_when_asked, lease), 0);
	uint64_t before = vg_clock_monotonic_ns();
	OK(vg_share_revoke(node, "asked", &patient, &report));
	CHECK((vg_clock_monotonic_ns() - before) / 1000000000 < 10); // the lease ended before its deadline of 10 s
	CHECK_INT(pthread_join(thread, &done), 0);
	CHECK(done == lease);
	CHECK_INT(report->step, VG_REVOKE_ASKED);
	CHECK_INT(report->holders, 1);
	CHECK_INT(report->left, 0);
	vg_revoke_report_free(report);
	CHECK_INT(state_of(publication), VG_PUBLICATION_ASKED_BACK);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

TEST(revoke_lists_remaining_readers)
{
	const struct vg_revoke_options impatient = {.size = sizeof impatient, .deadline = 0.05};
	struct vg_revoke_report *report;
	struct vg_vram_handle handle;
	struct vg_share_lease *none;

	struct vg_publication *publication = publish("kept", &handle);
	struct vg_share_lease *lease = open_lease("kept", 0);
	OK(vg_share_revoke(node, "kept", &impatient, &report));
	CHECK_INT(report->step, VG_REVOKE_WITHDRAWN);
	CHECK_INT(report->left, 1);
	CHECK_INT(report->holders_left[0].pid, getpid());
	CHECK(report->holders_left[0].owner);
	vg_revoke_report_free(report);
	REFUSED(vg_share_open(node, "kept", NULL, &none), VG_NOT_FOUND, "withdrawn");
	CHECK_INT(lease_state(lease), VG_PUBLICATION_ASKED_BACK);
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
	await_rows("kept", 0);
}

// ---- killed daemons --------------------------------------------------------------------------------------------

TEST(mappings_survive_a_killed_daemon)
{
	struct vg_vram_handle handle, other;
	struct vg_share_lease *again;
	uint32_t word;

	struct vg_publication *publication = publish("w", &handle);
	struct vg_share_lease *lease = open_lease("w", 0);
	OK(vg_share_import(open_vram(), vg_share_lease_offer(lease), 0, NULL, &other));
	struct pollfd told = {.fd = vg_share_lease_descriptor(lease), .events = POLLIN};
	kill_broker();
	CHECK_INT(poll(&told, 1, 2000), 1);
	// the lease is still current, since no process can publish without a daemon
	CHECK(vg_share_lease_is_current(lease));
	CHECK_INT(lease_state(lease), VG_PUBLICATION_DETACHED);
	OK(vg_vram_write_at(handle, 8, &(uint32_t){77}, 4));
	OK(vg_vram_read_at(other, 8, &word, 4));
	CHECK_INT(word, 77);
	// The next daemon does not let another process publish under the name until its publisher connects again.
	OK(vg_node_ping(node));
	REFUSED(vg_share_open(node, "w", NULL, &again), VG_NOT_READY, "has not connected again yet");
	CHECK_INT(lease_state(lease), VG_PUBLICATION_DETACHED);
	CHECK_INT(state_of(publication), VG_PUBLICATION_CURRENT); // this call publishes the name again
	CHECK_INT(vg_publication_generation(publication), 1);
	CHECK_INT(lease_state(lease), VG_PUBLICATION_CURRENT);
	await_leases("w", 1);
	again = open_lease("w", 0);
	CHECK_INT(vg_share_lease_generation(again), 1);
	// The reader still has the memory of generation 1 after a second generation was published.
	struct vg_vram_handle next;
	struct vg_publication *second = publish("w", &next);
	CHECK_INT(vg_publication_generation(second), 2);
	CHECK(!vg_share_lease_is_current(lease));
	vg_share_lease_close(again);
	OK(vg_vram_free(other));
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	vg_publication_destroy(second);
	OK(vg_vram_free(handle));
	OK(vg_vram_free(next));
	await_rows("w", 0);
}

TEST(publisher_restarts_the_daemon)
{
	struct vg_vram_handle handle;

	struct vg_publication *publication = publish("w", &handle);
	kill_broker();
	CHECK_INT(state_of(publication), VG_PUBLICATION_CURRENT);
	struct vg_share_lease *lease = open_lease("w", 0);
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

TEST(superseded_generation_is_republished_as_superseded)
{
	struct vg_vram_handle handles[2];

	struct vg_publication *first = publish("w", &handles[0]);
	struct vg_share_lease *lease = open_lease("w", 0);
	struct vg_publication *second = publish("w", &handles[1]);
	kill_broker();
	CHECK_INT(state_of(first), VG_PUBLICATION_SUPERSEDED); // although the new daemon does not know generation 2 yet
	CHECK_INT(lease_state(lease), VG_PUBLICATION_SUPERSEDED);
	CHECK_INT(state_of(second), VG_PUBLICATION_CURRENT);
	CHECK_INT(lease_state(lease), VG_PUBLICATION_SUPERSEDED);
	CHECK_INT(listed("w", NULL, NULL), 2);
	vg_share_lease_close(lease);
	vg_publication_destroy(first);
	vg_publication_destroy(second);
	for (int i = 0; i < 2; i++)
		OK(vg_vram_free(handles[i]));
	await_rows("w", 0);
}

// Deletes the broker's key while no daemon runs. A publisher proves to a new daemon by a ticket, made with this key,
// what it has published. The next daemon makes another key and refuses the ticket, so the publication is lost.
TEST(ticket_of_another_key_is_refused)
{
	struct vg_vram_handle handle;
	char path[128];

	struct vg_publication *publication = publish("w", &handle);
	kill_broker();
	snprintf(path, sizeof path, "%s/run/broker.key", broker_directory);
	CHECK_INT(unlink(path), 0);
	CHECK_INT(state_of(publication), VG_PUBLICATION_LOST);
	CHECK_INT(state_of(publication), VG_PUBLICATION_LOST);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
	publication = publish("w", &handle); // a new publication
	CHECK_INT(state_of(publication), VG_PUBLICATION_CURRENT);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

static void revoke_now(const char *name)
{
	const struct vg_revoke_options now = {.size = sizeof now, .deadline = 0.05};
	struct vg_revoke_report *report;

	OK(vg_share_revoke(open_node(), name, &now, &report));
	vg_revoke_report_free(report);
}

TEST(revoked_publication_is_not_republished)
{
	struct vg_vram_handle handle;

	struct vg_publication *publication = publish("w", &handle);
	struct vg_share_lease *lease = open_lease("w", 0); // the reader has the publication's page mapped
	revoke_now("w");
	kill_broker();
	CHECK_INT(state_of(publication), VG_PUBLICATION_ASKED_BACK);
	CHECK_INT(listed("w", NULL, NULL), 0);
	CHECK_INT(state_of(publication), VG_PUBLICATION_ASKED_BACK);
	CHECK_INT(listed("w", NULL, NULL), 0);
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

// Tests a publisher that destroys its publication while no daemon runs, and continues to run. The next daemon keeps the
// name for it, so the name must be revoked.
TEST(name_without_a_returning_publisher_is_revoked)
{
	struct vg_vram_handle handle;
	struct vg_share_lease *none;
	char state[16];

	struct vg_publication *publication = publish("w", &handle);
	kill_broker();
	vg_publication_destroy(publication);
	OK(vg_node_ping(node));
	CHECK_INT(listed("w", NULL, state), 1);
	CHECK_STR(state, "lost");
	revoke_now("w");
	CHECK_INT(listed("w", NULL, NULL), 0);
	REFUSED(vg_share_open(node, "w", NULL, &none), VG_NOT_FOUND, "no publication w");
	OK(vg_vram_free(handle));
	// The name can be published again. If it is revoked before its publisher has connected to the next daemon, the
	// publisher must learn that.
	struct vg_publication *late = publish("w", &handle);
	kill_broker();
	OK(vg_node_ping(node));
	revoke_now("w");
	CHECK_INT(state_of(late), VG_PUBLICATION_ASKED_BACK);
	CHECK_INT(listed("w", NULL, NULL), 0);
	vg_publication_destroy(late);
	OK(vg_vram_free(handle));
}

// ---- refusals ---------------------------------------------------------------------------------------------------

TEST(invalid_arguments_are_refused)
{
	const struct vg_publish_options bad_mode = {.size = sizeof bad_mode, .mode = 0777};
	const struct vg_publish_options bad_group = {.size = sizeof bad_group, .group = "no-such-group"};
	const struct vg_revoke_options bad_deadline = {.size = sizeof bad_deadline, .deadline = -1};
	const struct vg_share_open_options writable = {.size = sizeof writable, .writable = 1};
	struct vg_publication_view view = {0};
	struct vg_publication *publication;
	struct vg_share_lease *lease;
	struct vg_revoke_report *report;
	struct vg_publication_list *list;
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle), *empty;

	OK(vg_share_offer_create(&empty));
	open_node();
	REFUSED(vg_share_publish(NULL, "a", offer, NULL, &publication), VG_INVALID, "node is NULL");
	REFUSED(vg_share_publish(node, NULL, offer, NULL, &publication), VG_INVALID, "name is NULL");
	REFUSED(vg_share_publish(node, "a", NULL, NULL, &publication), VG_INVALID, "offer is NULL");
	REFUSED(vg_share_publish(node, "a", offer, NULL, NULL), VG_INVALID, "ret_publication is NULL");
	REFUSED(vg_share_publish(node, "", offer, NULL, &publication), VG_INVALID, "the name is empty");
	REFUSED(vg_share_publish(node, "a/b", offer, NULL, &publication), VG_INVALID, "names cannot have");
	REFUSED(vg_share_publish(node, "a", empty, NULL, &publication), VG_INVALID, "no ranges");
	REFUSED(vg_share_publish(node, "a", offer, &bad_mode, &publication), VG_INVALID, "0777");
	REFUSED(vg_share_publish(node, "a", offer, &bad_group, &publication), VG_INVALID, "system's daemon");
	REFUSED(vg_share_open(NULL, "a", NULL, &lease), VG_INVALID, "node is NULL");
	REFUSED(vg_share_open(node, "a", NULL, NULL), VG_INVALID, "ret_lease is NULL");
	REFUSED(vg_share_open(node, "nothing", NULL, &lease), VG_NOT_FOUND, "there is no publication nothing");
	REFUSED(vg_share_revoke(node, "a", &bad_deadline, &report), VG_INVALID, "makes no sense");
	REFUSED(vg_share_revoke(node, "nothing", NULL, &report), VG_NOT_FOUND, "there is no publication nothing");
	REFUSED(vg_share_revoke(node, "a", NULL, NULL), VG_INVALID, "ret_report is NULL");
	REFUSED(vg_publication_list(NULL, &list), VG_INVALID, "node is NULL");
	REFUSED(vg_publication_list(node, NULL), VG_INVALID, "ret_list is NULL");
	REFUSED(vg_publication_look(NULL, &view), VG_INVALID, "publication is NULL");
	REFUSED(vg_share_lease_look(NULL, &view), VG_INVALID, "lease is NULL");
	REFUSED(vg_publication_withdraw(NULL, NULL), VG_INVALID, "publication is NULL");
	OK(vg_share_publish(node, "a", offer, NULL, &publication));
	REFUSED(vg_publication_look(publication, &view), VG_INVALID, "size field");
	REFUSED(vg_share_open(node, "a", &writable, &lease), VG_INVALID, "for reading only");
	vg_publication_destroy(publication);
	vg_publication_destroy(NULL);
	vg_share_lease_close(NULL);
	vg_publication_list_free(NULL);
	vg_revoke_report_free(NULL);
	CHECK_INT(vg_publication_generation(NULL), 0);
	CHECK_INT(vg_publication_descriptor(NULL), -1);
	CHECK_INT(vg_share_lease_descriptor(NULL), -1);
	CHECK_INT(vg_share_lease_generation(NULL), 0);
	CHECK(!vg_share_lease_is_current(NULL) && !vg_share_lease_offer(NULL));
	vg_share_offer_destroy(offer);
	vg_share_offer_destroy(empty);
	OK(vg_vram_free(handle));
}

TEST(forked_child_can_only_destroy)
{
	struct vg_vram_handle handle;

	struct vg_publication *publication = publish("forked", &handle);
	struct vg_share_lease *lease = open_lease("forked", 0);
	pid_t child = fork();
	if (child == 0) {
		struct vg_publication_view view = {.size = sizeof view};
		int bad = vg_publication_look(publication, &view) != VG_STATE;
		bad |= vg_share_lease_look(lease, &view) != VG_STATE;
		bad |= vg_publication_withdraw(publication, NULL) != VG_STATE;
		vg_share_lease_close(lease);
		vg_publication_destroy(publication);
		_exit(bad);
	}
	CHECK_CHILD(child);
	// the child's calls do not affect the parent's publication
	CHECK_INT(state_of(publication), VG_PUBLICATION_CURRENT);
	CHECK_INT(lease_state(lease), VG_PUBLICATION_CURRENT);
	await_leases("forked", 1);
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

// ---- concurrent and repeated use ----------------------------------------------------------------------------------

static struct vg_share_lease *watched;

static void *use_concurrently(void *user)
{
	struct vg_share_lease *lease;

	for (int i = 0; i < 20; i++) {
		vg_share_lease_is_current(watched);
		lease_state(watched);
		if (vg_share_open(node, "shared", NULL, &lease) == VG_OK)
			vg_share_lease_close(lease);
	}
	return NULL;
}

TEST(threads_use_leases_concurrently)
{
	struct vg_vram_handle handle;
	pthread_t threads[6];

	struct vg_publication *publication = publish("shared", &handle);
	watched = open_lease("shared", 0);
	for (int i = 0; i < 6; i++)
		CHECK_INT(pthread_create(&threads[i], NULL, use_concurrently, NULL), 0);
	for (int i = 0; i < 10; i++) {
		struct vg_vram_handle other;
		struct vg_publication *next = publish("shared", &other);
		vg_publication_destroy(publication);
		OK(vg_vram_free(handle));
		publication = next;
		handle = other;
	}
	kill_broker(); // kills the daemon while the threads run
	for (int i = 0; i < 6; i++)
		CHECK_INT(pthread_join(threads[i], NULL), 0);
	vg_share_lease_close(watched);
	CHECK_INT(state_of(publication), VG_PUBLICATION_CURRENT);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

static int count_lines(const char *path)
{
	FILE *file = fopen(path, "re");
	int lines = 0, c;

	CHECK(file);
	while ((c = getc(file)) != EOF)
		lines += c == '\n';
	fclose(file);
	return lines;
}

// Counts a process's descriptors. Repeats until the daemon has closed those of recent connections.
static int count_descriptors(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	int least = count_entries(path);
	for (int i = 0; i < 20; i++) {
		poll(NULL, 0, 2);
		int count = count_entries(path);
		least = count < least ? count : least;
	}
	return least;
}

static void cycle(void)
{
	struct vg_vram_handle handle, other;

	struct vg_publication *publication = publish("cycle", &handle);
	struct vg_share_lease *lease = open_lease("cycle", 0);
	OK(vg_share_import(open_vram(), vg_share_lease_offer(lease), 0, NULL, &other));
	OK(vg_vram_free(other));
	vg_share_lease_close(lease);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
}

// With a sanitizer, freed memory stays mapped, so the mappings are not counted.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_SANITIZED = true };
#else
enum { IS_SANITIZED = false };
#endif

// Publishes, opens and closes VIRGATE_CYCLES times. After the first cycles, the numbers of descriptors and mappings
// must not grow any more.
TEST(repeated_use_leaks_nothing)
{
	const char *wanted = getenv("VIRGATE_CYCLES");
	int cycles = wanted ? atoi(wanted) : 300;

	for (int i = 0; i < 20; i++)
		cycle();
	await_rows("cycle", 0);
	size_t device = free_on(vg_vram_device(open_vram()));
	int own = count_descriptors(getpid()), daemon = count_descriptors(broker_pid()),
	    maps = count_lines("/proc/self/maps");
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/maps", (int)broker_pid());
	int daemon_maps = count_lines(path);
	for (int i = 0; i < cycles; i++)
		cycle();
	await_rows("cycle", 0);
	CHECK_INT(count_descriptors(getpid()), own);
	// The daemon's threads close descriptors with a delay. The number may be smaller now, if the daemon had a file
	// open at the first count.
	for (int i = 0; i < 1000 && count_descriptors(broker_pid()) > daemon; i++)
		usleep(10000);
	CHECK(count_descriptors(broker_pid()) <= daemon);
	CHECK(IS_SANITIZED || count_lines("/proc/self/maps") <= maps + 2); // the heap may have got another mapping
	CHECK(IS_SANITIZED || count_lines(path) <= daemon_maps + 2);
	CHECK_INT(free_on(vg_vram_device(open_vram())), device);
}
