// Tests which directory a simulated node gets: each specification (VIRGATE_SIM) has a directory of its own.
#include "config.h"
#include "test.h"

static const char *read_directory(const char *spec, struct sim_config *config)
{
	char problem[256];

	setenv("VIRGATE_SIM", spec, 1);
	CHECK_INT(sim_config_read(config, problem, sizeof problem), 0);
	return config->directory;
}

TEST(each_specification_has_a_node_of_its_own)
{
	struct sim_config first, second;

	unsetenv("VIRGATE_SIM_DIR");
	CHECK_STR(read_directory("memory=2G,sms=4", &first), read_directory("memory=2G,sms=4", &second));
	// A specification that is spelled differently gets a simulated node of its own, with its own daemon, even if it
	// describes the same devices.
	CHECK(strcmp(read_directory("sms=4,memory=2G", &second), first.directory) != 0);
	CHECK(strcmp(read_directory("1", &first), read_directory("memory=8G", &second)) != 0);
}

TEST(the_environment_sets_the_directory)
{
	struct sim_config config;

	setenv("VIRGATE_SIM_DIR", "/somewhere", 1);
	CHECK_STR(read_directory("1", &config), "/somewhere");
}
