// Reads and writes images. An image is a directory with virgate.json, which describes it; a directory of CRIU's files
// for each tree of processes, "tree-0" and so on; and a directory "device" for device memory (device_index.h). While an
// image is being written it is a draft, which has a temporary name. Then it is synced and renamed. So after a crash
// either the complete image exists, or no image. One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "virgate/checkpoint.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { IMAGE_VERSION = 2, IMAGE_VERSION_WITHOUT_PACKS = 1, IMAGE_MOST_TREES = 4096 };
#define IMAGE_DESCRIPTION "virgate.json"
#define IMAGE_PART ".part-"	 // part of a draft's name, before its unique suffix
#define IMAGE_PRECOPY ".precopy" // suffix of the directory beside an image for packs that arrive before the image

// The open directory of an image. Files are opened relative to the descriptor, so the files that are read are the ones
// that were checked, even if the path then leads elsewhere.
struct image_dir {
	int fd;
	const char *path; // for messages
};
// Opens an image. `path` may be a link, and must outlive *ret_dir. The caller closes the image with image_close().
// NOT_FOUND (no such directory), SYSTEM.
enum vg_status image_open(const char *path, struct image_dir *ret_dir);
// Duplicates an open image. SYSTEM.
enum vg_status image_open_again(const struct image_dir *dir, struct image_dir *ret_dir);
void image_close(struct image_dir *dir);

// ---- writing -----------------------------------------------------------------------------------------

struct image_sizes {
	uint64_t raw;	 // bytes before compression
	uint64_t stored; // bytes that are stored on the disk, without holes
};

struct image_draft {
	char final[PATH_MAX];	  // absolute path of the image
	char directory[PATH_MAX]; // temporary directory; "": the draft was published, or does not exist
	int lock;		  // descriptor of the directory, locked while the draft is written; 0: no directory
	json_t *files;		  // the list of files, as in virgate.json
	struct image_sizes sizes; // sums over all files in the list
	unsigned trees;
	// Options for writing trees. 0 is the default for each: no compression, and as many threads as processors.
	enum vg_compression compression;
	int level;
	unsigned threads;
	_Atomic uint64_t *progress; // incremented by the bytes that CRIU has written; may be NULL
};
// Creates a directory of mode 0700 beside `path`, and removes drafts of the same image whose writers were killed.
// EXISTS (`path` exists, and stays as it is), INVALID (not a name for an image), NO_MEMORY, SYSTEM.
enum vg_status image_begin(const char *path, struct image_draft *ret_draft);
// Adds sizes and checksums of the files to `description`, writes it, syncs everything and renames the directory.
// EXISTS, SYSTEM, INTEGRITY (a file is missing that every tree has). After a failure the draft still exists.
enum vg_status image_commit(struct image_draft *draft, json_t *description);
// Renames a draft whose files and `description` are complete. If `must_sync`, syncs everything first. Errors: see
// image_commit().
enum vg_status image_publish(struct image_draft *draft, const json_t *description, bool must_sync);
// Returns the directory of the draft, also after it was published. The draft owns the descriptor.
struct image_dir image_draft_dir(const struct image_draft *draft);
// Removes drafts of the image at `path` that killed processes left.
void image_sweep(const char *path);
// Removes the draft unless it was published, and frees its resources. Call it after every image_begin(), also a failed
// one.
void image_finish(struct image_draft *draft);

// ---- reading -----------------------------------------------------------------------------------------

// Reads virgate.json. The caller frees it with json_decref(). NOT_FOUND (no image), INTEGRITY (unreadable or damaged),
// UNSUPPORTED (a later version).
enum vg_status image_read(const struct image_dir *dir, json_t **ret_description);
// Parses the text of a virgate.json. `name` is for messages. Errors: see image_read().
enum vg_status image_parse(const char *text, size_t length, const char *name, json_t **ret_description);
// Checks who owns the image. DENIED (other-owner): a file of the image belongs to another user, or other users may
// write to it.
enum vg_status image_check_owner(const struct image_dir *dir);
// Reads all files and compares their checksums. Counts the bytes in `phase`. `phase` and ret_sizes may be NULL.
// INTEGRITY: a file differs, is missing, or is not listed. STATE: the progress function asked to stop.
enum vg_status image_verify(const struct image_dir *dir, const json_t *description, unsigned threads,
			    struct phase *phase, struct image_sizes *ret_sizes);
// Verifies an image like image_verify(), but skips packs for which `trusted[number]` is true: their blocks were read
// when the packs arrived. If `trusted` is NULL, reads all packs.
enum vg_status image_verify_arrival(const struct image_dir *dir, const json_t *description, const bool *trusted,
				    struct phase *phase);
// Verifies an image like image_verify(), but reads neither the pages of processes nor the packs. image_restore_tree()
// checks the pages before CRIU gets them, and device_in_fill() checks the blocks of the packs.
enum vg_status image_check(const struct image_dir *dir, const json_t *description, struct phase *phase,
			   struct image_sizes *ret_sizes);
// Checks an option of the public functions. INVALID: the number of threads, or the level of the compression, is out of
// range.
enum vg_status image_check_threads(unsigned threads);
enum vg_status image_check_compression(enum vg_compression compression, int level);
