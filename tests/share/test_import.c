// Tests offers and imports: contents, addresses, access rights, and refusals.
#include "share_test.h"

TEST(import_maps_the_same_memory)
{
	static const int kinds[] = {SOCK_STREAM, SOCK_SEQPACKET};
	const struct vg_share_import_options writable = {.size = sizeof writable, .writable = 1};
	struct vg_vram_handle handle, other;
	uint32_t word;

	for (int i = 0; i < 2; i++) {
		struct vg_share_offer *offer = offer_of(1, MIB, 1, &handle), *received = sent(offer, kinds[i]);
		OK(vg_share_import(open_vram(), received, 0, &writable, &other));
		vg_share_offer_destroy(offer);
		vg_share_offer_destroy(received);
		OK(vg_vram_write_at(handle, 4096, &(uint32_t){0xfeed}, 4));
		OK(vg_vram_read_at(other, 4096, &word, 4));
		CHECK_INT(word, 0xfeed);
		OK(vg_vram_write_at(other, 4096, &(uint32_t){0xbeef}, 4));
		OK(vg_vram_read_at(handle, 4096, &word, 4));
		CHECK_INT(word, 0xbeef);
		OK(vg_vram_free(other)); // unmaps the imported memory without zeroing it
		OK(vg_vram_read_at(handle, 4096, &word, 4));
		CHECK_INT(word, 0xbeef);
		REFUSED(vg_vram_read_at(other, 0, &word, 4), VG_STALE, "");
		OK(vg_vram_free(handle));
	}
}

TEST(offer_describes_its_ranges)
{
	struct vg_vram_handle handles[20];
	struct vg_share_offer *offer = offer_of(20, 3 * MIB + 1, 0, handles);
	struct vg_share_offer *received = sent(offer, SOCK_SEQPACKET);
	struct vg_share_range here, there;
	char uuid[41];

	CHECK_INT(vg_share_offer_count(offer), 20);
	CHECK_INT(vg_share_offer_count(received), 20);
	snprintf(uuid, sizeof uuid, "GPU-%s", vg_device_uuid(vg_vram_device(vram)));
	for (size_t i = 0; i < 20; i++) {
		OK(vg_share_offer_range(offer, i, &here));
		OK(vg_share_offer_range(received, i, &there));
		CHECK_INT(there.bytes, 3 * MIB + 1);
		CHECK_INT(there.mapped, 4 * MIB);
		CHECK_INT(there.granularity, 2 * MIB);
		CHECK_INT(there.generation, 100 + i);
		CHECK_INT(there.address, here.address);
		CHECK(there.address && !there.seal && !there.writable);
		CHECK_STR(there.device, uuid);
		OK(vg_vram_free(handles[i]));
	}
	REFUSED(vg_share_offer_range(received, 20, &there), VG_INVALID, "range 20: the offer has 20, from 0 up");
	vg_share_offer_destroy(offer);
	vg_share_offer_destroy(received);
}

// Encodes a seal of the range, with an invalid MAC.
static const char *seal_text(const struct vg_share_range *range, const char *id, uint64_t generation)
{
	struct vg_seal seal = {.size = sizeof seal, .generation = generation, .bytes = range->bytes, .sealed_ns = 1};
	static char text[VG_SEAL_TEXT_MAX];

	snprintf(seal.id, sizeof seal.id, "%s", id);
	strcpy(seal.device, range->device);
	OK(vg_seal_encode(&seal, text, sizeof text, NULL));
	return text;
}

// Returns a description of the region as the range of an offer.
static struct vg_share_range range_of(struct vg_vram_handle handle)
{
	struct vg_share_offer *offer;
	struct vg_share_range range;

	OK(vg_share_offer_create(&offer));
	OK(vg_share_offer_add(offer, handle, NULL));
	OK(vg_share_offer_range(offer, 0, &range));
	vg_share_offer_destroy(offer);
	return range;
}

TEST(each_range_has_its_memory_and_seal)
{
	enum { COUNT = 19 };
	struct vg_share_range_options options = {.size = sizeof options};
	struct vg_vram_handle handles[COUNT], imported;
	struct vg_share_offer *offer;
	struct vg_share_range range;
	char id[257] = "";
	uint32_t word;

	OK(vg_share_offer_create(&offer));
	for (uint32_t i = 0; i < COUNT; i++) {
		memset(id, 'a' + (int)i, i == COUNT - 1 ? 256 : i);
		handles[i] = shareable(64);
		range = range_of(handles[i]);
		options.generation = i;
		options.seal = i ? seal_text(&range, id, i) : NULL;
		OK(vg_vram_write_at(handles[i], 60, &i, 4));
		OK(vg_share_offer_add(offer, handles[i], &options));
	}
	struct vg_share_offer *received = sent(offer, SOCK_STREAM);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct vg_seal seal;
		OK(vg_share_offer_range(received, i, &range));
		CHECK(!range.seal == !i);
		CHECK_INT(range.generation, i);
		if (i) {
			OK(vg_seal_decode(range.seal, strlen(range.seal), &seal));
			CHECK_INT(strlen(seal.id), i == COUNT - 1 ? 256 : i);
			CHECK_INT(seal.id[0], 'a' + (int)i);
		}
		OK(vg_share_import(vram, received, i, NULL, &imported));
		OK(vg_vram_read_at(imported, 60, &word, 4));
		CHECK_INT(word, i);
		REFUSED(vg_vram_read_at(imported, 61, &word, 4), VG_BOUNDS, "64");
		OK(vg_vram_free(imported));
		OK(vg_vram_free(handles[i]));
	}
	vg_share_offer_destroy(offer);
	vg_share_offer_destroy(received);
}

TEST(seal_must_match_its_range)
{
	struct vg_share_range_options options = {.size = sizeof options};
	struct vg_vram_handle handle = shareable(64), other = shareable(65);
	struct vg_share_range range = range_of(handle), another = range_of(other);
	struct vg_share_offer *offer;

	OK(vg_share_offer_create(&offer));
	options.seal = "{}";
	REFUSED(vg_share_offer_add(offer, handle, &options), VG_INVALID, "the seal is invalid");
	options.seal = "";
	REFUSED(vg_share_offer_add(offer, handle, &options), VG_INVALID, "the seal is invalid");
	options.seal = seal_text(&another, "shard", 7);
	REFUSED(vg_share_offer_add(offer, handle, &options), VG_INVALID, "it is another region's");
	options.seal = seal_text(&range, "shard", 7);
	options.generation = 8;
	REFUSED(vg_share_offer_add(offer, handle, &options), VG_INVALID, "seal shard is of generation 7");
	CHECK_INT(vg_share_offer_count(offer), 0);
	options.generation = 0;
	OK(vg_share_offer_add(offer, handle, &options));
	// a peer's
	struct vg_share_offer *received = sent(offer, SOCK_STREAM);
	CHECK_INT(received->ranges[0].generation, 7);
	OK(vg_vram_free(other));
	received->ranges[0].generation = 8;
	REFUSED(vg_share_import(vram, received, 0, NULL, &other), VG_PROTOCOL, "seal shard is of generation 7");
	received->ranges[0].generation = 7;
	received->ranges[0].seal[5] ^= 1;
	REFUSED(vg_share_import(vram, received, 0, NULL, &other), VG_PROTOCOL, "the seal is invalid");
	vg_share_offer_destroy(received);
	vg_share_offer_destroy(offer);
	OK(vg_vram_free(handle));
}

TEST(read_only_import_refuses_writes)
{
	const struct vg_share_import_options writable = {.size = sizeof writable, .writable = 1};
	struct vg_vram_handle handle, reader;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle), *received = sent(offer, SOCK_STREAM);
	uint32_t word = 1;

	REFUSED(vg_share_import(vram, received, 0, &writable, &reader), VG_POLICY, "offered for reading");
	OK(vg_share_import(vram, received, 0, NULL, &reader));
	REFUSED(vg_vram_write_at(reader, 0, &word, 4), VG_POLICY, "");
	OK(vg_vram_read_at(reader, 0, &word, 4));
	CHECK_INT(word, 0);
	OK(vg_vram_free(reader));
	OK(vg_vram_free(handle));
	vg_share_offer_destroy(offer);
	vg_share_offer_destroy(received);
}

// Imports at the requested free address. Returns false if the driver has mapped the memory at another address, which it
// may do.
static bool import_hinted(struct vg_share_offer *offer, const struct vg_share_import_options *options,
			  struct vg_vram_handle *ret_imported)
{
	enum vg_status status = vg_share_import(vram, offer, 0, options, ret_imported);

	if (status == VG_EXISTS && !getenv("VIRGATE_SIM")) {
		printf("# %s\n", vg_last_error()->text);
		return false;
	}
	OK(status);
	return true;
}

TEST(import_maps_at_the_requested_address)
{
	struct vg_share_import_options options = {.size = sizeof options};
	struct vg_vram_handle handle, imported;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle), *received = sent(offer, SOCK_STREAM);
	struct vg_address_range *addresses;

	// occupy the requested addresses, where a region was just freed
	OK(vg_address_range_create(2 * MIB, 2 * MIB, 0, &addresses));
	options.address = vg_address_range_address(addresses);
	REFUSED(vg_share_import(vram, received, 0, &options, &imported), VG_EXISTS, "something else is there");
	vg_address_range_destroy(addresses);
	if (import_hinted(received, &options, &imported)) {
		REFUSED(vg_share_import(vram, received, 0, &options, &imported), VG_EXISTS, "something else is there");
		OK(vg_vram_free(imported));
	}
	options.address += 4096;
	REFUSED(vg_share_import(vram, received, 0, &options, &imported), VG_INVALID,
		"not a multiple of the granularity");
	options.address -= 4096;
	options.same_address = 1;
	REFUSED(vg_share_import(vram, received, 0, &options, &imported), VG_INVALID, "take one of them");
	options.address = 0; // the addresses of the exporter's region are in use, because the exporter is this process
	REFUSED(vg_share_import(vram, received, 0, &options, &imported), VG_EXISTS, "something else is there");
	OK(vg_vram_free(handle));
	if (import_hinted(received, &options, &imported)) // now the addresses of the exporter's region are free
		OK(vg_vram_free(imported));
	vg_share_offer_destroy(offer);
	vg_share_offer_destroy(received);
}

TEST(another_generation_is_refused)
{
	struct vg_share_import_options options = {.size = sizeof options, .generation = 101};
	struct vg_vram_handle handle, imported;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);

	REFUSED(vg_share_import(vram, offer, 0, &options, &imported), VG_INVALID,
		"generation 100 of its contents, not 101");
	options.generation = 100;
	OK(vg_share_import(vram, offer, 0, &options, &imported));
	OK(vg_vram_free(imported));
	OK(vg_vram_free(handle));
	vg_share_offer_destroy(offer);
}

TEST(only_shareable_regions_can_be_offered)
{
	const struct vg_vram_allocate_options guarded = {.size = sizeof guarded, .guard = 1};
	struct vg_vram_handle plain, guard, handle, imported;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle);

	OK(vg_vram_allocate(vram, MIB, NULL, &plain));
	REFUSED(vg_share_offer_add(offer, plain, NULL), VG_POLICY, "set `shareable`");
	OK(vg_vram_allocate(vram, MIB, &guarded, &guard));
	REFUSED(vg_share_offer_add(offer, guard, NULL), VG_POLICY, "set `shareable`");
	OK(vg_share_import(vram, offer, 0, NULL, &imported));
	REFUSED(vg_share_offer_add(offer, imported, NULL), VG_POLICY, "the process that allocated it shares it");
	OK(vg_vram_free(imported));
	OK(vg_vram_free(guard));
	OK(vg_vram_free(plain));
	OK(vg_vram_free(handle));
	REFUSED(vg_share_offer_add(offer, handle, NULL), VG_STALE, "");
	REFUSED(vg_share_offer_add(offer, (struct vg_vram_handle){0}, NULL), VG_INVALID, "");
	CHECK_INT(vg_share_offer_count(offer), 1);
	vg_share_offer_destroy(offer);
}

TEST(missing_arguments_are_refused)
{
	struct vg_vram_handle handle, imported;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle), *empty, *received;
	struct vg_share_import_options unknown = {.size = 4};
	struct vg_share_range range;
	int ends[2];

	CHECK_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	OK(vg_share_offer_create(&empty));
	REFUSED(vg_share_send(ends[0], empty, NULL), VG_INVALID, "the offer has no ranges");
	REFUSED(vg_share_import(vram, empty, 0, NULL, &imported), VG_INVALID, "range 0: the offer has 0");
	vg_share_offer_destroy(empty);
	vg_share_offer_destroy(NULL);
	CHECK_INT(vg_share_offer_count(NULL), 0);
	REFUSED(vg_share_offer_create(NULL), VG_INVALID, "ret_offer is NULL");
	REFUSED(vg_share_offer_add(NULL, handle, NULL), VG_INVALID, "offer is NULL");
	REFUSED(vg_share_offer_range(NULL, 0, &range), VG_INVALID, "offer is NULL");
	REFUSED(vg_share_offer_range(offer, 0, NULL), VG_INVALID, "ret_range is NULL");
	REFUSED(vg_share_send(ends[0], NULL, NULL), VG_INVALID, "offer is NULL");
	REFUSED(vg_share_send(-1, offer, NULL), VG_INVALID, "is no socket");
	REFUSED(vg_share_receive(ends[0], NULL, NULL), VG_INVALID, "ret_offer is NULL");
	REFUSED(vg_share_receive(0x7fffffff, NULL, &received), VG_INVALID, "is no socket");
	REFUSED(vg_share_import(NULL, offer, 0, NULL, &imported), VG_INVALID, "vram is NULL");
	REFUSED(vg_share_import(vram, NULL, 0, NULL, &imported), VG_INVALID, "offer is NULL");
	REFUSED(vg_share_import(vram, offer, 0, NULL, NULL), VG_INVALID, "ret_handle is NULL");
	REFUSED(vg_share_import(vram, offer, 1, NULL, &imported), VG_INVALID, "range 1: the offer has 1");
	REFUSED(vg_share_import(vram, offer, 0, &unknown, &imported), VG_INVALID, "size is 4");
	close(ends[0]);
	close(ends[1]);
	OK(vg_vram_free(handle));
	vg_share_offer_destroy(offer);
}

TEST(memory_is_freed_with_its_last_reference)
{
	struct vg_vram_handle handle, imported;
	struct vg_device *device = vg_vram_device(open_vram());

	OK(vg_vram_free(shareable(MIB))); // the driver keeps some memory after the first allocation
	size_t before = free_on(device);
	struct vg_share_offer *offer = offer_of(1, 64 * MIB, 0, &handle), *received = sent(offer, SOCK_STREAM);
	CHECK(before - free_on(device) >= 64 * MIB);
	OK(vg_share_import(vram, received, 0, NULL, &imported));
	OK(vg_vram_free(handle));
	OK(vg_vram_free(imported));
	vg_share_offer_destroy(offer);
	CHECK(before - free_on(device) >= 64 * MIB); // the received descriptor keeps the memory allocated
	vg_share_offer_destroy(received);
	CHECK(before - free_on(device) < 64 * MIB);
}

TEST(forked_child_cannot_import)
{
	struct vg_vram_handle handle, imported;
	struct vg_share_offer *offer = offer_of(1, MIB, 0, &handle), *received = sent(offer, SOCK_STREAM);

	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		REFUSED(vg_share_offer_add(offer, handle, NULL), VG_STATE, "forked");
		REFUSED(vg_share_import(vram, received, 0, NULL, &imported), VG_STATE, "forked");
		// the child closes its own copies of the descriptors, not those of its parent
		vg_share_offer_destroy(received);
		_exit(0);
	}
	CHECK_CHILD(child);
	OK(vg_share_import(vram, received, 0, NULL, &imported));
	OK(vg_vram_free(imported));
	OK(vg_vram_free(handle));
	vg_share_offer_destroy(received);
	vg_share_offer_destroy(offer);
}

// ---- verified imports -----------------------------------------------------------------------------------

TEST(import_verifies_contents_on_request)
{
	const struct vg_vram_allocate_options allocate = {.size = sizeof allocate, .shareable = 1};
	const struct vg_seal_options named = {.size = sizeof named, .id = "shard-0"};
	const struct vg_share_import_options verified = {.size = sizeof verified, .verify = 1};
	const struct vg_share_import_options writable = {.size = sizeof writable, .writable = 1};
	struct vg_share_range_options options = {.size = sizeof options, .writable = 1};
	struct vg_vram_options open = {.size = sizeof open};
	struct vg_vram_handle handle, imported = {0}, writer;
	char directory[] = "/tmp/virgate-share.XXXXXX", key[64], text[VG_SEAL_TEXT_MAX];
	struct vg_share_offer *offer, *plain;
	struct vg_vram *sealing;
	struct vg_seal seal;
	uint32_t word;

	CHECK(mkdtemp(directory));
	snprintf(key, sizeof key, "%s/key", directory);
	OK(vg_seal_key_create(key));
	open.key_file = key;
	OK(vg_vram_open(&open, &sealing));
	OK(vg_vram_allocate(sealing, 3 * MIB, &allocate, &handle));
	OK(vg_vram_write_at(handle, MIB, &(uint32_t){0xfeed}, 4));
	OK(vg_vram_seal(handle, &named, &seal));
	OK(vg_seal_encode(&seal, text, sizeof text, NULL));
	options.seal = text;
	OK(vg_share_offer_create(&offer));
	OK(vg_share_offer_add(offer, handle, &options));

	struct vg_share_offer *received = sent(offer, SOCK_STREAM);
	OK(vg_share_import(sealing, received, 0, &verified, &imported));
	OK(vg_vram_read_at(imported, MIB, &word, 4));
	CHECK_INT(word, 0xfeed);
	REFUSED(vg_vram_write_at(imported, 0, &word, 4), VG_POLICY, "");
	OK(vg_vram_verify(imported, &seal)); // the imported memory can be verified later, too
	OK(vg_vram_free(imported));

	// a context without a secret cannot verify, and one with another secret finds the seal wrong
	REFUSED(vg_share_import(open_vram(), received, 0, &verified, &imported), VG_STATE, "without a secret");
	OK(vg_share_offer_create(&plain));
	options.seal = NULL;
	OK(vg_share_offer_add(plain, handle, &options));
	REFUSED(vg_share_import(sealing, plain, 0, &verified, &imported), VG_INVALID, "range 0 has no seal");
	vg_share_offer_destroy(plain);
	struct vg_vram *other;
	open.vgpu = "another";
	OK(vg_vram_open(&open, &other));
	REFUSED(vg_share_import(other, received, 0, &verified, &imported), VG_INTEGRITY, "not genuine");
	vg_vram_destroy(other);

	// Change a byte through a writable mapping.
	OK(vg_share_import(open_vram(), received, 0, &writable, &writer));
	OK(vg_vram_write_at(writer, 3 * MIB - 1, "x", 1));
	OK(vg_vram_free(writer));
	MEMORY_STEADY(vg_vram_device(sealing), REFUSED(vg_share_import(sealing, received, 0, &verified, &imported),
						       VG_INTEGRITY, "does not hold what was sealed as shard-0"););
	CHECK_STR(vg_last_error()->function, "vg_share_import");
	CHECK_INT(vg_vram_verify(handle, &seal), VG_INTEGRITY);
	OK(vg_vram_free(handle));
	vg_share_offer_destroy(received);
	vg_share_offer_destroy(offer);
	vg_vram_destroy(sealing);
	unlink(key);
	rmdir(directory);
}
