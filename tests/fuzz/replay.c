/*
 * replay FILE... - a fuzz target without libFuzzer: each file once.
 *
 * The name is printed before the file is tried, as libFuzzer does it, so that
 * the last one is the one that failed.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try_file(const char *name)
{
	static uint8_t bytes[1024 * 1024];
	FILE *f = fopen(name, "rb");
	size_t n;

	printf("Running: %s\n", name);
	fflush(stdout);
	if (f == NULL) {
		fprintf(stderr, "%s: %s\n", name, strerror(errno));
		exit(66);
	}
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	LLVMFuzzerTestOneInput(bytes, n);
}

int
main(int argc, char *argv[])
{
	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-') {
			fprintf(stderr,
			    "%s: built without libFuzzer: files"
			    " only\n",
			    argv[0]);
			return 69;
		}
		try_file(argv[i]);
	}
	return 0;
}
