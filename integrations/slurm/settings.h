// Reads the arguments that plugstack.conf gives to the plugin. One thread.
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct settings {
	char *runtime_dir;	 // the directory of the daemon's socket; NULL: the default directories
	char *libdir;		 // the directory of the interposer; NULL: the one of libvirgate
	char *simulate;		 // a specification of the simulated GPU; NULL: a real GPU
	char *config;		 // the configuration file that has the profiles; NULL: /etc/virgate/virgate.conf
	char *state_dir;	 // for refusals
	uint64_t shard_memory;	 // bytes of device memory that one gres/shard stands for; 0: shards are not compared
	bool gres_is_optional;	 // a job may have a vGPU without a GRES; then the daemon chooses the GPU
	bool comment_is_written; // write the usage of a vGPU into the comment of its job
};

// Reads the arguments. Reports invalid arguments in Slurm's log. Returns 0 or -EINVAL, -ENOMEM. The strings are never
// freed: a process reads the arguments once.
int settings_read(int count, char **arguments, struct settings *ret_settings);
