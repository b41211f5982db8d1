// Tests keys: reading the secret, deriving keys, and wiping both.
#include "seal_test.h"

#include "vram/key.h"
#include "virgate/seal.h"

#include <linux/keyctl.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static enum vg_status open_file(const char *path)
{
	struct vram_keys *keys;

	enum vg_status status = vram_keys_open(path, NULL, "host", &keys);
	if (status == VG_OK)
		vram_keys_close(keys);
	return status;
}

static void hex_is(const uint8_t key[VRAM_SECRET], const char *digits)
{
	char text[2 * VRAM_SECRET + 1];

	CHECK_STR(sodium_bin2hex(text, sizeof text, key, VRAM_SECRET), digits);
}

TEST(new_key_file_has_mode_0600)
{
	static const mode_t masks[] = {0777, 0, 022};
	char *keys[3];
	size_t length;

	for (int i = 0; i < 3; i++) {
		mode_t before = umask(masks[i]);
		const char *path = path_of((const char *const[]){"new-0", "new-1", "new-2"}[i]);
		enum vg_status status = vg_seal_key_create(path);
		umask(before);
		CHECK_INT(status, VG_OK);
		struct stat stat_;
		CHECK_INT(stat(path, &stat_), 0);
		CHECK_INT(stat_.st_mode & 07777, 0600);
		keys[i] = read_file(path, &length);
		CHECK_INT(length, 65);
		CHECK_INT(strspn(keys[i], "0123456789abcdef"), 64);
		OK(open_file(path));
	}
	CHECK(strcmp(keys[0], keys[1]) != 0 && strcmp(keys[1], keys[2]) != 0);
	REFUSED(vg_seal_key_create(path_of("new-0")), VG_EXISTS, "is there already");
	char *again = read_file(path_of("new-0"), &length);
	CHECK_STR(again, keys[0]);
	free(again);
	for (int i = 0; i < 3; i++)
		free(keys[i]);
}

TEST(key_create_reports_failures)
{
	REFUSED(vg_seal_key_create(NULL), VG_INVALID, "path is NULL");
	REFUSED(vg_seal_key_create(""), VG_INVALID, "path is empty");
	REFUSED(vg_seal_key_create(path_of("no/such/folder")), VG_NOT_FOUND, "No such file");
	REFUSED(vg_seal_key_create("/proc/new-key"), VG_NOT_FOUND, "/proc/new-key");
	CHECK_INT(symlink(path_of("target"), path_of("link-to-nothing")), 0);
	REFUSED(vg_seal_key_create(path_of("link-to-nothing")), VG_EXISTS, "is there already");
	CHECK(access(path_of("target"), F_OK) < 0);
}

TEST(invalid_key_files_are_refused)
{
	static const mode_t modes[] = {0644, 0640, 0400, 0700, 0601, 04600};
	char zeros[65] = "";
	char text[128];

	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
		write_file(path_of("mode"), KEY_DIGITS, 64, modes[i]);
		snprintf(text, sizeof text, "has mode %04o: it must be 0600; run chmod 0600", modes[i]);
		REFUSED(open_file(path_of("mode")), VG_DENIED, text);
	}
	REFUSED(open_file(path_of("none")), VG_NOT_FOUND, "virgate key create");
	REFUSED(open_file(seal_directory), VG_DENIED, "not a regular file");
	REFUSED(open_file("/dev/null"), VG_DENIED, "not a regular file");
	key_file("good", KEY_DIGITS);
	CHECK_INT(symlink(path_of("good"), path_of("link")), 0);
	REFUSED(open_file(path_of("link")), VG_DENIED, "is a symbolic link");
	CHECK_INT(mkfifo(path_of("pipe"), 0600), 0);
	REFUSED(open_file(path_of("pipe")), VG_DENIED, "not a regular file");
	memset(zeros, '0', 64);
	static const char *const contents[] = {"",
					       KEY_DIGITS "0",
					       KEY_DIGITS "\n\n",
					       KEY_DIGITS "0000000000000000000000000000",
					       " " KEY_DIGITS,
					       "0x0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
					       "000102030405060708090a0b0c0d0e0f10111213141516171819"};
	for (size_t i = 0; i < sizeof contents / sizeof *contents; i++)
		REFUSED(open_file(key_file("bad", contents[i])), VG_INVALID, "it must be 64 hexadecimal digits");
	REFUSED(open_file(key_file("zeros", zeros)), VG_INVALID, "not a secret");
	OK(open_file(key_file("newline", KEY_DIGITS "\n")));
	OK(open_file(key_file("upper", "000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F")));
}

TEST(key_file_of_another_user_is_refused)
{
	if (geteuid() != 0)
		SKIP("only root can give a file away");
	key_file("theirs", KEY_DIGITS);
	CHECK_INT(chown(path_of("theirs"), 65534, 65534), 0);
	REFUSED(open_file(path_of("theirs")), VG_DENIED, "belongs to user 65534, and this process is user 0's");
}

TEST(exactly_one_secret_must_be_given)
{
	struct vram_keys *keys = NULL;

	REFUSED(vram_keys_open(NULL, NULL, "host", &keys), VG_INVALID, "neither key_file nor key_ring");
	REFUSED(vram_keys_open("a", "b", "host", &keys), VG_INVALID, "both given");
	CHECK(!keys);
	vram_keys_close(NULL);
}

// The expected keys were computed by Python's hashlib.blake2b, with the layout that docs/seals.md gives.
TEST(derived_keys_match_the_documented_layout)
{
	struct vram_keys *train, *other;

	OK(vram_keys_open(key_file("known", KEY_DIGITS), NULL, "train", &train));
	hex_is(train->tree, "ddb7682bee28452b43aef36e47b139272bdfa1e199bbcfd43214574f60dace73");
	hex_is(train->seal, "ade555384e6c36bb571cc8debabd3471c2dfd0a15d23270885d61313d2ee3396");
	hex_is(train->attestation, "ed79551d4cda2dc5a9a6714fce978465aaaa9620a47844d97c17793f938d9580");
	hex_is(train->audit, "0b8d1291c89f00fda5da35edf5331991c684869d42b8bd037b0302db914227a3");
	OK(vram_keys_open(path_of("known"), NULL, "train2", &other));
	CHECK(memcmp(train->tree, other->tree, VRAM_SECRET) && memcmp(train->seal, other->seal, VRAM_SECRET) &&
	      memcmp(train->attestation, other->attestation, VRAM_SECRET));
	CHECK(memcmp(train->audit, other->audit, VRAM_SECRET) == 0);
	vram_keys_close(other);
	vram_keys_close(train);
}

// ---- the kernel's keyring --------------------------------------------------------------------------------

static long add_key(const char *description, const char *text)
{
	long key = syscall(SYS_add_key, "user", description, text, strlen(text), KEY_SPEC_PROCESS_KEYRING);

	if (key < 0 && (errno == ENOSYS || errno == EPERM || errno == EDQUOT))
		SKIP("the kernel gives this process no keyring: %s", strerror(errno));
	CHECK(key > 0);
	return key;
}

TEST(kernel_key_is_used)
{
	struct vram_keys *from_ring, *from_file;
	long key = add_key("virgate-test-good", KEY_DIGITS "\n");

	OK(vram_keys_open(NULL, "virgate-test-good", "train", &from_ring));
	OK(vram_keys_open(key_file("known", KEY_DIGITS), NULL, "train", &from_file));
	CHECK(memcmp(from_ring, from_file, sizeof *from_ring) == 0);
	vram_keys_close(from_ring);
	vram_keys_close(from_file);
	// with these permissions the key's attributes can be read, but the key can be neither found by its name nor
	// read
	CHECK_INT(syscall(SYS_keyctl, KEYCTL_SETPERM, key, 0x01010000), 0);
	// Some kernels deny access to such a key, and others do not find it.
	CHECK(vram_keys_open(NULL, "virgate-test-good", "train", &from_ring) != VG_OK);
	CHECK(vg_last_error()->status == VG_DENIED || vg_last_error()->status == VG_NOT_FOUND);
	CHECK_CONTAINS(vg_last_error()->text, "virgate-test-good");
}

TEST(invalid_kernel_keys_are_refused)
{
	struct vram_keys *keys;
	char large[4096];

	memset(large, 'a', sizeof large);
	large[sizeof large - 1] = '\0';
	add_key("virgate-test-short", "abcd");
	add_key("virgate-test-long", large);
	REFUSED(vram_keys_open(NULL, "virgate-test-short", "", &keys), VG_INVALID, "it must be 64 hexadecimal");
	REFUSED(vram_keys_open(NULL, "virgate-test-long", "", &keys), VG_INVALID, "it must be 64 hexadecimal");
	REFUSED(vram_keys_open(NULL, "virgate-test-none", "", &keys), VG_NOT_FOUND, "keyctl padd user");
}

// ---- memory ----------------------------------------------------------------------------------------------

// Runs as an unprivileged user, because the limit on locked memory does not apply to root.
TEST(unlockable_memory_is_refused)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitizer makes nothing of mlock()");
#endif
	pid_t child = fork();

	if (child == 0) {
		struct vram_keys *keys;
		CHECK_INT(setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){0, 0}), 0);
		if (geteuid() == 0)
			CHECK_INT(setresuid(65534, 65534, 65534), 0);
		REFUSED(vram_keys_open("/none", NULL, "", &keys), VG_LIMIT,
			"may lock 0 bytes in all (RLIMIT_MEMLOCK); raise it with ulimit -l");
		_exit(0);
	}
	CHECK_CHILD(child);
}

// Counts how often 32 bytes occur in the process's writable memory. The caller passes the bytes inverted, so that the
// search does not find its own argument.
static int count_in_memory(const uint8_t turned[32])
{
	FILE *maps = fopen("/proc/self/maps", "r");
	int memory = open("/proc/self/mem", O_RDONLY), found = 0;
	unsigned long long begin, end;
	static uint8_t page[1 << 16];
	char line[512], access_[5];

	CHECK(maps && memory >= 0);
	while (fgets(line, sizeof line, maps)) {
		if (sscanf(line, "%llx-%llx %4s", &begin, &end, access_) != 3 || access_[1] != 'w' ||
		    end - begin > 1ull << 30)
			continue;
		for (unsigned long long at = begin; at < end; at += sizeof page - 64) {
			ssize_t got = pread(memory, page, sizeof page < end - at ? sizeof page : end - at, (off_t)at);
			for (ssize_t i = 0; i + 32 <= got; i++) {
				int same = 0;
				while (same < 32 && (page[i + same] ^ turned[same]) == 0xff)
					same++;
				bool here = at + (unsigned long long)i >= (uintptr_t)page &&
					    at + (unsigned long long)i < (uintptr_t)page + sizeof page;
				found += same == 32 && !here;
			}
		}
	}
	fclose(maps);
	close(memory);
	return found;
}

TEST(keys_are_wiped_from_memory)
{
	uint8_t master[32], seal[32];
	struct vram_keys *keys;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	SKIP("a sanitizer maps terabytes, which this would read");
#endif
	if (access("/proc/self/mem", R_OK) < 0)
		SKIP("no /proc/self/mem");
	for (int i = 0; i < 32; i++)
		master[i] = (uint8_t)~i;
	OK(vram_keys_open(key_file("known", KEY_DIGITS), NULL, "train", &keys));
	for (int i = 0; i < 32; i++)
		seal[i] = (uint8_t)~keys->seal[i];
	CHECK(count_in_memory(seal) >= 1);     // shows that the search finds existing bytes
	CHECK_INT(count_in_memory(master), 0); // the master key is needed only while keys are derived
	vram_keys_close(keys);
	CHECK_INT(count_in_memory(seal), 0);
}
