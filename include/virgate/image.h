/* Lists and describes images of processes, which vg_checkpoint_dump() writes. Needs neither a driver nor CRIU. Does
 * not trust images: checks every value in virgate.json before it returns the value. Any thread. */
#ifndef VIRGATE_IMAGE_H
#define VIRGATE_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <virgate/checkpoint.h>
#include <virgate/status.h>
#include <virgate/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vg_image_state {
	VG_IMAGE_WHOLE,
	VG_IMAGE_PART,	    /* not an image: a dump writes there now, or was killed while it wrote */
	VG_IMAGE_UNREADABLE /* `problem` says why */
};
/* Returns the name of a state: "whole", "part", "unreadable". */
VG_PUBLIC const char *vg_image_state_name(enum vg_image_state state);

struct vg_image {
	const char *dir;
	enum vg_image_state state;
	const char *problem; /* NULL: none */
	double created;	     /* seconds since the epoch; this and the following members are set for whole images only */
	const char *command; /* name of the first root process, as the process set it */
	const char *vgpu;    /* name of the first vGPU that the processes were in; NULL: none */
	size_t processes, cuda_processes;
	size_t gpus;	    /* number of GPUs that the processes used; if that is unknown, of all GPUs of the machine */
	uint64_t bytes;	    /* bytes that the image takes on the disk */
	uint64_t raw_bytes; /* size before zero pages were omitted and the rest was compressed */
	enum vg_compression compression;
};
struct vg_image_list {
	size_t count;
	struct vg_image *images; /* sorted by name */
};
/* Lists `root` if it is an image, and all images below it, down to eight directories deep. Links are not followed.
 * NOT_FOUND, DENIED, SYSTEM (the directory cannot be read), NO_MEMORY. */
VG_PUBLIC enum vg_status vg_image_list(const char *root, struct vg_image_list **ret_list);
/* Frees the list. Accepts NULL. */
VG_PUBLIC void vg_image_list_free(struct vg_image_list *list);

/* Returns the text of virgate.json, whose keys virgate-image(5) lists. The caller frees it. NOT_FOUND (no image),
 * INTEGRITY (which key is missing or wrong), UNSUPPORTED (of a later version), NO_MEMORY. */
VG_PUBLIC enum vg_status vg_image_inspect(const char *dir, char **ret_json);

struct vg_image_verify_options {
	size_t size;	  /* sizeof(struct vg_image_verify_options) */
	unsigned threads; /* number of threads, up to 256; 0: the number of processors, at most 16 */
	vg_checkpoint_progress_fn *progress;
	void *user;
};
/* Reads the whole image, and checks that it is unchanged: every bit is as written, and no file is missing or was
 * added. `options` may be NULL. NOT_FOUND (no image), INTEGRITY (which file, and where in it), UNSUPPORTED (of a
 * later version), INVALID, STATE (stopped by `progress`), NO_MEMORY, SYSTEM. */
VG_PUBLIC enum vg_status vg_image_verify(const char *dir, const struct vg_image_verify_options *options);

#ifdef __cplusplus
}
#endif
#endif
