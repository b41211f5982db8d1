// Starts a daemon with a broker and simulated GPUs, and clients whose messages the test writes itself. A named pipe
// replaces device memory: it has the name that the simulated driver gives a memory descriptor. The broker accepts it,
// because it checks only the name.
#pragma once
#include "daemon_fixture.h"
#include "share/message.h"
#include "wire/page.h"

#include <sys/mman.h>
#include <sys/resource.h>

static bool is_system_wide; // whether start_broker() starts the system's daemon instead of a user's own
static const char *simulated_gpu = "memory=1G,ctx=16M";
static rlim_t descriptor_limit; // the descriptor limit of the next daemon; 0: the same limit as the test's

// A valid offer of one range.
static const struct share_header valid_header = {
	.magic = SHARE_MAGIC, .version = SHARE_VERSION, .count = 1, .total = 1, .size = sizeof(struct share_entry)};
static const struct share_entry valid_entry = {.bytes = MIB, .mapped = 2 * MIB, .granularity = 2 * MIB};

// Starts a daemon that kills itself at the given step of the broker's work (BROKER_STEP); -1: never. Returns whether
// the daemon listens.
static inline bool start_broker_program(const char *program, int step)
{
	int ready[2];
	char number[12], at[12], state[300], log[300], sim[300], byte;

	CHECK_INT(pipe(ready), 0);
	snprintf(state, sizeof state, "%s/state", directory);
	snprintf(log, sizeof log, "%s/log", directory);
	snprintf(sim, sizeof sim, "%s/sim", directory);
	daemon_pid = fork();
	if (daemon_pid == 0) {
		dup2(open(log, O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
		close(ready[0]);
		setenv("VIRGATE_RUNTIME_DIR", runtime_dir, 1);
		setenv("VIRGATE_STATE_DIR", state, 1);
		setenv("VIRGATE_SIM", simulated_gpu, 1);
		setenv("VIRGATE_SIM_DIR", sim, 1);
		setenv("VIRGATE_NVML", SIM_NVML_LIBRARY, 1);
		snprintf(at, sizeof at, "%d", step);
		setenv("BROKER_STEP", at, 1);
		snprintf(number, sizeof number, "%d", ready[1]);
		if (descriptor_limit)
			setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptor_limit, descriptor_limit});
		execl(program, "virgated", "--ready-fd", number, "--idle-seconds", "0",
		      is_system_wide ? "--system" : NULL, NULL);
		_exit(127);
	}
	close(ready[1]);
	bool started = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return started;
}

static inline void start_broker(void)
{
	if (!start_broker_program(VIRGATED, -1))
		FAIL("the daemon does not start: see %s/log", directory);
}

static inline void start_fresh_broker(void)
{
	fresh_node();
	start_broker();
}

// ---- memory -------------------------------------------------------------------------------------------------

static inline int make_memory(int number)
{
	char path[300];

	snprintf(path, sizeof path, "%s/export-1-%016x", directory, number);
	CHECK(mkfifo(path, 0600) == 0 || errno == EEXIST);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

static inline ino_t inode_of(int fd)
{
	struct stat status;

	CHECK_INT(fstat(fd, &status), 0);
	return status.st_ino;
}

// ---- messages -------------------------------------------------------------------------------------------------

// Sends a request. The text has single quotes in place of double quotes.
__attribute__((format(printf, 2, 3))) static inline int send_request(int fd, const char *format, ...)
{
	char text[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	for (char *at = text; *at; at++)
		if (*at == '\'')
			*at = '"';
	return vg_wire_send(fd, VG_WIRE_SHARE, 0, text, strlen(text), NULL, 0);
}

static inline int connect_to_broker(void)
{
	int fd = vg_wire_connect(socket_path, 10000);

	if (fd < 0)
		FAIL("no connection: %s", strerror(-fd));
	return fd;
}

// Receives the next answer. Returns NULL if the connection ended or timed out. If the answer has a descriptor, stores
// it in *ret_page, or closes it if ret_page is NULL.
static inline json_t *receive_answer(int fd, int *ret_page)
{
	static struct vg_wire_message message;

	do {
		if (vg_wire_receive(fd, &message) < 0)
			return NULL;
	} while (message.type == VG_WIRE_EVENT);
	for (unsigned int i = 0; i < message.descriptor_count; i++)
		if (i == 0 && ret_page)
			*ret_page = message.descriptors[i];
		else
			close(message.descriptors[i]);
	return json_loads(message.text, 0, NULL);
}

// Waits for the next event and returns its kind; 0: no event arrived in time.
static inline int await_event(int fd, int ms, struct vg_wire_event *ret_event)
{
	static struct vg_wire_message message;
	struct pollfd ready = {.fd = fd, .events = POLLIN};

	if (poll(&ready, 1, ms) != 1 || vg_wire_receive(fd, &message) < 0 || message.type != VG_WIRE_EVENT)
		return 0;
	if (ret_event)
		*ret_event = message.event;
	return (int)message.event.kind;
}

static inline bool send_ranges(int fd, const int *memory, unsigned int total, uint32_t access)
{
	struct share_entry entries[SHARE_PACKET_RANGES];

	for (unsigned int first = 0; first < total; first += SHARE_PACKET_RANGES) {
		unsigned int count = total - first < SHARE_PACKET_RANGES ? total - first : SHARE_PACKET_RANGES;
		struct share_header header = {.magic = SHARE_MAGIC,
					      .version = SHARE_VERSION,
					      .count = (uint16_t)count,
					      .first = first,
					      .total = total,
					      .size = count * sizeof *entries};
		for (unsigned int i = 0; i < count; i++)
			entries[i] = (struct share_entry){.bytes = 2 * MIB,
							  .mapped = 2 * MIB,
							  .granularity = 2 * MIB,
							  .generation = 7 + first + i,
							  .access = access};
		if (vg_wire_send_raw(fd, &header, sizeof header, entries, header.size, memory + first, count) < 0)
			return false;
	}
	return true;
}

// Receives the packets of an offer. The caller closes the descriptors.
static inline bool receive_ranges(int fd, int *ret_memory, unsigned int total, uint32_t access)
{
	for (unsigned int got = 0; got < total;) {
		struct share_header header;
		struct share_entry entries[SHARE_PACKET_RANGES];
		struct iovec parts[2] = {{&header, sizeof header}, {entries, sizeof entries}};
		unsigned int count;
		if (vg_wire_receive_raw(fd, parts, ret_memory + got, &count) < 0)
			return false;
		CHECK_INT(header.first, got);
		CHECK_INT(header.count, count);
		CHECK_INT(header.total, total);
		for (unsigned int i = 0; i < count; i++) {
			CHECK_INT(entries[i].generation, 7 + got + i);
			CHECK_INT(entries[i].access, access);
		}
		got += count;
	}
	return true;
}

// ---- sessions ---------------------------------------------------------------------------------------------------

struct published {
	int fd;
	json_int_t generation;
	char id[40], ticket[72];
};

// Registers `count` ranges of memory with the broker, but does not commit the publication. Returns the connection after
// the broker has confirmed all ranges.
static inline int register_ranges(const char *name, const char *more, const int *memory, unsigned int count,
				  uint32_t access)
{
	int fd = connect_to_broker();

	CHECK_INT(send_request(fd, "{'op':'publish','name':'%s','ranges':%u%s}", name, count, more), 0);
	CHECK_AGREED(receive_answer(fd, NULL));
	CHECK(send_ranges(fd, memory, count, access));
	CHECK_AGREED(receive_answer(fd, NULL));
	return fd;
}

static inline struct published commit(int fd)
{
	struct published published = {.fd = fd};
	int page = -1;

	CHECK_INT(send_request(fd, "{'op':'commit'}"), 0);
	json_t *reply = receive_answer(fd, &page);
	if (!agreed(reply))
		FAIL("%s", json_string_value(json_object_get(reply, "message")));
	published.generation = json_integer_value(json_object_get(reply, "generation"));
	snprintf(published.id, sizeof published.id, "%s", json_string_value(json_object_get(reply, "id")));
	snprintf(published.ticket, sizeof published.ticket, "%s", json_string_value(json_object_get(reply, "ticket")));
	json_decref(reply);
	CHECK(page >= 0);
	close(page);
	return published;
}

// Publishes one range, and closes this process's descriptor of the memory.
static inline struct published publish(const char *name, const char *more, int number)
{
	int memory = make_memory(number);
	int fd = register_ranges(name, more, &memory, 1, 1);

	close(memory);
	return commit(fd);
}

static inline json_t *try_open(const char *name, const char *access, int *ret_fd)
{
	*ret_fd = connect_to_broker();
	CHECK_INT(send_request(*ret_fd, "{'op':'open','name':'%s','access':'%s'}", name, access), 0);
	return receive_answer(*ret_fd, NULL);
}

struct lease {
	int fd, memory;
	json_int_t generation;
	const struct vg_wire_page *page;
	char ticket[72];
};

static inline struct lease open_lease(const char *name, const char *access)
{
	struct lease lease = {.fd = connect_to_broker()};
	int page = -1;

	CHECK_INT(send_request(lease.fd, "{'op':'open','name':'%s','access':'%s'}", name, access), 0);
	json_t *reply = receive_answer(lease.fd, &page);
	if (!agreed(reply))
		FAIL("%s", json_string_value(json_object_get(reply, "message")));
	lease.generation = json_integer_value(json_object_get(reply, "generation"));
	snprintf(lease.ticket, sizeof lease.ticket, "%s", json_string_value(json_object_get(reply, "ticket")));
	json_decref(reply);
	CHECK(receive_ranges(lease.fd, &lease.memory, 1, access[4] == '-'));
	lease.page = mmap(NULL, VG_PAGE_SIZE, PROT_READ, MAP_SHARED, page, 0);
	CHECK(lease.page != MAP_FAILED);
	close(page);
	return lease;
}

static inline void close_lease(struct lease *lease)
{
	close(lease->fd);
	close(lease->memory);
	munmap((void *)lease->page, VG_PAGE_SIZE);
}

// Returns the number under `key` in the first listed publication with that name and generation (0: any generation).
// Returns -1 if no such publication is listed.
static inline json_int_t listed_figure(const char *name, json_int_t generation, const char *key, char *ret_text)
{
	json_t *reply = ask("{'op':'publications'}"), *row;
	json_int_t result = -1;
	size_t i;

	CHECK(agreed(reply));
	json_array_foreach(json_object_get(reply, "publications"), i, row) {
		const json_t *value = json_object_get(row, key);
		if (strcmp(json_string_value(json_object_get(row, "name")), name) != 0 ||
		    (generation && json_integer_value(json_object_get(row, "generation")) != generation))
			continue;
		result = json_integer_value(value);
		if (ret_text)
			snprintf(ret_text, 32, "%s", json_is_string(value) ? json_string_value(value) : "(none)");
	}
	json_decref(reply);
	return result;
}

// Waits at most two seconds until the publication is listed in the state `wanted`. If `wanted` is "gone", waits until
// the publication is not listed any more.
static inline void await_state(const char *name, json_int_t generation, const char *wanted)
{
	char state[32] = "";

	for (int i = 0; i < 400; i++) {
		if (listed_figure(name, generation, "leases", NULL) < 0)
			strcpy(state, "gone");
		else
			listed_figure(name, generation, "state", state);
		if (strcmp(state, wanted) == 0)
			return;
		poll(NULL, 0, 5);
	}
	FAIL("%s %lld is %s, not %s", name, (long long)generation, state, wanted);
}

static inline void await_leases(const char *name, json_int_t wanted)
{
	for (int i = 0; i < 400; i++) {
		if (listed_figure(name, 0, "leases", NULL) == wanted)
			return;
		poll(NULL, 0, 5);
	}
	FAIL("%s has %lld leases, not %lld", name, (long long)listed_figure(name, 0, "leases", NULL),
	     (long long)wanted);
}

// Returns how many descriptors of the memory with that number the daemon has open.
static inline int count_daemon_descriptors(int number)
{
	char path[64], link[320], target[320], wanted[64];
	int count = 0;

	snprintf(wanted, sizeof wanted, "/export-1-%016x", number);
	for (int fd = 0; fd < 256; fd++) {
		snprintf(path, sizeof path, "/proc/%d/fd", (int)daemon_pid);
		snprintf(link, sizeof link, "%s/%d", path, fd);
		ssize_t length = readlink(link, target, sizeof target - 1);
		target[length > 0 ? length : 0] = '\0';
		count += strstr(target, wanted) != NULL;
	}
	return count;
}

// Waits until a thread of the daemon has closed all descriptors of the memory with that number.
static inline void await_released(int number)
{
	for (int i = 0; i < 1000 && count_daemon_descriptors(number); i++)
		poll(NULL, 0, 5);
	CHECK_INT(count_daemon_descriptors(number), 0);
}
