#include "pager/host.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "pager/available.h"
#include "pager/host_file.h"
#include "pager/memory.h"
#include "pager/pages.h"

// Host memory is allocated in pieces of at most PIECE bytes. One driver call pins a piece, and may block the whole
// process meanwhile. A copy must not cross from one piece into the next.
enum { PIECE = 2 * PAGER_CHUNK, GRANULE = 2 << 20, GRANULES = PIECE / GRANULE, PIECES = 2048 };

struct piece {
	char *memory; // NULL: the piece is not mapped
	size_t size;
	CUcontext pinned_in; // NULL: not pinned
	bool is_lost;	     // true: the context was destroyed or restored, so the piece must be pinned again
	bool is_in_file;
	off_t offset; // offset of the piece in the file
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece pieces[PIECES];
static size_t piece_count;
static uint64_t limit, all_bytes, used_bytes;
// Host memory is given out in granules of 2 MiB, which are numbered through all pieces. A room (the place for one chunk
// of device memory) is identified by the position of its first byte in the sequence of all pieces. 0 means no room, so
// positions begin at GRANULE.
static uint64_t used[PIECES * GRANULES / 64]; // one bit for each granule: 1 if the granule is in use
static size_t lowest;			      // all granules before this one are in use
// The file that contains the pieces. The program may close any descriptor, even one that it did not open, so the file's
// inode is compared before use.
static int file_fd = -1;
static ino_t file_inode;
static off_t file_bytes;
static struct pager_file file_name; // identity of the file; number 0: the file has no name

void pager_host_limit(uint64_t bytes)
{
	limit = bytes;
}

static void pin_piece(struct piece *piece)
{
	piece->is_lost = false;
	if (pager_driver.cuMemHostRegister_v2(piece->memory, piece->size, CU_MEMHOSTREGISTER_PORTABLE) != CUDA_SUCCESS)
		return; // the piece stays unpinned; copies are slower then
	piece->pinned_in = pager_current_context();
}

static void close_file(void)
{
	struct stat info;

	if (file_fd >= 0 && fstat(file_fd, &info) == 0 && info.st_ino == file_inode)
		close(file_fd);
	file_fd = -1;
}

// Opens the file if it is not open. Returns false if that fails, or if the program has closed the descriptor.
static bool has_file(void)
{
	struct stat info;

	if (file_fd >= 0)
		return fstat(file_fd, &info) == 0 && info.st_ino == file_inode;
	if (file_bytes) // the file with the pieces exists but is closed, as during a dump: do not create another one
		return false;
	file_fd = pager_file_create();
	if (file_fd < 0)
		return false;
	if (fstat(file_fd, &info) == 0) {
		file_inode = info.st_ino;
		return true;
	}
	close(file_fd);
	file_fd = -1;
	return false;
}

static void *map_piece(size_t size, int fd, off_t offset)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, offset);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, size, MADV_HUGEPAGE);
	madvise(memory, size, MADV_DONTFORK);
	return memory;
}

// Returns whether a quarter of the file system remains for other programs after the file has grown by this piece.
static bool leaves_enough(size_t size)
{
	struct statvfs info;

	if (fstatvfs(file_fd, &info) < 0)
		return false;
	return info.f_blocks == 0 || // the file system has no size limit
	       (uint64_t)info.f_bavail * info.f_frsize >= size + (uint64_t)info.f_blocks * info.f_frsize / 4;
}

// Allocates the pages of a piece at the end of the file. Does it through the mapping, since only then the pages can be
// huge. Returns false if the file system has no room.
static bool allocate_in_file(void *memory, size_t size)
{
	int error = pager_pages_allocate(memory, size);

	return error == EINVAL ? fallocate(file_fd, 0, file_bytes, (off_t)size) == 0 : error == 0;
}

// Extends the file by a piece and maps it. Returns NULL if the file system has no room.
static void *extend_file(size_t size)
{
	void *memory;

	if (!has_file() || !leaves_enough(size) || ftruncate(file_fd, file_bytes + (off_t)size) < 0)
		return NULL;
	memory = map_piece(size, file_fd, file_bytes);
	if (memory && allocate_in_file(memory, size))
		return memory;
	if (memory)
		munmap(memory, size);
	(void)!ftruncate(file_fd, file_bytes);
	return NULL;
}

static void *map_anonymous(size_t size)
{
	void *memory = map_piece(size, -1, 0);
	int error = memory ? pager_pages_allocate(memory, size) : 0;

	if (error == 0 || error == EINVAL) // without MADV_POPULATE_WRITE, the pages are allocated when they are pinned
		return memory;
	munmap(memory, size);
	return NULL;
}

// Adds a piece of `size` bytes, at most PIECE. Returns false if no memory is left. Call it with the lock held.
static bool add_piece(uint64_t size)
{
	struct piece *piece = &pieces[piece_count];

	size = size < PIECE ? size : PIECE;
	if (piece_count == PIECES)
		return false;
	*piece = (struct piece){.memory = extend_file(size), .size = size, .offset = file_bytes};
	piece->is_in_file = piece->memory != NULL;
	if (piece->is_in_file)
		file_bytes += (off_t)size;
	else
		piece->memory = map_anonymous(size);
	if (!piece->memory)
		return false;
	pin_piece(piece);
	all_bytes += size;
	piece_count++;
	return true;
}

static uint64_t free_bytes(void)
{
	return all_bytes - used_bytes;
}

static struct piece *find_lost(void)
{
	for (size_t i = 0; i < piece_count; i++)
		if (pieces[i].is_lost && pieces[i].memory)
			return &pieces[i];
	return NULL;
}

// Allocates the pages of a piece that are missing since it was parked, and maps all of them, in several threads: the
// driver would map them one after the other. Returns false if the file system has no room for them.
static bool fill_lost(const struct piece *piece)
{
	int error = pager_pages_allocate(piece->memory, piece->size);

	if (error == EINVAL && piece->is_in_file)
		return fallocate(file_fd, 0, piece->offset, (off_t)piece->size) == 0;
	return error == 0 || error == EINVAL;
}

// Pins one more piece of host memory, unless `bytes` bytes are pinned and free already. Call it with the lock held.
static enum pager_host_step grow_locked(uint64_t bytes, uint64_t kept, uint64_t *ret_missing)
{
	uint64_t needed = bytes > free_bytes() ? bytes - free_bytes() : 0, available;
	struct piece *lost = find_lost();

	if (used_bytes + bytes > limit) {
		*ret_missing = used_bytes + bytes - limit;
		return PAGER_HOST_SHORT;
	}
	if (lost) {
		if (!fill_lost(lost)) {
			*ret_missing = lost->size;
			return PAGER_HOST_SHORT;
		}
		pin_piece(lost);
		return PAGER_HOST_MORE;
	}
	if (needed == 0)
		return PAGER_HOST_READY;
	available = pager_host_available();
	if (available < kept || available - kept < needed || !add_piece(needed)) {
		*ret_missing = available < kept + needed ? kept + needed - available : needed;
		return PAGER_HOST_SHORT;
	}
	return PAGER_HOST_MORE;
}

enum pager_host_step pager_host_grow(uint64_t bytes, uint64_t kept, uint64_t *ret_missing)
{
	enum pager_host_step step;

	*ret_missing = 0;
	pthread_mutex_lock(&lock);
	step = grow_locked(bytes, kept, ret_missing);
	pthread_mutex_unlock(&lock);
	return step;
}

bool pager_host_has(uint64_t bytes)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = bytes <= free_bytes();
	pthread_mutex_unlock(&lock);
	return has;
}

static bool is_used(size_t granule)
{
	return used[granule / 64] >> granule % 64 & 1;
}

static void set_used(size_t first, size_t end, bool is_used)
{
	for (size_t i = first; i < end; i++)
		used[i / 64] = (used[i / 64] & ~(1ull << i % 64)) | (uint64_t)is_used << i % 64;
}

uint64_t pager_host_take(size_t size)
{
	size_t granules = size / GRANULE, free_ones = 0;
	uint64_t room = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = lowest; i < all_bytes / GRANULE && !room; i++) {
		free_ones = is_used(i) ? 0 : free_ones + 1;
		if (free_ones < granules)
			continue;
		size_t first = i + 1 - granules;
		set_used(first, i + 1, true);
		lowest = first == lowest ? i + 1 : lowest;
		used_bytes += size;
		room = (uint64_t)(first + 1) * GRANULE;
	}
	pthread_mutex_unlock(&lock);
	return room;
}

void pager_host_give(uint64_t room, size_t size)
{
	size_t first = room / GRANULE - 1;

	pthread_mutex_lock(&lock);
	set_used(first, first + size / GRANULE, false);
	lowest = first < lowest ? first : lowest;
	used_bytes -= size;
	pthread_mutex_unlock(&lock);
}

void *pager_host_at(uint64_t room, size_t *ret_size, uint64_t *ret_offset)
{
	uint64_t offset = room - GRANULE;
	const struct piece *piece = pieces;
	void *memory;

	pthread_mutex_lock(&lock);
	for (; offset >= piece->size; piece++)
		offset -= piece->size;
	memory = piece->memory ? piece->memory + offset : NULL;
	*ret_size = piece->size - offset;
	*ret_offset = (uint64_t)piece->offset + offset;
	pthread_mutex_unlock(&lock);
	return memory;
}

void pager_host_forget(CUcontext context)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < piece_count; i++)
		if (!context || pieces[i].pinned_in == context) {
			pieces[i].pinned_in = NULL;
			pieces[i].is_lost = true;
		}
	pthread_mutex_unlock(&lock);
}

// ---- dump and restore ----------------------------------------------------------------------------------

// Unpins a piece. Returns false if the driver call fails.
static bool unpin_piece(struct piece *piece)
{
	if (piece->pinned_in && pager_driver.cuMemHostUnregister(piece->memory) != CUDA_SUCCESS)
		return false;
	piece->is_lost |= piece->pinned_in != NULL;
	piece->pinned_in = NULL;
	return true;
}

// Frees the unused pages of a piece in the file, so that they are not written into a checkpoint image. Unpins the piece
// first: the GPU would go on using a freed page while the CPU and the file have another one in its place. Returns false
// if the driver call fails.
static bool free_unused(struct piece *piece, size_t first_granule)
{
	const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	size_t count = piece->size / GRANULE;

	for (size_t i = 0, end; i < count; i = end + 1) {
		for (end = i; end < count && !is_used(first_granule + end); end++)
			;
		if (end == i)
			continue;
		if (!unpin_piece(piece))
			return false;
		fallocate(file_fd, mode, piece->offset + (off_t)(i * GRANULE), (off_t)((end - i) * GRANULE));
	}
	return true;
}

static void unmap_file(void)
{
	for (size_t i = 0; i < piece_count; i++)
		if (pieces[i].is_in_file) {
			pager_pages_unmap(pieces[i].memory, pieces[i].size);
			pieces[i].memory = NULL;
		}
	close_file(); // an open file would become part of CRIU's dump
}

// Gives the file a name, unless it has one. Another process may have removed an earlier name: without it, the memory
// would be lost as soon as the file is closed.
static int name_file(void)
{
	struct pager_file file;
	int r;

	if (file_name.number)
		return pager_file_is_named(file_fd, &file_name) ? 0 : -ENOENT;
	if (!has_file())
		return -EBADF;
	r = pager_file_choose(0, &file);
	if (r < 0)
		return r;
	r = pager_file_link(file_fd, &file);
	if (r == 0)
		file_name = file;
	return r;
}

static int finish_file(void)
{
	size_t granule = 0;
	int r = name_file();

	for (size_t i = 0; i < piece_count && r == 0; granule += pieces[i].size / GRANULE, i++)
		if (pieces[i].is_in_file && !free_unused(&pieces[i], granule))
			r = -EIO;
	return r;
}

// Releases all host memory, of which none is in use. Call it with the lock held.
static void release_all(void)
{
	for (size_t i = 0; i < piece_count; i++)
		if (!unpin_piece(&pieces[i]))
			return;
	for (size_t i = 0; i < piece_count; i++)
		if (pieces[i].memory)
			munmap(pieces[i].memory, pieces[i].size);
	piece_count = 0;
	all_bytes = 0;
	lowest = 0;
	if (file_name.number)
		pager_file_unlink(&file_name);
	file_name = (struct pager_file){0};
	file_bytes = 0;
	close_file();
}

int pager_host_finish_file(struct pager_file *ret_file)
{
	int r;

	pthread_mutex_lock(&lock);
	if (used_bytes == 0)
		release_all();
	r = file_bytes ? finish_file() : 0;
	if (r == 0)
		*ret_file = file_name;
	pthread_mutex_unlock(&lock);
	return r;
}

int pager_host_park(void)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < piece_count && r == 0; i++)
		if (pieces[i].is_in_file && !unpin_piece(&pieces[i]))
			r = -EIO;
	if (r == 0)
		unmap_file();
	pthread_mutex_unlock(&lock);
	return r;
}

static int check_file(int fd, struct stat *ret_info)
{
	return fstat(fd, ret_info) < 0 ? -errno : ret_info->st_size < file_bytes ? -EINVAL : 0;
}

static int map_file(int fd)
{
	int r = 0;

	for (size_t i = 0; i < piece_count && r == 0; i++) {
		if (!pieces[i].is_in_file)
			continue;
		pieces[i].memory = map_piece(pieces[i].size, fd, pieces[i].offset);
		pieces[i].is_lost = true;
		r = pieces[i].memory ? 0 : -ENOMEM;
	}
	for (size_t i = 0; i < piece_count && r < 0; i++)
		if (pieces[i].is_in_file && pieces[i].memory) {
			munmap(pieces[i].memory, pieces[i].size);
			pieces[i].memory = NULL;
		}
	return r;
}

static int unpark_file(const struct pager_file *file)
{
	int fd = pager_file_open(file), r;
	struct stat info;

	if (fd < 0)
		return fd;
	r = check_file(fd, &info);
	if (r == 0)
		r = map_file(fd);
	if (r < 0) {
		close(fd);
		return r;
	}
	file_fd = fd;
	file_inode = info.st_ino;
	file_name = *file;
	return 0;
}

int pager_host_unpark(const struct pager_file *file)
{
	int r = 0;

	pthread_mutex_lock(&lock);
	if (file_bytes)
		r = unpark_file(file);
	pthread_mutex_unlock(&lock);
	return r;
}

void pager_host_forget_file(void)
{
	pthread_mutex_lock(&lock);
	if (used_bytes == 0)
		file_name = (struct pager_file){0};
	pthread_mutex_unlock(&lock);
}

static bool is_any_pinned(void)
{
	for (size_t i = 0; i < piece_count; i++)
		if (pieces[i].pinned_in)
			return true;
	return false;
}

bool pager_host_release_step(void)
{
	bool are_left = false;
	size_t i = 0;

	pthread_mutex_lock(&lock);
	if (used_bytes == 0) {
		while (i < piece_count && !pieces[i].pinned_in)
			i++;
		bool failed = i < piece_count && !unpin_piece(&pieces[i]);
		are_left = !failed && is_any_pinned();
		if (!failed && !are_left)
			release_all();
	}
	pthread_mutex_unlock(&lock);
	return are_left;
}

void pager_host_release(void)
{
	pthread_mutex_lock(&lock);
	if (used_bytes == 0)
		release_all();
	pthread_mutex_unlock(&lock);
}

uint64_t pager_host_bytes(void)
{
	uint64_t bytes;

	pthread_mutex_lock(&lock);
	bytes = all_bytes;
	pthread_mutex_unlock(&lock);
	return bytes;
}

bool pager_host_has_lost_name(void)
{
	bool has_lost;

	pthread_mutex_lock(&lock);
	has_lost = file_name.number && !pager_file_is_named(file_fd, &file_name);
	pthread_mutex_unlock(&lock);
	return has_lost;
}

bool pager_host_is_named(void)
{
	bool is_named;

	pthread_mutex_lock(&lock);
	is_named = file_name.number != 0;
	pthread_mutex_unlock(&lock);
	return is_named;
}

void pager_host_reset(void)
{
	static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

	lock = fresh;
	close_file();
	file_bytes = 0;
	file_name = (struct pager_file){0};
	piece_count = 0;
	all_bytes = used_bytes = 0;
}
