// Measures how long it takes to export an allocation and to map it in another process through the node's broker. In
// alternating turns, the same two processes do it without the broker: export, SCM_RIGHTS, import, map. Also measures
// how much device memory this uses, which shows that no copy is made.
//   bench_share [--json FILE]
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/core.h"
#include "core/device.h"
#include "core/virtual_memory.h"
#include "figures.h"
#include "share/offer.h"
#include "virgate/virgate.h"
#include "vram/vram.h"

#define MIB ((size_t)1 << 20)
enum { REPETITIONS = 101, WARM = 5 };

struct size_case {
	const char *name;
	size_t size;
	double limit; // the most microseconds; 0: no limit
};
static const struct size_case on_gpu[] = {{"1M", MIB, 3000}, {"1G", 1024 * MIB, 0}, {"16G", 16384 * MIB, 10000}};
static const struct size_case on_simulator[] = {{"1M", MIB, 3000}, {"64M", 64 * MIB, 0}};

static struct vg_node *node;
static struct vg_vram *vram;
static int peer; // the socket to the process at the other end

static void give_up(const char *what)
{
	fprintf(stderr, "bench_share: %s: %s\n", what, vg_last_error()->text);
	exit(1);
}

static void check(enum vg_status status)
{
	if (status)
		give_up(vg_last_error()->function);
}

static void check_driver(CUresult result, const char *what)
{
	if (result)
		give_up(what);
}

static void send_bytes(const void *bytes, size_t size)
{
	if (write(peer, bytes, size) != (ssize_t)size)
		give_up("the other process has ended");
}

static bool receive_bytes(void *bytes, size_t size)
{
	return read(peer, bytes, size) == (ssize_t)size;
}

// ---- the reader ---------------------------------------------------------------------------------------------

struct times {
	uint64_t opened, mapped;
};

static struct times read_through_broker(void)
{
	struct vg_share_lease *lease;
	struct vg_vram_handle handle;
	struct times times = {0};

	check(vg_share_open(node, "bench", NULL, &lease));
	times.opened = vg_clock_monotonic_ns();
	check(vg_share_import(vram, vg_share_lease_offer(lease), 0, NULL, &handle));
	times.mapped = vg_clock_monotonic_ns();
	send_bytes(&times, sizeof times);
	char go;
	receive_bytes(&go, 1);
	check(vg_vram_free(handle));
	vg_share_lease_close(lease);
	return times;
}

static int receive_descriptor(void)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	int fd;

	if (recvmsg(peer, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
		give_up("no descriptor came");
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
	return fd;
}

static void read_plainly(size_t mapped)
{
	CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, vg_device_ordinal(vg_vram_device(vram))},
				  CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	struct times times = {0};
	CUdeviceptr address;
	char go;

	int fd = receive_descriptor();
	check_driver(core_driver->cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)fd,
								 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
		     "cuMemImportFromShareableHandle");
	check_driver(core_driver->cuMemAddressReserve(&address, mapped, 0, 0, 0), "cuMemAddressReserve");
	check_driver(core_driver->cuMemMap(address, mapped, 0, handle, 0), "cuMemMap");
	check_driver(core_driver->cuMemSetAccess(address, mapped, &access, 1), "cuMemSetAccess");
	times.mapped = vg_clock_monotonic_ns();
	close(fd);
	send_bytes(&times, sizeof times);
	receive_bytes(&go, 1);
	check_driver(core_driver->cuMemUnmap(address, mapped), "cuMemUnmap");
	check_driver(core_driver->cuMemRelease(handle), "cuMemRelease");
	check_driver(core_driver->cuMemAddressFree(address, mapped), "cuMemAddressFree");
}

// Runs one turn for each word that it receives: 0 is a turn through the broker; another value is a turn without the
// broker, and the number of bytes to map.
static int run_reader(void)
{
	size_t word;

	check(vg_vram_open(NULL, &vram));
	send_bytes("", 1);
	while (receive_bytes(&word, sizeof word)) {
		if (word == 0)
			read_through_broker();
		else
			read_plainly(word);
		send_bytes("", 1);
	}
	return 0;
}

// ---- the publisher ------------------------------------------------------------------------------------------

struct turn {
	double whole, offer, publish, open, import; // us
	double used;				    // MiB of device memory, while both processes have it mapped
};

static size_t free_memory(void)
{
	struct vg_vram_capacity capacity;

	check(vg_vram_capacity(vram, &capacity));
	return (size_t)capacity.free;
}

static void await_reader(void)
{
	char done;

	send_bytes("", 1);
	if (!receive_bytes(&done, 1))
		give_up("the reader has ended");
}

static struct turn time_through_broker(struct vg_vram_handle handle)
{
	struct vg_publication *publication;
	struct vg_share_offer *offer;
	struct times times;
	size_t before = free_memory(), word = 0;

	uint64_t start = vg_clock_monotonic_ns();
	check(vg_share_offer_create(&offer));
	check(vg_share_offer_add(offer, handle, NULL));
	uint64_t offered = vg_clock_monotonic_ns();
	check(vg_share_publish(node, "bench", offer, NULL, &publication));
	uint64_t published = vg_clock_monotonic_ns();
	send_bytes(&word, sizeof word);
	if (!receive_bytes(&times, sizeof times))
		give_up("the reader has ended");
	size_t after = free_memory();
	await_reader();
	vg_publication_destroy(publication);
	vg_share_offer_destroy(offer);
	return (struct turn){.whole = (double)(times.mapped - start) / 1e3,
			     .offer = (double)(offered - start) / 1e3,
			     .publish = (double)(published - offered) / 1e3,
			     .open = (double)(times.opened - published) / 1e3,
			     .import = (double)(times.mapped - times.opened) / 1e3,
			     .used = before > after ? (double)(before - after) / (double)MIB : 0};
}

static double time_plainly(struct vg_vram_handle handle)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	char byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
	struct vram_region *region;
	struct times times;
	int fd;

	check(vram_look(handle, &region));
	size_t mapped = region->mapped;
	send_bytes(&mapped, sizeof mapped);
	uint64_t start = vg_clock_monotonic_ns();
	check_driver(core_driver->cuMemExportToShareableHandle(&fd, region->memory->handle,
							       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
		     "cuMemExportToShareableHandle");
	struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
	*rights = (struct cmsghdr){CMSG_LEN(sizeof fd), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(rights), &fd, sizeof fd);
	if (sendmsg(peer, &message, 0) != 1 || !receive_bytes(&times, sizeof times))
		give_up("the reader has ended");
	close(fd);
	await_reader();
	vram_unpin(region, VRAM_READ);
	return (double)(times.mapped - start) / 1e3;
}

static void add_figure(struct bench_report *report, const char *what, const char *size, double *values, double beside,
		       double limit)
{
	struct bench_figure figure = {.unit = "us", .limit = limit, .rule = limit > 0 ? BENCH_AT_MOST : BENCH_NO_LIMIT};

	snprintf(figure.what, sizeof figure.what, "%s of %s", what, size);
	bench_figure_set(&figure, values, REPETITIONS);
	figure.baseline = beside;
	bench_report_add(report, &figure);
}

static void measure(struct bench_report *report, const struct size_case *one)
{
	const struct vg_vram_allocate_options shareable = {.size = sizeof shareable, .shareable = 1};
	static double whole[REPETITIONS], offer[REPETITIONS], publish[REPETITIONS], open[REPETITIONS],
		import[REPETITIONS], used[REPETITIONS], plain[REPETITIONS];
	struct bench_figure memory = {.unit = "MiB", .limit = 32, .rule = BENCH_AT_MOST};
	struct vg_vram_handle handle;

	check(vg_vram_allocate(vram, one->size, &shareable, &handle));
	for (int i = -WARM; i < REPETITIONS; i++) {
		struct turn turn = time_through_broker(handle);
		double beside = time_plainly(handle);
		if (i < 0)
			continue;
		whole[i] = turn.whole, offer[i] = turn.offer, publish[i] = turn.publish;
		open[i] = turn.open, import[i] = turn.import, used[i] = turn.used, plain[i] = beside;
	}
	check(vg_vram_free(handle));
	struct bench_figure middle = {0};
	bench_figure_set(&middle, plain, REPETITIONS);
	add_figure(report, "export, pass, import, map", one->name, plain, 0, 0);
	add_figure(report, "export, publish, open, mapped", one->name, whole, middle.value, one->limit);
	add_figure(report, "  export", one->name, offer, 0, 0);
	add_figure(report, "  publish", one->name, publish, 0, 0);
	add_figure(report, "  open", one->name, open, 0, 0);
	add_figure(report, "  import", one->name, import, 0, 0);
	snprintf(memory.what, sizeof memory.what, "device memory that it took, %s", one->name);
	bench_figure_set(&memory, used, REPETITIONS);
	bench_report_add(report, &memory);
}

// ---- the benchmark's own node ---------------------------------------------------------------------------------

static char directory[64];

static void open_node(void)
{
	static const char *const places[] = {"../daemon/virgated", "../../../bin/virgated"};
	char own[PATH_MAX], path[PATH_MAX + 64];

	snprintf(directory, sizeof directory, "/tmp/bench-share-XXXXXX");
	if (!mkdtemp(directory) || !realpath("/proc/self/exe", own))
		give_up(directory);
	strrchr(own, '/')[1] = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s%s", own, places[i]);
		if (access(path, X_OK) == 0)
			setenv("VIRGATE_DAEMON", path, 0);
	}
	snprintf(path, sizeof path, "%s/state", directory);
	setenv("VIRGATE_STATE_DIR", path, 1);
	snprintf(path, sizeof path, "%s/run", directory);
	const struct vg_node_options options = {.size = sizeof options, .runtime_dir = path};
	check(vg_node_open(&options, &node));
	check(vg_node_ping(node));
}

static void close_node(void)
{
	char command[128];

	vg_node_shutdown(node);
	vg_node_close(node);
	snprintf(command, sizeof command, "rm -rf '%s'", directory);
	if (system(command) != 0)
		fprintf(stderr, "bench_share: left behind: %s\n", directory);
}

int main(int argc, char **argv)
{
	const char *json = argc == 3 && strcmp(argv[1], "--json") == 0 ? argv[2] : NULL;
	struct bench_report *report = bench_report_create();
	int ends[2];
	char ready;

	if ((argc > 1 && !json) || !report) {
		fprintf(stderr, "usage: bench_share [--json FILE]\n");
		return 2;
	}
	open_node();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		give_up("socketpair");
	pid_t reader = fork(); // fork before either process initializes the driver
	peer = ends[reader == 0];
	close(ends[reader != 0]);
	if (reader == 0)
		return run_reader();
	check(vg_vram_open(NULL, &vram));
	if (!receive_bytes(&ready, 1))
		give_up("the reader does not start");
	bool simulated = core_driver->simulated;
	printf("device: %s\n", vg_device_name(vg_vram_device(vram)));
	const struct size_case *cases = simulated ? on_simulator : on_gpu;
	for (size_t i = 0; i < (simulated ? sizeof on_simulator : sizeof on_gpu) / sizeof *cases; i++)
		measure(report, &cases[i]);
	close(peer);
	waitpid(reader, NULL, 0);
	vg_vram_destroy(vram);
	close_node();
	return bench_report_finish(report, json);
}
