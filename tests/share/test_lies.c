// Tests peers that send false sizes and devices, descriptors of other types, and packets out of order.
#include "share_test.h"

#include "share/channel.h"

#include <sys/epoll.h>
#include <sys/mman.h>

// Sends the offer, after the test has changed its range 0, and checks that the import fails with this status and text.
static void refused_import(struct vg_share_offer *offer, enum vg_status status, const char *words)
{
	struct vg_share_offer *received = sent(offer, SOCK_STREAM);
	struct vg_vram_handle imported;

	MEMORY_STEADY(vg_vram_device(vram),
		      REFUSED(vg_share_import(vram, received, 0, NULL, &imported), status, words););
	vg_share_offer_destroy(received);
}

TEST(false_size_is_refused)
{
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, 4 * MIB, 0, &handle);
	struct share_range *range = &offer->ranges[0];

	range->bytes = range->mapped = 2 * MIB;
	refused_import(offer, VG_PROTOCOL, "has another size than the 2097152 bytes");
	range->bytes = range->mapped = 8 * MIB;
	refused_import(offer, VG_PROTOCOL, "has another size than the 8388608 bytes");
	range->bytes = range->mapped = 4 * MIB + 4096; // a multiple of the false granularity in the next line
	range->granularity = 4096;
	range->address = 0;
	refused_import(offer, VG_PROTOCOL, "4198400 bytes are mapped, which is no multiple of this device's");
	vg_share_offer_destroy(offer);
	OK(vg_vram_free(handle));
}

TEST(another_device_is_refused)
{
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);

	offer->ranges[0].uuid[15] ^= 1;
	refused_import(offer, VG_INVALID, "import it in a context of its own device");
	vg_share_offer_destroy(offer);
	OK(vg_vram_free(handle));
}

TEST(each_range_is_imported_on_its_device)
{
	const struct vg_vram_allocate_options allocate = {.size = sizeof allocate, .shareable = 1};
	struct vg_vram_options options = {.size = sizeof options};
	struct vg_vram_handle handles[2], imported;
	struct vg_share_offer *offer;
	struct vg_vram *second;
	uint32_t word;
	int count;

	OK(vg_device_count(&count));
	if (count < 2)
		SKIP("it takes two devices, and there is one");
	OK(vg_device_get(1, &options.device));
	OK(vg_vram_open(&options, &second));
	offer = offer_of(1, MIB, 0, handles);
	OK(vg_vram_allocate(second, MIB, &allocate, &handles[1]));
	OK(vg_vram_write_at(handles[1], 0, &(uint32_t){2}, 4));
	OK(vg_share_offer_add(offer, handles[1], NULL));
	struct vg_share_offer *received = sent(offer, SOCK_STREAM);
	REFUSED(vg_share_import(second, received, 0, NULL, &imported), VG_INVALID,
		"import it in a context of its own device");
	REFUSED(vg_share_import(vram, received, 1, NULL, &imported), VG_INVALID,
		"import it in a context of its own device");
	OK(vg_share_import(second, received, 1, NULL, &imported));
	OK(vg_vram_read_at(imported, 0, &word, 4));
	CHECK_INT(word, 2);
	OK(vg_vram_free(imported));
	// Importing must fail if a range names the device of another range.
	memcpy(received->ranges[1].uuid, received->ranges[0].uuid, 16);
	REFUSED(vg_share_import(vram, received, 1, NULL, &imported), VG_PROTOCOL, "does not lie on device 0");
	vg_share_offer_destroy(received);
	vg_share_offer_destroy(offer);
	OK(vg_vram_free(handles[0]));
	OK(vg_vram_free(handles[1]));
	vg_vram_destroy(second);
}

// Sends the offer with `descriptor` instead of the memory's descriptor.
static void refused_descriptor(struct vg_share_offer *offer, int descriptor, const char *words)
{
	struct vg_share_offer *received;
	int own = offer->ranges[0].descriptor, ends[2];

	CHECK(descriptor >= 0);
	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	offer->ranges[0].descriptor = descriptor;
	OK(vg_share_send(ends[0], offer, NULL));
	offer->ranges[0].descriptor = own;
	REFUSED(vg_share_receive(ends[1], NULL, &received), VG_PROTOCOL, words);
	CHECK_CONTAINS(vg_last_error()->text, "the descriptor of range 0 is");
	close(descriptor);
	close(ends[0]);
	close(ends[1]);
}

TEST(descriptors_of_other_types_are_refused)
{
	struct vg_vram_handle handle;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);

	refused_descriptor(offer, open("/proc/self/exe", O_RDONLY | O_CLOEXEC), "a file (");
	refused_descriptor(offer, open("/", O_RDONLY | O_CLOEXEC), "a directory (/)");
	refused_descriptor(offer, open("/dev/null", O_RDWR | O_CLOEXEC), "a device (/dev/null)");
	refused_descriptor(offer, socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), "a socket (");
	refused_descriptor(offer, memfd_create("memory", MFD_CLOEXEC), "a file (/memfd:memory");
	refused_descriptor(offer, epoll_create1(EPOLL_CLOEXEC), "no memory (anon_inode:[eventpoll])");
	vg_share_offer_destroy(offer);
	OK(vg_vram_free(handle));
}

// Sends a descriptor of the right type that the driver has not exported. Only the driver can refuse it.
TEST(descriptor_without_export_is_refused)
{
	struct vg_vram_handle handle, imported;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);
	int own = offer->ranges[0].descriptor, pipes[2] = {-1, -1};

	if (getenv("VIRGATE_SIM"))
		CHECK_INT(pipe2(pipes, O_CLOEXEC), 0);
	int other = pipes[0] >= 0 ? pipes[0] : open("/dev/nvidiactl", O_RDWR | O_CLOEXEC);
	CHECK(other >= 0);
	offer->ranges[0].descriptor = other;
	enum vg_status status = vg_share_import(vram, offer, 0, NULL, &imported);
	offer->ranges[0].descriptor = own;
	CHECK_INT(status, VG_PROTOCOL);
	CHECK_CONTAINS(vg_last_error()->text, "is not one of memory that was exported");
	close(other);
	close(pipes[1]);
	vg_share_offer_destroy(offer);
	OK(vg_vram_free(handle));
}

// Sends a packet with the ranges `first` to `first` + `count` - 1 of the offer. The packet states `total` as the number
// of all ranges.
static void send_packet(const struct share_channel *channel, const struct vg_share_offer *offer, uint32_t first,
			uint32_t count, uint32_t total)
{
	static struct share_packet packet;

	memset(&packet, 0, sizeof packet);
	packet.header = (struct share_header){.magic = SHARE_MAGIC,
					      .version = SHARE_VERSION,
					      .count = (uint16_t)count,
					      .first = first,
					      .total = total,
					      .size = count * (uint32_t)sizeof(struct share_entry)};
	for (uint32_t i = 0; i < count; i++) {
		const struct share_range *range = &offer->ranges[first + i];
		const struct share_entry entry = {
			.bytes = range->bytes, .mapped = range->mapped, .granularity = range->granularity};
		memcpy(packet.body + i * sizeof entry, &entry, sizeof entry);
		packet.rights.descriptors[packet.rights.count++] = range->descriptor;
	}
	OK(share_packet_send(channel, &packet));
}

TEST(packets_out_of_order_are_refused)
{
	static const struct {
		uint32_t first, total;
		int hang;
		const char *words;
	} seconds[] = {
		{9, 12, 0, "a packet has range 9 of 12 where range 8 of 12 comes next"},
		{0, 12, 0, "a packet has range 0 of 12 where range 8 of 12 comes next"},
		{8, 13, 0, "a packet has range 8 of 13 where range 8 of 12 comes next"},
		{0, 0, 0, "closed the connection after 8 of 12 ranges"},
		{0, 0, 1, "stopped after 8 of 12 ranges"},
	};
	const struct vg_share_socket_options hasty = {.size = sizeof hasty, .timeout_ms = 50};
	struct vg_vram_handle handles[12];
	struct vg_share_offer *offer = offer_of(12, 64, 0, handles), *received;
	struct share_channel channel;
	int ends[2];

	int before = dup(0);
	close(before);
	for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) {
		CHECK_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
		OK(share_channel_open(ends[0], 1000, &channel));
		send_packet(&channel, offer, 0, 8, 12);
		if (seconds[i].total)
			send_packet(&channel, offer, seconds[i].first, 2, seconds[i].total);
		if (!seconds[i].hang)
			close(ends[0]);
		REFUSED(vg_share_receive(ends[1], &hasty, &received), VG_PROTOCOL, seconds[i].words);
		close(ends[1]);
		if (seconds[i].hang)
			close(ends[0]);
		CHECK_INT(dup(0), before); // the received descriptors were closed
		close(before);
	}
	for (int i = 0; i < 12; i++)
		OK(vg_vram_free(handles[i]));
	vg_share_offer_destroy(offer);
}
