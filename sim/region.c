#include "region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hash.h"
#include "base/size.h"
#include "region_internal.h"

// The user id that stat() reports for a file if the user namespace does not have the file's owner.
enum { UNMAPPED = 65534 };
enum { SHARED_MODE = 01711 }; // mode of root's directory: only root creates files there, but all users may use them

// Checks that the directory belongs to the caller, or that root shares it with all users.
static int check_directory(struct region *region, const struct stat *status, char *problem, size_t capacity)
{
	// In a container, the user namespace may not have root. Then root's directory seems to belong to UNMAPPED.
	bool is_roots = status->st_uid == 0 || status->st_uid == UNMAPPED;
	region->is_own = status->st_uid == geteuid();
	region->shared = is_roots && (status->st_mode & 07777) == SHARED_MODE;
	if (region->shared)
		return 0;
	if (status->st_uid != geteuid())
		snprintf(problem, capacity,
			 "the simulated node's directory %s belongs to another user (%u), who does not share it: name "
			 "one of yours in VIRGATE_SIM_DIR",
			 region->directory, (unsigned)status->st_uid);
	else if (status->st_mode & 0022)
		snprintf(problem, capacity,
			 "others may write in the simulated node's directory %s (mode %04o): name another one in "
			 "VIRGATE_SIM_DIR",
			 region->directory, (unsigned)status->st_mode & 07777);
	else
		return 0;
	return 1;
}

static int create_directory(struct region *region, char *problem, size_t capacity)
{
	struct stat status;
	char parent[256];

	snprintf(parent, sizeof parent, "%s", region->directory);
	char *slash = strrchr(parent, '/');
	if (slash && slash != parent) {
		*slash = 0;
		(void)mkdir(parent, 0700); // if this fails, the next mkdir fails, too
	}
	if (mkdir(region->directory, 0700) != 0 && errno != EEXIST) {
		int error = errno;
		snprintf(problem, capacity, "cannot create %s: %s", region->directory, strerror(error));
		return 1;
	}
	_cleanup_close_ int fd = open(region->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) != 0) {
		int error = errno;
		snprintf(problem, capacity, "%s: %s", region->directory, strerror(error));
		return 1;
	}
	return check_directory(region, &status, problem, capacity);
}

// Opens a file of the simulated node. Creates it if necessary; in a shared node only root does.
static int open_file(const struct region *region, const char *path, int flags)
{
	bool creates = !region->shared || region->is_own;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | (creates ? O_CREAT | flags : 0), 0600);

	if (fd < 0 || !creates || !region->shared || fchmod(fd, 0666) == 0)
		return fd;
	int error = errno;
	close(fd);
	errno = error;
	return -1;
}

// Locks the directory, so that programs that clean up temporary files do not remove it. Root also creates the directory
// in which all users export memory.
static int keep_directory(struct region *region)
{
	char path[300];

	region->kept = open(region->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (region->kept >= 0)
		(void)flock(region->kept, LOCK_SH | LOCK_NB);
	if (!region->shared || !region->is_own)
		return 0;
	snprintf(path, sizeof path, "%s/exports", region->directory);
	if ((mkdir(path, 0700) != 0 && errno != EEXIST) || chmod(path, 01777) != 0)
		return -errno;
	region_sweep_exports(region);
	return 0;
}

static bool is_same_node(const struct sim_config *a, const struct sim_config *b)
{
	return a->devices == b->devices && a->sms == b->sms && a->cc_major == b->cc_major &&
	       a->cc_minor == b->cc_minor && a->driver == b->driver && a->memory == b->memory &&
	       a->context == b->context && a->slice_ns == b->slice_ns && a->switch_ns == b->switch_ns &&
	       a->copy_engines == b->copy_engines;
}

// Returns the size of the tables in the header file. Space for them is reserved when the file is created. The state of
// the devices' time follows the tables.
static size_t get_table_bytes(const struct sim_config *config)
{
	return sizeof(struct region_header) +
	       config->devices * (config->memory / REGION_BLOCK) * sizeof(struct region_block);
}

static size_t get_time_offset(const struct sim_config *config)
{
	return (get_table_bytes(config) + 4095) / 4096 * 4096;
}

static size_t get_header_bytes(const struct sim_config *config)
{
	size_t time = region_time_bytes(config);

	return time ? get_time_offset(config) + time : get_table_bytes(config);
}

// Maps the file, and keeps a descriptor of it for its locks.
static int map_header(struct region *region, int fd, const struct sim_config *config)
{
	size_t size = get_header_bytes(config);
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	(void)madvise(at, size, MADV_RANDOM); // the file is sparse: readahead would fill memory with zeros
	region->header = at;
	region->header_size = size;
	region->blocks_per_device = (uint32_t)(config->memory / REGION_BLOCK);
	region->time_offset = get_time_offset(config);
	// If the process was restored from an image, its clock may differ from that of other processes.
	region->clock_offset = config->slice_ns ? vg_clock_offset(0, "monotonic") : 0;
	return region_lock_init(region, fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

static void unmap_header(struct region *region)
{
	region_lock_finish(region);
	if (region->header)
		munmap(region->header, region->header_size);
	region->header = NULL;
}

int region_reserve(int descriptor, off_t offset, size_t size)
{
	struct statvfs disk;
	int error;

	// If the disk has no room for `size` bytes, fail before any space is reserved.
	if (fstatvfs(descriptor, &disk) == 0 && disk.f_blocks && size / disk.f_frsize > disk.f_bfree)
		return -ENOSPC;
	do
		error = posix_fallocate(descriptor, offset, (off_t)size);
	while (error == EINTR);
	return -error;
}

void region_format_no_space(const char *directory, uint64_t bytes, char *problem, size_t capacity)
{
	char needed[VG_SIZE_TEXT], left[VG_SIZE_TEXT] = "?";
	struct statvfs disk;

	if (statvfs(directory, &disk) == 0)
		vg_size_format((uint64_t)disk.f_bavail * disk.f_frsize, left);
	snprintf(problem, capacity,
		 "the simulated node's directory %s is full: %s needed, %s free; make room there, or name another one "
		 "in VIRGATE_SIM_DIR",
		 directory, vg_size_format(bytes, needed), left);
}

static int init_header(struct region *region, int fd, const struct sim_config *config)
{
	int error = region_reserve(fd, 0, get_table_bytes(config));

	if (error == 0 && ftruncate(fd, (off_t)get_header_bytes(config)) != 0)
		error = -errno;
	if (error == 0)
		error = map_header(region, fd, config);
	if (error != 0)
		return error;
	region->header->config = *config;
	if (config->slice_ns)
		error = region_time_init(region, fd);
	if (error != 0)
		return error;
	// Ids of memory contain this number. A process restored from an image may still have ids of an earlier
	// simulated node. So choose a number that no earlier node had.
	region->header->generation = (uint32_t)(vg_clock_realtime_ns() >> 10);
	region->header->version = REGION_VERSION;
	region->header->magic = REGION_MAGIC; // set last, because it says that the header is complete
	return 0;
}

enum { JOIN_IN_USE = 1, JOIN_RENEW = 2 };

// Maps an existing header file. Returns 0, JOIN_IN_USE (a simulated node of another configuration uses it), JOIN_RENEW
// (it must be created again), or negative errno.
static int join_header(struct region *region, int fd, const struct sim_config *config)
{
	struct {
		uint64_t magic;
		uint32_t version, padding;
		struct sim_config config;
	} old;
	struct stat status;

	if (pread(fd, &old, sizeof old, 0) != sizeof old || old.magic != REGION_MAGIC || old.version != REGION_VERSION)
		return JOIN_RENEW;
	if (fstat(fd, &status) != 0 || (size_t)status.st_size != get_header_bytes(&old.config))
		return JOIN_RENEW;
	int error = map_header(region, fd, &old.config);
	if (error != 0)
		return error;
	if (is_same_node(&old.config, config))
		return 0;
	region_lock(region);
	unsigned alive = region_reap_locked(region);
	region_unlock(region);
	unmap_header(region);
	return alive ? JOIN_IN_USE : JOIN_RENEW;
}

static void close_devices(struct region *region)
{
	for (int i = 0; i < SIM_DEVICES; i++) {
		if (region->devices[i] >= 0)
			close(region->devices[i]);
		region->devices[i] = -1;
	}
}

static int open_devices(struct region *region, const struct sim_config *config)
{
	char path[300];

	for (unsigned i = 0; i < config->devices; i++) {
		struct stat status;
		snprintf(path, sizeof path, "%s/device%u", region->directory, i);
		int fd = open_file(region, path, 0);
		if (fd < 0)
			return -errno;
		fd = vg_fd_raise_consume(fd);
		if (fd < 0)
			return fd;
		region->devices[i] = fd;
		// If the file has the right size, do not set it: RLIMIT_FSIZE may be smaller.
		if (fstat(fd, &status) != 0 ||
		    (status.st_size != (off_t)config->memory && ftruncate(fd, (off_t)config->memory) != 0))
			return -errno;
	}
	return 0;
}

uint32_t region_pid_namespace(void)
{
	struct stat info;

	return stat("/proc/self/ns/pid", &info) == 0 ? (uint32_t)info.st_ino : 0;
}

static int claim_slot(struct region *region)
{
	struct region_header *h = region->header;
	uint64_t start;
	int error = vg_process_start_time(0, &start);

	if (error != 0)
		return error;
	region_reap_locked(region);
	for (int i = 0; i < REGION_PROCESSES; i++) {
		struct region_process *process = &h->processes[i];
		if (process->pid != 0)
			continue;
		error = region_slot_claim(region, i);
		if (error == REGION_GONE) // another process still has the lock of this slot
			continue;
		if (error != 0)
			return error;
		region_step("claimed");
		memset(process, 0, sizeof *process);
		process->start_time = start;
		process->pid_namespace = region_pid_namespace();
		atomic_store(&process->incarnation, ++h->generation);
		if ((uint32_t)i >= h->process_high)
			h->process_high = (uint32_t)i + 1;
		// process_high was set before this point. So if this process is killed now, another process finds the
		// slot and frees it.
		region_step("in sight");
		process->pid = getpid();
		region_step("named");
		region->slot = i;
		return 0;
	}
	return -EUSERS;
}

// Opens and locks the simulated node's header file. To unlock it, closing the descriptor is not enough, because the
// mapping also keeps the open file. A new node has a new file, so that it does not disturb processes that map the old
// one.
static int lock_header(const struct region *region, const char *path)
{
	struct stat mine, current;

	for (;;) {
		int fd = open_file(region, path, 0);
		if (fd < 0)
			return -errno;
		if (flock(fd, LOCK_EX) != 0 || fstat(fd, &mine) != 0) {
			int error = errno;
			close(fd);
			return -error;
		}
		if (stat(path, &current) == 0 && current.st_ino == mine.st_ino)
			return fd;
		close(fd); // another process replaced the file meanwhile
	}
}

// Opens the devices and claims a slot. Call it with the header file locked.
static int open_locked_node(struct region *region, const struct sim_config *config, bool observer)
{
	int status = open_devices(region, config);

	// An observer opens the device files only to create them, in case other processes may not.
	if (observer) {
		close_devices(region);
		status = 0;
	}
	if (status != 0)
		return status;
	region_lock(region);
	region_reap_locked(region);
	if (!observer)
		status = claim_slot(region);
	region_unlock(region);
	return status;
}

// Removes the device files of an earlier simulated node, which no process uses any more. So the memory of the new node
// is zero.
static void remove_devices(const struct region *region)
{
	char path[300];

	for (int i = 0; i < SIM_DEVICES; i++) {
		snprintf(path, sizeof path, "%s/device%d", region->directory, i);
		(void)unlink(path);
	}
}

static int renew_header(struct region *region, const char *path, const struct sim_config *config)
{
	char new_path[310];

	snprintf(new_path, sizeof new_path, "%s.new", path);
	_cleanup_close_ int fd = open_file(region, new_path, O_TRUNC);
	if (fd < 0)
		return -errno;
	int status = init_header(region, fd, config);
	// Remove the device files first: as soon as the new header is in place, another process may create new ones.
	if (status == 0)
		remove_devices(region);
	if (status == 0 && rename(new_path, path) != 0)
		status = -errno;
	if (status != 0)
		(void)unlink(new_path);
	return status;
}

static int open_node(struct region *region, const struct sim_config *config, bool observer, char *problem,
		     size_t capacity)
{
	char path[300];

	snprintf(path, sizeof path, "%s/node", region->directory);
	_cleanup_close_ int fd = lock_header(region, path);
	if (fd < 0)
		return fd;
	int status = join_header(region, fd, config);
	if (status == JOIN_IN_USE)
		snprintf(problem, capacity, "%s is in use by a simulated node of another configuration",
			 region->directory);
	if (status == JOIN_RENEW)
		status = renew_header(region, path, config);
	if (status == 0)
		status = open_locked_node(region, config, observer);
	flock(fd, LOCK_UN);
	return status;
}

static int open_region(const struct sim_config *config, bool observer, struct region **ret_region, char *problem,
		       size_t capacity)
{
	struct region *region = calloc(1, sizeof *region);
	char real[PATH_MAX];

	if (!region)
		return -ENOMEM;
	region->slot = region->lock = region->kept = -1;
	region->overcommit = config->overcommit;
	snprintf(region->directory, sizeof region->directory, "%s", config->directory);
	pthread_mutex_init(&region->time_lock, NULL);
	for (int i = 0; i < SIM_DEVICES; i++)
		region->devices[i] = -1;
	int status = create_directory(region, problem, capacity);
	if (status == 0 && !realpath(config->directory, real))
		status = -errno;
	if (status == 0 && observer)
		status = keep_directory(region);
	if (status == 0)
		status = open_node(region, config, observer, problem, capacity);
	if (region_is_no_space(status))
		region_format_no_space(config->directory, get_table_bytes(config), problem, capacity);
	else if (status < 0)
		snprintf(problem, capacity, "cannot open the simulated node in %s: %s%s", config->directory,
			 strerror(-status),
			 region->shared ? "; it is one for several users, which `virgated --system` creates" : "");
	if (status != 0) {
		region_close(region);
		return status;
	}
	*ret_region = region;
	return 0;
}

int region_open(const struct sim_config *config, struct region **ret_region, char *problem, size_t capacity)
{
	return open_region(config, false, ret_region, problem, capacity);
}

int region_observe(const struct sim_config *config, struct region **ret_region, char *problem, size_t capacity)
{
	return open_region(config, true, ret_region, problem, capacity);
}

// Has no effect in a forked child, and in a checkpointed process, whose slot another process may have now.
void region_release_all(struct region *region)
{
	if (region->slot < 0 || region->lock < 0 || region->lock_owner != getpid())
		return;
	region_lock(region);
	region->header->processes[region->slot].start_time = UINT64_MAX; // marks the slot as dead, so that it is reaped
	region_step("nobody's");
	region_slot_release(region);
	region_step("given up");
	region->slot = -1;
	region_reap_locked(region);
	region_unlock(region);
}

void region_close(struct region *region)
{
	if (!region)
		return;
	region_release_all(region);
	unmap_header(region);
	close_devices(region);
	if (region->kept >= 0)
		close(region->kept);
	free(region);
}

void region_uuid(const struct sim_config *config, int device, uint8_t ret_uuid[16])
{
	char real[PATH_MAX], text[PATH_MAX + 16];
	uint64_t hash[2] = {0, 0x9e3779b97f4a7c15u};

	snprintf(text, sizeof text, "%s#%d", realpath(config->directory, real) ? real : config->directory, device);
	hash[0] = vg_hash_text(text);
	for (const char *c = text; *c; c++)
		hash[1] = vg_hash_add(hash[1], c, 1) + (hash[1] >> 29);
	memcpy(ret_uuid, hash, 16);
	ret_uuid[6] = (uint8_t)((ret_uuid[6] & 0x0f) | 0x40);
	ret_uuid[8] = (uint8_t)((ret_uuid[8] & 0x3f) | 0x80);
}

void region_uuid_format(const uint8_t b[16], char ret_text[REGION_UUID_TEXT])
{
	snprintf(ret_text, REGION_UUID_TEXT, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

// Returns whether this process still has its slot. A process that was restored from an image has the same pid as
// before, but another start time. Its slot was freed when the process before the restore ended.
static bool has_slot(const struct region *region)
{
	const struct region_process *process = &region->header->processes[region->slot];
	uint64_t start;

	return process->pid == getpid() && process->pid_namespace == region_pid_namespace() &&
	       vg_process_start_time(0, &start) == 0 && vg_start_time_same(process->start_time, start);
}

// Claims the slot that this process had before a checkpoint. Returns false if another process has it, or if the
// simulated node was created again.
static bool resume_slot(struct region *region)
{
	char path[300];

	snprintf(path, sizeof path, "%s/node", region->directory);
	ino_t mapped = region->inode;
	if (region->slot < 0 || region_lock_init(region, open(path, O_RDWR | O_CLOEXEC)) != 0 ||
	    region->inode != mapped)
		return false;
	region_lock(region);
	bool resumed = has_slot(region) && region_slot_claim(region, region->slot) == 0;
	if (resumed)
		region->header->processes[region->slot].parked = 0;
	if (resumed && region->header->config.slice_ns)
		region->clock_offset = vg_clock_offset(0, "monotonic");
	region_unlock(region);
	return resumed;
}

int region_attach(struct region *region, const struct sim_config *config)
{
	char problem[256];

	if (resume_slot(region))
		return open_devices(region, config);
	// The simulated node may have been created again in another file.
	unmap_header(region);
	region->slot = -1;
	return open_node(region, config, false, problem, sizeof problem);
}

void region_detach(struct region *region)
{
	region_lock(region);
	region->header->processes[region->slot].parked = 1;
	region_step("parked");
	region_slot_release(region);
	region_unlock(region);
	region_lock_finish(region);
	memset(region->time_slots, 0, sizeof region->time_slots); // the slot or the file may change
	close_devices(region);
}
