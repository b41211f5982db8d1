// Has a library called libcuda.so.1 mapped for a while.
#include <unistd.h>

extern const int virgate_test_standin;

int main(void)
{
	usleep(300000);
	return !virgate_test_standin;
}
