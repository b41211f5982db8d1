#include "compute/registry_read.h"

#include "core/error.h"
#include "core/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Reads a whole file. Does not map the file, because another process may truncate it meanwhile.
static int read_file(const char *path, char **ret_data, size_t *ret_size)
{
	struct stat stat;
	size_t size = 0;
	ssize_t got = 1;

	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int r = fstat(fd, &stat) ? -errno : S_ISREG(stat.st_mode) ? 0 : -EBADMSG;
	char *data = r ? NULL : malloc((size_t)stat.st_size + 1);
	while (data && size < (size_t)stat.st_size && got > 0) {
		got = read(fd, data + size, (size_t)stat.st_size - size);
		size += got > 0 ? (size_t)got : 0;
	}
	if (r == 0 && (!data || got < 0))
		r = data ? -errno : -ENOMEM;
	close(fd);
	if (r) {
		free(data);
		return r;
	}
	*ret_data = data;
	*ret_size = size;
	return 0;
}

static struct code_report make_unknown_report(const char *reason)
{
	struct code_report report = {.tensor = CODE_UNKNOWN, .mixed = CODE_UNKNOWN};

	snprintf(report.reason, sizeof report.reason, "%s", reason);
	return report;
}

// Inspects the code. Returns NULL if the code cannot be read. That is no error: the report contains the reason.
static struct code_image *read_image(struct vg_object_code *code, unsigned architecture, struct code_report *ret_report)
{
	struct code_image *image = NULL;
	char *file = NULL;
	size_t size = code->size;

	int r = code->data ? 0 : read_file(code->path, &file, &size);
	if (r == 0)
		r = code_image_create(file ? file : code->data, size, architecture, &image);
	free(file);
	if (r)
		*ret_report =
			make_unknown_report(r == -EBADMSG ? "it is damaged, or of an unknown format" : strerror(-r));
	return image;
}

static struct compute_entry *create_entry(const char *name, struct vg_kernel *kernel, const struct code_image *image,
					  const char *symbol, const struct code_report *otherwise)
{
	static _Atomic(uint64_t) serials;
	struct compute_entry *entry = malloc(sizeof *entry + strlen(name) + 1);

	if (!entry)
		return NULL;
	atomic_init(&entry->references, 1);
	entry->serial = atomic_fetch_add(&serials, 1) + 1;
	entry->kernel = kernel;
	strcpy(entry->name, name);
	entry->report = *otherwise;
	if (image && code_image_inspect(image, symbol, &entry->report))
		entry->report = make_unknown_report("the code that was read has no kernel of this name");
	return entry;
}

static enum vg_status fail_no_memory(size_t count)
{
	return vg_fail(VG_NO_MEMORY, 0, "no memory for %zu kernels", count);
}

enum vg_status compute_read_kernel(const char *name, struct vg_kernel *kernel, unsigned architecture,
				   struct compute_entry **ret_entry)
{
	struct code_report report = make_unknown_report("it was borrowed from other code than the library's own");
	struct code_image *image = kernel->code ? read_image(kernel->code, architecture, &report) : NULL;

	core_object_retain(&kernel->object);
	struct compute_entry *entry = create_entry(name, kernel, image, vg_kernel_name(kernel), &report);
	code_image_destroy(image);
	if (!entry) {
		vg_kernel_destroy(kernel);
		return fail_no_memory(1);
	}
	*ret_entry = entry;
	return VG_OK;
}

static enum vg_status read_handle(CUkernel handle, struct vg_object_code *code, const struct code_image *image,
				  const struct code_report *otherwise, struct compute_entry **ret_entry)
{
	struct vg_kernel *kernel;
	const char *symbol;

	CUresult r = core_driver->cuKernelGetName(&symbol, handle);
	if (r)
		return core_driver_failed(r, "cuKernelGetName", "of %s", code->title);
	enum vg_status status = core_kernel_create(handle, code, symbol, &kernel);
	if (status)
		return status;
	*ret_entry = create_entry(core_code_expression(code, symbol), kernel, image, symbol, otherwise);
	if (*ret_entry)
		return VG_OK;
	vg_kernel_destroy(kernel);
	return fail_no_memory(1);
}

static enum vg_status list_handles(struct vg_object_code *code, CUkernel **ret_handles, unsigned *ret_count)
{
	CUlibrary library;
	unsigned count;

	enum vg_status status = vg_object_code_handle(code, &library);
	if (status)
		return status;
	CUresult r = core_driver->cuLibraryGetKernelCount(&count, library);
	if (r)
		return core_driver_failed(r, "cuLibraryGetKernelCount", "of %s", code->title);
	if (count == 0)
		return vg_fail(VG_NOT_FOUND, 0, "%s has no kernel", code->title);
	CUkernel *handles = calloc(count, sizeof *handles);
	if (!handles)
		return fail_no_memory(count);
	r = core_driver->cuLibraryEnumerateKernels(handles, count, library);
	if (r) {
		free(handles);
		return core_driver_failed(r, "cuLibraryEnumerateKernels", "of %s", code->title);
	}
	*ret_handles = handles;
	*ret_count = count;
	return VG_OK;
}

enum vg_status compute_read_code(struct vg_object_code *code, unsigned architecture,
				 struct compute_entry ***ret_entries, size_t *ret_count)
{
	struct code_report report = {.tensor = CODE_UNKNOWN, .mixed = CODE_UNKNOWN};
	CUkernel *handles = NULL;
	unsigned count = 0, done = 0;

	enum vg_status status = list_handles(code, &handles, &count);
	if (status)
		return status;
	struct code_image *image = read_image(code, architecture, &report);
	struct compute_entry **entries = calloc(count, sizeof *entries);
	if (!entries)
		status = fail_no_memory(count);
	while (status == VG_OK && done < count) {
		status = read_handle(handles[done], code, image, &report, &entries[done]);
		done += status == VG_OK;
	}
	code_image_destroy(image);
	free(handles);
	if (status == VG_OK) {
		*ret_entries = entries;
		*ret_count = count;
		return VG_OK;
	}
	while (done)
		compute_entry_release(entries[--done]);
	free(entries);
	return status;
}
