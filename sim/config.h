// Reads the configuration of the simulated node from VIRGATE_SIM and VIRGATE_SIM_DIR. Any thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIM_DEVICES = 16, SIM_SMS = 256, SIM_NAME = 32 };
#define SIM_DEVICE_NAME "Virgate Simulated GPU"

// The compute modes of a device. The numbers are those of NVML.
enum sim_mode { SIM_MODE_DEFAULT = 0, SIM_MODE_PROHIBITED = 2, SIM_MODE_EXCLUSIVE = 3 };

struct sim_config {
	unsigned devices, sms, cc_major, cc_minor, driver;
	unsigned peers;		  // 1: the devices can access each other's memory
	uint64_t memory, context; // bytes of a device's memory, and bytes that a context takes
	char names[SIM_DEVICES][SIM_NAME];
	enum sim_mode mode;    // which processes may have contexts
	unsigned mig;	       // 1: MIG is on; each device has one instance
	unsigned mps;	       // 1: processes are clients of MPS
	unsigned persistence;  // 1: on
	unsigned giveup;       // 1: each checkpoint of the process fails, and the state becomes CU_PROCESS_STATE_FAILED
	unsigned overcommit;   // 1: allocations of device memory reserve no space on the file system
	uint64_t slice_ns;     // contexts get the device's time in slices of this length; 0: they run at the same time
	uint64_t switch_ns;    // how long a switch between contexts takes
	unsigned copy_engines; // 1: one engine copies in both directions
	char directory[256];   // the directory with the files that the simulated node's processes share
};

enum sim_config_status {
	SIM_CONFIG_UNSET = 1, // VIRGATE_SIM is unset, empty or 0
	SIM_CONFIG_BAD = 2,   // `problem` contains a message for the user
};

// Reads the configuration from the environment. Does not create the directory. Returns 0 or a sim_config_status.
int sim_config_read(struct sim_config *ret_config, char *problem, size_t capacity);
// Parses "500us", "2ms" or "1.5s", up to an hour. Returns false if the text is invalid.
bool sim_duration_parse(const char *text, uint64_t *ret_ns);
// Parses a specification ("1" or "devices=2,memory=8G,…"). Returns 0 or SIM_CONFIG_BAD.
int sim_config_parse(const char *spec, struct sim_config *ret_config, char *problem, size_t capacity);
