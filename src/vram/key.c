#include "vram/key.h"

#include "base/descriptor.h"
#include "virgate/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { DIGITS = 2 * VRAM_SECRET };

// Temporary values for deriving the keys, in one structure that one call wipes.
struct working {
	char text[DIGITS + 2]; // the digits, a newline, and one byte more to detect a longer text
	uint8_t master[VRAM_SECRET];
	uint8_t vgpu[VRAM_SECRET];
};

// ---- memory ----------------------------------------------------------------------------------------------

static enum vg_status fail_locking(size_t size)
{
	struct rlimit limit = {0};
	int error = errno;

	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (error != EPERM && error != ENOMEM && error != EAGAIN)
		return vg_fail(VG_SYSTEM, error, "cannot lock memory for keys: %s", strerror(error));
	return vg_fail(VG_LIMIT, error,
		       "cannot lock %zu bytes of memory for keys: this process may lock %llu bytes in all "
		       "(RLIMIT_MEMLOCK); raise it with ulimit -l, or LimitMEMLOCK= of its service",
		       size, (unsigned long long)limit.rlim_cur);
}

static enum vg_status create_locked(size_t size, void **ret_memory)
{
	if (sodium_init() < 0)
		return vg_fail(VG_SYSTEM, 0, "libsodium cannot start: the system gives it no random numbers");
	void *memory = sodium_malloc(size);
	if (!memory)
		return vg_fail(VG_NO_MEMORY, errno, "no memory for keys: %s", strerror(errno));
	// sodium_malloc() succeeds even if the system cannot lock the memory. Lock it again to detect that.
	if (sodium_mlock(memory, size)) {
		enum vg_status status = fail_locking(size);
		sodium_free(memory);
		return status;
	}
	*ret_memory = memory;
	return VG_OK;
}

static void destroy_locked(void *memory)
{
	sodium_free(memory); // this also wipes the memory
}

// ---- reading the secret ----------------------------------------------------------------------------------

static enum vg_status check_file(int fd, const char *path)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0)
		return vg_fail(VG_SYSTEM, errno, "key file %s: %s", path, strerror(errno));
	if (!S_ISREG(stat.st_mode))
		return vg_fail(VG_DENIED, 0, "key file %s: not a regular file", path);
	if (stat.st_uid != geteuid())
		return vg_fail(VG_DENIED, 0, "key file %s belongs to user %u, and this process is user %u's", path,
			       (unsigned)stat.st_uid, (unsigned)geteuid());
	if ((stat.st_mode & 07777) != 0600)
		return vg_fail(VG_DENIED, 0, "key file %s has mode %04o: it must be 0600; run chmod 0600 %s", path,
			       (unsigned)stat.st_mode & 07777, path);
	return VG_OK;
}

static enum vg_status read_file(const char *path, struct working *working, size_t *ret_length)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0 && errno == ELOOP)
		return vg_fail(VG_DENIED, errno, "key file %s is a symbolic link: name the file itself", path);
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return vg_fail(VG_NOT_FOUND, errno, "there is no key file %s: virgate key create %s makes one", path,
			       path);
	if (fd < 0)
		return vg_fail(errno == EACCES || errno == EPERM ? VG_DENIED : VG_SYSTEM, errno,
			       "cannot open key file %s: %s", path, strerror(errno));
	enum vg_status status = check_file(fd, path);
	if (status)
		return status;
	ssize_t length = vg_read_all(fd, working->text, sizeof working->text, -1);
	if (length < 0)
		return vg_fail(VG_SYSTEM, (int)-length, "cannot read key file %s: %s", path, strerror((int)-length));
	*ret_length = (size_t)length;
	return VG_OK;
}

static enum vg_status fail_ring(const char *description)
{
	int error = errno;

	if (error == ENOKEY)
		return vg_fail(VG_NOT_FOUND, error,
			       "there is no key \"%s\" of type user in the keyrings of this process: "
			       "keyctl padd user \"%s\" @u <FILE puts one there",
			       description, description);
	if (error == EKEYEXPIRED || error == EKEYREVOKED || error == EKEYREJECTED)
		return vg_fail(VG_DENIED, error, "the key \"%s\" is there, and is of no use any more: %s", description,
			       strerror(error));
	if (error == EACCES || error == EPERM)
		return vg_fail(VG_DENIED, error, "the kernel lets this process not at the key \"%s\": %s", description,
			       strerror(error));
	return vg_fail(VG_SYSTEM, error, "cannot read the key \"%s\" of the kernel: %s", description, strerror(error));
}

static enum vg_status read_ring(const char *description, struct working *working, size_t *ret_length)
{
	static const char type[] = "user";

	// Searches the keyrings of the thread, the process and the session, then that of the user, which the session
	// may not include.
	long key = syscall(SYS_request_key, type, description, NULL, 0);
	if (key < 0 && errno == ENOKEY)
		key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, type, description, 0);
	if (key < 0)
		return fail_ring(description);
	long length = syscall(SYS_keyctl, KEYCTL_READ, key, working->text, sizeof working->text);
	if (length < 0)
		return fail_ring(description);
	*ret_length = (size_t)length; // length of the whole key, even if the buffer was too small
	return VG_OK;
}

// ---- deriving the keys -----------------------------------------------------------------------------------

static enum vg_status parse_secret(struct working *working, size_t length, const char *where, const char *name)
{
	size_t made = 0;

	if (length == DIGITS + 1 && working->text[DIGITS] == '\n')
		length--;
	if (length != DIGITS ||
	    sodium_hex2bin(working->master, VRAM_SECRET, working->text, DIGITS, NULL, &made, NULL) ||
	    made != VRAM_SECRET)
		return vg_fail(VG_INVALID, 0, "%s %s does not hold a key: it must be %d hexadecimal digits", where,
			       name, DIGITS);
	if (sodium_is_zero(working->master, VRAM_SECRET))
		return vg_fail(VG_INVALID, 0, "%s %s contains only zeros, which is not a secret", where, name);
	return VG_OK;
}

// The context strings of crypto_kdf, which have a fixed length.
#define OF_MASTER "virgate-"
#define OF_VGPU "vg-vgpu-"
enum { MASTER_VGPU = 1, MASTER_AUDIT };
enum { VGPU_TREE = 1, VGPU_SEAL, VGPU_ATTESTATION };

static void derive_keys(struct working *working, const char *vgpu, struct vram_keys *keys)
{
	struct vram_mac mac;

	crypto_kdf_derive_from_key(keys->audit, VRAM_SECRET, MASTER_AUDIT, OF_MASTER, working->master);
	crypto_kdf_derive_from_key(working->vgpu, VRAM_SECRET, MASTER_VGPU, OF_MASTER, working->master);
	vram_mac_begin(&mac, working->vgpu, "vgpu");
	vram_mac_text(&mac, vgpu);
	vram_mac_end(&mac, working->vgpu);
	crypto_kdf_derive_from_key(keys->tree, VRAM_SECRET, VGPU_TREE, OF_VGPU, working->vgpu);
	crypto_kdf_derive_from_key(keys->seal, VRAM_SECRET, VGPU_SEAL, OF_VGPU, working->vgpu);
	crypto_kdf_derive_from_key(keys->attestation, VRAM_SECRET, VGPU_ATTESTATION, OF_VGPU, working->vgpu);
}

_Static_assert(crypto_kdf_KEYBYTES == VRAM_SECRET && crypto_kdf_CONTEXTBYTES == sizeof OF_MASTER - 1 &&
		       sizeof OF_VGPU == sizeof OF_MASTER && crypto_generichash_KEYBYTES == VRAM_SECRET,
	       "the sizes that libsodium requires");

static enum vg_status fill_keys(const char *file, const char *ring, const char *vgpu, struct working *working,
				struct vram_keys *keys)
{
	size_t length = 0;

	enum vg_status status = file ? read_file(file, working, &length) : read_ring(ring, working, &length);
	if (status)
		return status;
	status = parse_secret(working, length, file ? "key file" : "the kernel's key", file ? file : ring);
	if (status)
		return status;
	derive_keys(working, vgpu, keys);
	return VG_OK;
}

enum vg_status vram_keys_open(const char *file, const char *ring, const char *vgpu, struct vram_keys **ret_keys)
{
	void *working = NULL, *keys = NULL;

	if (!file == !ring)
		return vg_fail(VG_INVALID, 0,
			       file ? "key_file and key_ring are both given: one secret is what keys come from"
				    : "neither key_file nor key_ring is given: keys come from one of them");
	enum vg_status status = create_locked(sizeof(struct working), &working);
	if (status)
		return status;
	status = create_locked(sizeof(struct vram_keys), &keys);
	if (status == VG_OK)
		status = fill_keys(file, ring, vgpu, working, keys);
	destroy_locked(working);
	if (status)
		destroy_locked(keys);
	else
		*ret_keys = keys;
	return status;
}

void vram_keys_close(struct vram_keys *keys)
{
	destroy_locked(keys);
}
