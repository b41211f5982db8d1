// Tests `virgate share open --verify` on memory that programs publish. It must refuse seals that are genuine, but do
// not fit the memory.
#include <sys/stat.h>

#include "broker_test.h"

static char key[96], said[2048];

// Finds the program `virgate` beside the daemon, in a build tree or in a bundle.
static const char *find_program(void)
{
	static const char *const places[] = {"../cli/virgate", "virgate"};
	static char path[PATH_MAX + 64];
	char directory[PATH_MAX];

	snprintf(directory, sizeof directory, "%s", getenv("VIRGATE_DAEMON"));
	strrchr(directory, '/')[1] = '\0';
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s%s", directory, places[i]);
		if (access(path, X_OK) == 0)
			return path;
	}
	FAIL("there is no virgate near %s", directory);
}

// Runs `virgate share open` with `options`. Returns its exit code, and stores its output in `said`.
static int open_so(const char *name, const char *options)
{
	char command[3 * PATH_MAX];

	snprintf(command, sizeof command, "VIRGATE_RUNTIME_DIR=%s/run '%s' share open %s --verify --key '%s' %s 2>&1",
		 broker_directory, find_program(), name, key, options);
	FILE *output = popen(command, "r");
	CHECK(output != NULL);
	said[fread(said, 1, sizeof said - 1, output)] = '\0';
	return WEXITSTATUS(pclose(output));
}

static int open_verified(const char *name)
{
	return open_so(name, "");
}

// Opens a context with a key, as a program that seals memory.
static struct vg_vram *open_sealing(void)
{
	struct vg_vram_options options = {.size = sizeof options, .key_file = key, .vgpu = "host"};
	struct vg_vram *sealing;

	open_node();
	snprintf(key, sizeof key, "%s/key", broker_directory);
	if (access(key, F_OK) < 0)
		OK(vg_seal_key_create(key));
	OK(vg_vram_open(&options, &sealing));
	return sealing;
}

static struct vg_publication *publish_sealed(struct vg_vram *sealing, const char *name, const char *id,
					     struct vg_vram_handle *ret_handle)
{
	const struct vg_vram_allocate_options allocate = {.size = sizeof allocate, .shareable = 1};
	const struct vg_seal_options named = {.size = sizeof named, .id = id};
	struct vg_share_range_options range = {.size = sizeof range, .writable = 1};
	struct vg_publication *publication;
	struct vg_share_offer *offer;
	char text[VG_SEAL_TEXT_MAX];
	struct vg_seal seal;

	OK(vg_vram_allocate(sealing, 3 * MIB, &allocate, ret_handle));
	OK(vg_vram_seal(*ret_handle, &named, &seal));
	OK(vg_seal_encode(&seal, text, sizeof text, NULL));
	range.seal = text;
	OK(vg_share_offer_create(&offer));
	OK(vg_share_offer_add(offer, *ret_handle, &range));
	const struct vg_publish_options options = {.size = sizeof options, .mode = 0600};
	OK(vg_share_publish(open_node(), name, offer, &options, &publication));
	vg_share_offer_destroy(offer);
	return publication;
}

TEST(open_verified_finds_a_write_by_a_reader)
{
	const struct vg_share_import_options writable = {.size = sizeof writable, .writable = 1};
	struct vg_vram *sealing = open_sealing();
	struct vg_vram_handle handle, writer;

	struct vg_publication *publication = publish_sealed(sealing, "weights", "weights", &handle);
	CHECK_INT(open_verified("weights"), 0);
	CHECK_CONTAINS(said, "weights: contents verified, 3.0 MiB\n");
	struct vg_share_lease *lease = open_lease("weights", 1);
	OK(vg_share_import(open_vram(), vg_share_lease_offer(lease), 0, &writable, &writer));
	OK(vg_vram_write_at(writer, 3 * MIB - 1, "x", 1));
	OK(vg_vram_free(writer));
	vg_share_lease_close(lease);
	CHECK_INT(open_verified("weights"), 1);
	CHECK_CONTAINS(said, "the region does not hold what was sealed as weights: its contents were changed");
	CHECK(!strstr(said, "verified,") && !strstr(said, "is open"));
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
	vg_vram_destroy(sealing);
}

TEST(open_verified_refuses_a_seal_of_another_region)
{
	struct vg_vram *sealing = open_sealing();
	struct vg_vram_handle handle;

	struct vg_publication *publication = publish_sealed(sealing, "weights", "older", &handle);
	CHECK_INT(open_verified("weights"), 1);
	CHECK_CONTAINS(said, "the seal of weights is of \"older\": its contents were replaced");
	CHECK(!strstr(said, "verified,"));
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
	vg_vram_destroy(sealing);
}

// In a directory that other users can write to, the target may be something other than a regular file.
TEST(contents_are_written_to_regular_files_only)
{
	struct vg_vram *sealing = open_sealing();
	struct vg_vram_handle handle;
	char options[256], path[128];
	struct stat info;

	struct vg_publication *publication = publish_sealed(sealing, "weights", "weights", &handle);
	snprintf(path, sizeof path, "%s/copy", broker_directory);
	snprintf(options, sizeof options, "--to %s", path);
	for (int i = 0; i < 2; i++) { // the second time, a longer file is overwritten
		CHECK_INT(open_so("weights", options), 0);
		CHECK(stat(path, &info) == 0 && info.st_size == 3 * MIB);
		CHECK_INT(truncate(path, 4 * MIB), 0);
	}
	CHECK_INT(unlink(path), 0);
	CHECK_INT(symlink("aim", path), 0);
	CHECK_INT(open_so("weights", options), 1);
	CHECK_CONTAINS(said, "/copy: it is a link: name the file that it leads to");
	CHECK_INT(unlink(path), 0);
	CHECK_INT(mkfifo(path, 0600), 0);
	CHECK_INT(open_so("weights", options), 1);
	CHECK_CONTAINS(said, "/copy: it is not a regular file");
	CHECK_INT(unlink(path), 0);
	vg_publication_destroy(publication);
	OK(vg_vram_free(handle));
	vg_vram_destroy(sealing);
}
