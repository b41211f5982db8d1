// Defines every function of NVML weakly. A strong definition in another file overrides it. The weak definitions read no
// argument, so all can have one type.
int sim_nvml_not_supported(void);

int sim_nvml_not_supported(void)
{
	return 3; // NVML_ERROR_NOT_SUPPORTED
}

#define NVML(name)      \
	int name(void); \
	__attribute__((weak, alias("sim_nvml_not_supported"), visibility("default"))) int name(void);
#include "abi/nvml.def"
