// A program that maps a library named libcuda.so.1 for 0.3 seconds, as a program does that uses the driver.
#include <unistd.h>

extern const int virgate_test_standin;

int main(void)
{
	usleep(300000);
	return !virgate_test_standin;
}
