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

// What is there while keys are derived: one block, so that one call wipes it.
struct working {
	char text[DIGITS + 2]; // the digits, and room to see that there are more
	uint8_t master[VRAM_SECRET];
	uint8_t vgpu[VRAM_SECRET];
};

// ---- memory ----------------------------------------------------------------------------------------------

static enum vg_status locked_failed(size_t size)
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

static enum vg_status locked_create(size_t size, void **ret_memory)
{
	if (sodium_init() < 0)
		return vg_fail(VG_SYSTEM, 0, "libsodium cannot start: the system gives it no random numbers");
	void *memory = sodium_malloc(size);
	if (!memory)
		return vg_fail(VG_NO_MEMORY, errno, "no memory for keys: %s", strerror(errno));
	// sodium_malloc() goes on without the lock where the system refuses it: we do not.
	if (sodium_mlock(memory, size)) {
		enum vg_status status = locked_failed(size);
		sodium_free(memory);
		return status;
	}
	*ret_memory = memory;
	return VG_OK;
}

static void locked_destroy(void *memory)
{
	sodium_free(memory); // wipes it
}

// ---- where the secret comes from -------------------------------------------------------------------------

static enum vg_status file_check(int fd, const char *path)
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

static enum vg_status file_read(const char *path, struct working *working, size_t *ret_length)
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
	enum vg_status status = file_check(fd, path);
	if (status)
		return status;
	ssize_t length = vg_read_all(fd, working->text, sizeof working->text, -1);
	if (length < 0)
		return vg_fail(VG_SYSTEM, (int)-length, "cannot read key file %s: %s", path, strerror((int)-length));
	*ret_length = (size_t)length;
	return VG_OK;
}

static enum vg_status ring_failed(const char *description)
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

static enum vg_status ring_read(const char *description, struct working *working, size_t *ret_length)
{
	static const char type[] = "user";

	// Thread's, process' and session keyring; the user's is not always linked into the session's.
	long key = syscall(SYS_request_key, type, description, NULL, 0);
	if (key < 0 && errno == ENOKEY)
		key = syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, type, description, 0);
	if (key < 0)
		return ring_failed(description);
	long length = syscall(SYS_keyctl, KEYCTL_READ, key, working->text, sizeof working->text);
	if (length < 0)
		return ring_failed(description);
	*ret_length = (size_t)length; // more than fits, if it is longer
	return VG_OK;
}

// ---- what is made of it ----------------------------------------------------------------------------------

static enum vg_status parse(struct working *working, size_t length, const char *where, const char *name)
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

// The contexts of crypto_kdf are as long as this.
#define OF_MASTER "virgate-"
#define OF_VGPU "vg-vgpu-"
enum { MASTER_VGPU = 1, MASTER_AUDIT };
enum { VGPU_TREE = 1, VGPU_SEAL, VGPU_ATTESTATION };

static void derive(struct working *working, const char *vgpu, struct vram_keys *keys)
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
	       "what libsodium takes");

enum vg_status vram_keys_open(const char *file, const char *ring, const char *vgpu, struct vram_keys **ret_keys)
{
	void *working_ = NULL, *keys = NULL;
	size_t length = 0;

	if (!file == !ring)
		return vg_fail(VG_INVALID, 0,
			       file ? "key_file and key_ring are both given: one secret is what keys come from"
				    : "neither key_file nor key_ring is given: keys come from one of them");
	enum vg_status status = locked_create(sizeof(struct working), &working_);
	if (status == VG_OK)
		status = locked_create(sizeof(struct vram_keys), &keys);
	struct working *working = working_;
	if (status == VG_OK)
		status = file ? file_read(file, working, &length) : ring_read(ring, working, &length);
	if (status == VG_OK)
		status = parse(working, length, file ? "key file" : "the kernel's key", file ? file : ring);
	if (status == VG_OK) {
		derive(working, vgpu, keys);
		*ret_keys = keys;
		keys = NULL;
	}
	locked_destroy(keys);
	locked_destroy(working);
	return status;
}

void vram_keys_close(struct vram_keys *keys)
{
	locked_destroy(keys);
}
