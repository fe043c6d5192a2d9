#include "headstart.h"

#define WINDOW_MS 100
#define ROOM_MAX 100000

/* While a window lasts it can only say that the lane has become slower. */
static double
pace(const struct headstart *h, int64_t now_ms)
{
	int64_t ms = now_ms - h->since_ms;
	double per_s;

	if (h->since_ms == 0 || ms < WINDOW_MS)
		return h->per_s;
	per_s = (double)h->ended * 1000 / (double)ms;
	return per_s < h->per_s ? per_s : h->per_s;
}

void
headstart_ended(struct headstart *h, int64_t now_ms)
{
	int64_t ms = now_ms - h->since_ms;
	double per_s;

	if (h->since_ms == 0) {
		h->since_ms = now_ms;
		return;
	}
	h->ended++;
	if (ms < WINDOW_MS)
		return;
	per_s = (double)h->ended * 1000 / (double)ms;
	h->per_s =
	    h->per_s == 0 || per_s < h->per_s ? per_s : (h->per_s + per_s) / 2;
	h->since_ms = now_ms;
	h->ended = 0;
}

int
headstart_room(const struct headstart *h, int64_t ms, int64_t now_ms)
{
	double n = ms > 0 ? pace(h, now_ms) * (double)ms / 1000 : 0;

	return n < ROOM_MAX ? (int)n : ROOM_MAX;
}
