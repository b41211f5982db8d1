// Tests memory in two processes. Both are children of this process, which never uses the driver itself: otherwise its
// children could not use it.
#include "share_test.h"

#include <signal.h>
#include <sys/wait.h>

#include "core/virtual_memory.h"
#include "virgate/virtual_memory.h"

// Waits for a byte from the other process, or sends a byte.
static void meet(int socket, int wait)
{
	char byte = 0;

	CHECK_INT(wait ? read(socket, &byte, 1) : write(socket, &byte, 1), 1);
}

static pid_t start(void (*side)(int socket), int own, int other)
{
	pid_t child = fork();

	if (child == 0) {
		close(other);
		side(own);
		_exit(0);
	}
	return child;
}

// Runs both sides in children, and stores their wait statuses in `ret_ends`.
static void run_both(void (*one)(int socket), void (*other)(int socket), int ret_ends[2])
{
	pid_t children[2];
	int ends[2];

	fflush(stdout);
	CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	children[0] = start(one, ends[0], ends[1]);
	children[1] = start(other, ends[1], ends[0]);
	close(ends[0]);
	close(ends[1]);
	for (int i = 0; i < 2; i++)
		CHECK_INT(waitpid(children[i], &ret_ends[i], 0), children[i]);
}

static void both_pass(void (*one)(int socket), void (*other)(int socket))
{
	int ends[2];

	run_both(one, other, ends);
	CHECK_INT(ends[0], 0);
	CHECK_INT(ends[1], 0);
}

enum { RANGES = 20 };

static void offer_many(int socket)
{
	struct vg_vram_handle handles[RANGES];
	struct vg_share_offer *offer = offer_of(RANGES, 2 * MIB, 1, handles);
	uint32_t word;

	OK(vg_share_send(socket, offer, NULL));
	vg_share_offer_destroy(offer);
	meet(socket, 1); // wait until the other process has written to the memory
	for (uint32_t i = 0; i < RANGES; i++) {
		OK(vg_vram_read_at(handles[i], 2 * MIB - 4, &word, 4));
		CHECK_INT(word, i + 1000);
		OK(vg_vram_free(handles[i]));
	}
	vg_vram_destroy(vram);
}

static void take_many(int socket)
{
	struct vg_share_import_options options = {.size = sizeof options, .writable = 1};
	struct vg_vram_handle handle;
	struct vg_share_offer *offer;
	struct vg_share_range range;
	struct vg_vram_loan loan;
	uint32_t word, same = 0;

	OK(vg_share_receive(socket, NULL, &offer));
	CHECK_INT(vg_share_offer_count(offer), RANGES);
	for (uint32_t i = 0; i < RANGES; i++) {
		OK(vg_share_offer_range(offer, i, &range));
		CHECK_INT(range.generation, 100 + i);
		options.same_address = 1;
		enum vg_status status = vg_share_import(open_vram(), offer, i, &options, &handle);
		// The import may fail with VG_EXISTS: a real driver or a library may use the addresses.
		options.same_address = 0;
		if (status == VG_EXISTS && !getenv("VIRGATE_SIM"))
			status = vg_share_import(vram, offer, i, &options, &handle);
		OK(status);
		OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
		same += loan.address == range.address; // at the same address, pointers in the memory would stay valid
		OK(vg_vram_give_back(&loan));
		OK(vg_vram_read_at(handle, 0, &word, 4));
		CHECK_INT(word, i);
		OK(vg_vram_write_at(handle, 2 * MIB - 4, &(uint32_t){i + 1000}, 4));
		OK(vg_vram_free(handle));
	}
	vg_share_offer_destroy(offer);
	printf("# %u of %d at the exporter's addresses\n", same, RANGES);
	CHECK(same == RANGES || (same > 0 && !getenv("VIRGATE_SIM")));
	OK(vg_device_sync(vg_vram_device(vram)));
	vg_vram_destroy(vram);
	meet(socket, 0);
	fflush(stdout);
}

TEST(import_many_ranges_at_the_same_addresses)
{
	both_pass(offer_many, take_many);
}

static void offer_one(int socket)
{
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);

	OK(vg_share_send(socket, offer, NULL));
	vg_share_offer_destroy(offer);
	meet(socket, 1);
	OK(vg_vram_free(handle)); // zeroes it
	meet(socket, 0);
	meet(socket, 1);
	vg_vram_destroy(vram);
}

static struct vg_share_offer *receive(int socket)
{
	struct vg_share_offer *offer;

	OK(vg_share_receive(socket, NULL, &offer));
	return offer;
}

static void read_after_free(int socket)
{
	struct vg_share_offer *offer = receive(socket);
	struct vg_vram_handle handle;
	uint32_t word = 1;

	offer->ranges[0].writable = true;
	OK(vg_share_import(
		open_vram(), offer, 0,
		&(struct vg_share_import_options){.size = sizeof(struct vg_share_import_options), .writable = 1},
		&handle));
	OK(vg_vram_write_at(handle, 8, &(uint32_t){5}, 4));
	OK(vg_device_sync(vg_vram_device(vram)));
	vg_share_offer_destroy(offer);
	meet(socket, 0);
	meet(socket, 1);
	OK(vg_vram_read_at(handle, 8, &word, 4));
	CHECK_INT(word, 0);
	OK(vg_vram_free(handle));
	meet(socket, 0);
}

TEST(importer_reads_zero_after_the_exporter_frees)
{
	both_pass(offer_one, read_after_free);
}

static void die_after_sending(int socket)
{
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);

	OK(vg_vram_write_at(handle, 16, &(uint32_t){0x5eed}, 4));
	vg_share_offer_destroy(offer);
	OK(vg_share_offer_create(&offer));
	OK(vg_share_offer_add(offer, handle, NULL));
	OK(vg_share_send(socket, offer, NULL));
	raise(SIGKILL);
}

static void outlive(int socket)
{
	struct vg_share_offer *offer = receive(socket);
	struct vg_vram_handle handle;
	uint32_t word;
	char byte;

	CHECK_INT(read(socket, &byte, 1), 0); // wait until the exporter has ended
	for (int i = 0; i < 2; i++) {	      // the memory can be imported twice after the exporter has ended
		OK(vg_share_import(open_vram(), offer, 0, NULL, &handle));
		OK(vg_vram_read_at(handle, 16, &word, 4));
		CHECK_INT(word, 0x5eed);
		OK(vg_vram_free(handle));
	}
	vg_share_offer_destroy(offer);
	vg_vram_destroy(vram);
}

TEST(memory_survives_a_killed_exporter)
{
	int ends[2];

	run_both(die_after_sending, outlive, ends);
	CHECK(WIFSIGNALED(ends[0]) && WTERMSIG(ends[0]) == SIGKILL);
	CHECK_INT(ends[1], 0);
}

static void offer_and_wait(int socket)
{
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);
	uint32_t word;

	OK(vg_share_send(socket, offer, NULL));
	vg_share_offer_destroy(offer);
	meet(socket, 1);
	OK(vg_vram_read_at(handle, 4, &word, 4));
	meet(socket, 0);
	OK(vg_vram_free(handle));
	vg_vram_destroy(vram);
	_exit((int)word);
}

// Writes through a mapping that was imported for reading. The GPU enforces that: the write faults, and makes the
// context unusable.
static void write_for_reading(int socket)
{
	struct vg_share_offer *offer = receive(socket);
	struct vg_vram_handle handle;
	struct vg_vram_loan loan;

	OK(vg_share_import(open_vram(), offer, 0, NULL, &handle));
	REFUSED(vg_vram_write_at(handle, 4, "x", 1), VG_POLICY, "");
	OK(vg_vram_borrow(handle, VG_VRAM_READ, &loan));
	CUresult r = core_driver->cuMemsetD8_v2(loan.address + 4, 7, 1);
	if (r == CUDA_SUCCESS)
		r = core_driver->cuCtxSynchronize();
	CHECK(r != CUDA_SUCCESS);
	meet(socket, 0);
	meet(socket, 1);
	_exit(0);
}

TEST(gpu_faults_on_writes_to_a_read_only_mapping)
{
	both_pass(offer_and_wait, write_for_reading);
}

// Maps memory for writing that was offered for reading. The offer's access is not enforced, because a process with the
// descriptor can map the memory as it likes.
static void write_by_the_descriptor(int socket)
{
	struct vg_share_offer *offer = receive(socket);
	struct vg_device *device = vg_vram_device(open_vram());
	struct vg_physical_memory *memory;
	struct vg_address_range *addresses;
	struct vg_mapping *mapping;
	struct vg_context *context;

	CHECK(!offer->ranges[0].writable);
	OK(vg_context_primary(device, &context));
	OK(vg_context_set_current(context, NULL));
	OK(vg_physical_memory_import(device, offer->ranges[0].descriptor, 2 * MIB, &memory));
	OK(vg_address_range_create(2 * MIB, 0, 0, &addresses));
	OK(vg_mapping_create(addresses, 0, memory, &mapping));
	OK(vg_mapping_set_access(mapping, &device, 1, VG_ACCESS_READ_WRITE));
	CHECK_INT(core_driver->cuMemsetD8_v2(vg_mapping_address(mapping) + 4, 7, 1), CUDA_SUCCESS);
	CHECK_INT(core_driver->cuCtxSynchronize(), CUDA_SUCCESS);
	meet(socket, 0);
	meet(socket, 1);
	_exit(0);
}

TEST(descriptor_allows_writable_mappings)
{
	int ends[2];

	run_both(offer_and_wait, write_by_the_descriptor, ends);
	CHECK(WIFEXITED(ends[0]));
	CHECK_INT(WEXITSTATUS(ends[0]), 7);
	CHECK_INT(ends[1], 0);
}
