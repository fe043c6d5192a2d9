/*
 * bus.c - the memory bus under any order of steps, callbacks included.
 *
 * Each byte of the input is a number that the model draws; at its end
 * everything is given back and nothing may be left.
 */
#include "../unit/busmodel.h"

struct source {
	const uint8_t *at, *end;
};

static unsigned
draw(void *arg, unsigned below)
{
	struct source *s = arg;

	return s->at < s->end ? *s->at++ % below : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source s = {.at = data, .end = data + size};
	struct model m;

	model_begin(&m, draw, &s);
	while (s.at < s.end) {
		model_step(&m);
		model_check(&m);
	}
	model_end(&m);
	return 0;
}
