// Which folder a specification's node has.
#include "config.h"
#include "test.h"

static const char *folder_of(const char *spec, struct sim_config *config)
{
	char problem[256];

	setenv("VIRGATE_SIM", spec, 1);
	CHECK_INT(sim_config_read(config, problem, sizeof problem), 0);
	return config->folder;
}

TEST(each_specification_has_a_node_of_its_own)
{
	struct sim_config first, second;

	unsetenv("VIRGATE_SIM_DIR");
	CHECK_STR(folder_of("memory=2G,sms=4", &first), folder_of("memory=2G,sms=4", &second));
	// Its daemon is another one, too.
	CHECK(strcmp(folder_of("sms=4,memory=2G", &second), first.folder) != 0);
	CHECK(strcmp(folder_of("1", &first), folder_of("memory=8G", &second)) != 0);
}

TEST(the_environment_may_name_the_folder)
{
	struct sim_config config;

	setenv("VIRGATE_SIM_DIR", "/somewhere", 1);
	CHECK_STR(folder_of("1", &config), "/somewhere");
}
