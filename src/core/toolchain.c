#include "driver/toolchain.h"

#include "core/core.h"
#include "core/error.h"
#include "core/object.h"
#include "virgate/toolchain.h"

enum vg_status vg_toolchain_find(enum vg_backend backend, struct vg_toolchain *ret_toolchain)
{
	VG_ENTRY();
	const struct vg_nvjitlink *nvjitlink;
	const struct vg_nvrtc *nvrtc;
	const struct vg_nvvm *nvvm;
	char problem[1000];
	int r = 0;

	CORE_NEEDED(ret_toolchain);
	switch (backend) {
	case VG_BACKEND_NVRTC:
		r = vg_nvrtc_load(&nvrtc, problem, sizeof problem);
		if (r == 0)
			*ret_toolchain = (struct vg_toolchain){nvrtc->path, nvrtc->major, nvrtc->minor};
		break;
	case VG_BACKEND_NVVM:
		r = vg_nvvm_load(&nvvm, problem, sizeof problem);
		if (r == 0)
			*ret_toolchain = (struct vg_toolchain){nvvm->path, nvvm->major, nvvm->minor};
		break;
	case VG_BACKEND_NVJITLINK:
		r = vg_nvjitlink_load(&nvjitlink, problem, sizeof problem);
		if (r == 0)
			*ret_toolchain = (struct vg_toolchain){nvjitlink->path, nvjitlink->major, nvjitlink->minor};
		break;
	case VG_BACKEND_DRIVER: {
		CORE_TRY(core_open());
		int version = core_driver_version();
		*ret_toolchain = (struct vg_toolchain){core_driver->path, version / 1000, version % 1000 / 10};
		break;
	}
	default:
		return vg_fail(VG_INVALID, 0, "there is no back end %d", (int)backend);
	}
	return r ? vg_fail(VG_NOT_FOUND, 0, "%s", problem) : VG_OK;
}
