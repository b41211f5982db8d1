// An image: a directory with virgate.json, which describes it, a directory of CRIU's files for every tree of processes,
// "tree-0" and so on, and a directory "device" for device memory that CRIU does not write (device_index.h). It is
// written under a temporary name and renamed when all of it is on the disk: a crash leaves a complete image, or none.
// One thread.
#pragma once
#include "checkpoint/process/phase.h"
#include "virgate/checkpoint.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

enum { IMAGE_VERSION = 2, IMAGE_VERSION_WITHOUT_PACKS = 1, IMAGE_MOST_TREES = 4096 };
#define IMAGE_DESCRIPTION "virgate.json"
#define IMAGE_PART ".part-"	 // in a draft's name, before what tells it from others
#define IMAGE_PRECOPY ".precopy" // after the name of an image: packs that are transferred before it

// An image's directory, opened once: what is checked is what is read, whatever becomes of its path meanwhile.
struct image_dir {
	int fd;
	const char *path; // what messages call it
};
// `path`, which must outlive it, may be a link. NOT_FOUND (there is no directory), SYSTEM. To be closed.
enum vg_status image_open(const char *path, struct image_dir *ret_dir);
// Another descriptor of the same directory. SYSTEM.
enum vg_status image_open_again(const struct image_dir *dir, struct image_dir *ret_dir);
void image_close(struct image_dir *dir);

// ---- writing -----------------------------------------------------------------------------------------

struct image_sizes {
	uint64_t raw;	 // what CRIU wrote
	uint64_t stored; // what of it lies on the disk
};

struct image_draft {
	char final[PATH_MAX];	  // absolute
	char folder[PATH_MAX];	  // where it is written; "": it has its own name, or there is none
	int lock;		  // of its directory, held while it is written; 0: there is none
	json_t *files;		  // what stands in it, as virgate.json will say
	struct image_sizes sizes; // of that
	unsigned trees;
	// For who writes the trees; all 0: nothing is compressed, by as many threads as there are processors.
	enum vg_compression compression;
	int level;
	unsigned threads;
	_Atomic uint64_t *progress; // what CRIU has written is added to it; NULL: nobody looks
};
// Makes a folder of mode 0700 beside `path`, and removes those that killed writers of the same image left there. EXISTS
// (there is something at `path`: it is left as it is), INVALID (no name for an image), NO_MEMORY, SYSTEM.
enum vg_status image_begin(const char *path, struct image_draft *ret_draft);
// Adds the files' sizes and checksums to `description`, writes it, brings all to the disk and moves the folder. EXISTS,
// SYSTEM, INTEGRITY (CRIU did not write what every tree has); the draft then still stands.
enum vg_status image_commit(struct image_draft *draft, json_t *description);
// For a draft whose files and `description` are all there: brings all to the disk, if asked (`settled`), and moves the
// folder. As image_commit().
enum vg_status image_publish(struct image_draft *draft, const json_t *description, bool settled);
// The draft's directory, also after it was published; the draft's to close.
struct image_dir image_draft_dir(const struct image_draft *draft);
// Removes drafts of that image that nobody writes any more.
void image_sweep(const char *path);
// Removes the draft with all that is in it, unless it was committed; frees what it holds. Needed after every
// image_begin().
void image_finish(struct image_draft *draft);

// ---- reading -----------------------------------------------------------------------------------------

// What virgate.json says; to be given back with json_decref(). NOT_FOUND (no image), INTEGRITY (unreadable, damaged),
// UNSUPPORTED (of a later version).
enum vg_status image_read(const struct image_dir *dir, json_t **ret_description);
// The same of a text. `name`: what errors call it.
enum vg_status image_parse(const char *text, size_t length, const char *name, json_t **ret_description);
// DENIED (other-owner): any of it is somebody else's, or others may write to it.
enum vg_status image_check_owner(const struct image_dir *dir);
// Reads all files again. INTEGRITY: which one differs, is missing, or is too many, and where; STATE: somebody wants to
// stop. `phase`, into which it counts, and ret_sizes may be NULL.
enum vg_status image_verify(const struct image_dir *dir, const json_t *description, unsigned threads,
			    struct phase *phase, struct image_sizes *ret_sizes);
// The same, but skips packs for which `trusted[number]` is true: their blocks were read when the packs arrived. NULL:
// reads all packs.
enum vg_status image_verify_arrival(const struct image_dir *dir, const json_t *description, const bool *trusted,
				    struct phase *phase);
// The same but for the pages of processes: those image_restore_tree() looks at before it gives them to CRIU.
enum vg_status image_check(const struct image_dir *dir, const json_t *description, struct phase *phase,
			   struct image_sizes *ret_sizes);
// INVALID: no such number of threads, or no such level of the method.
enum vg_status image_check_threads(unsigned threads);
enum vg_status image_check_compression(enum vg_compression compression, int level);
