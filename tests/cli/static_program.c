// A program without a dynamic linker, into which no library can be preloaded.
int main(void)
{
	return 0;
}
