// Allocates memory inside a vGPU, or creates a vGPU. "tenant take MIB" allocates MIB with vg_vram. "tenant manage NAME
// LIMIT_MIB MIB" creates a shared vGPU NAME and allocates MIB in it. Both print "ready", or the error of the library,
// and stay until their standard input ends.
#include <virgate/virgate.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum vg_status take(const char *mib)
{
	struct vg_vram_handle handle;
	struct vg_vram *vram;

	enum vg_status status = vg_vram_open(NULL, &vram);
	return status ? status : vg_vram_allocate(vram, strtoull(mib, NULL, 10) << 20, NULL, &handle);
}

static enum vg_status manage(const char *name, const char *limit, const char *mib)
{
	struct vg_virtual_gpu_options options = {
		.size = sizeof options, .name = name, .memory_limit = strtoull(limit, NULL, 10) << 20, .shared = 1};
	struct vg_manager_options manager_options = {.size = sizeof manager_options};
	struct vg_virtual_gpu *vgpu;
	struct vg_manager *manager;
	struct vg_device *device;
	vg_address address;

	enum vg_status status = vg_node_open(NULL, &manager_options.node);
	if (status == VG_OK)
		status = vg_device_get(0, &device);
	if (status == VG_OK)
		status = vg_manager_create(device, &manager_options, &manager);
	if (status == VG_OK)
		status = vg_virtual_gpu_create(manager, &options, &vgpu);
	return status ? status : vg_virtual_gpu_allocate(vgpu, strtoull(mib, NULL, 10) << 20, 0, &address);
}

int main(int argc, char **argv)
{
	enum vg_status status = argc == 3 ? take(argv[2]) : argc == 5 ? manage(argv[2], argv[3], argv[4]) : VG_INVALID;
	char byte;

	puts(status ? vg_last_error()->text : "ready");
	fflush(stdout);
	while (read(0, &byte, 1) > 0)
		;
	// _exit() frees nothing, unlike a normal exit. So the daemon must refund the memory.
	_exit(status ? 1 : 0);
}
