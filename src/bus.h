/*
 * bus.h - the memory event bus: bounded hand-off of JSON texts.
 *
 * One budget, shared by all topics, is charged from reservation until the
 * receiver is done with what it got (here: until the settle of a delivery is
 * answered), so a slow plugin or a slow database slows claiming down instead
 * of growing memory.  A topic is a lane.
 *
 * Budget.  A bus is made without one, and answers BUS_UNCONFIGURED until
 * bus_configure() gives it once and for all.  At every instant
 *     reserved + buffered + in flight <= max_items, and
 *     the sum of the reserved bounds  <= max_json_bytes,
 * where a bound counts as it was reserved, never as the smaller real size.
 * Waiting reserves and receives together are at most max_waiters, owners at
 * most max_consumers, generations at most max_topics, and their names at most
 * max_topic_name_bytes; the last two count retired generations for as long as
 * something of them is held.
 *
 * Topics.  bus_open() joins the open generation of a name, or begins one.
 * The owners of a generation compete for what is sent to it; exactly one gets
 * each, in the order of the sends.  bus_close() ends the admission of the
 * whole generation: what is buffered is still received, old permits send
 * nothing but stay charged until they are dropped, producers that wait are
 * answered BUS_CLOSED, and receivers BUS_DRAINED once nothing is left, which
 * is not BUS_EMPTY.  When its last owner leaves, a generation terminates:
 * what is buffered is discarded and counted, and if it was not closed and
 * drained that is an abnormal termination.  What is still held of it (bundles,
 * permits, items in flight) keeps it, retired, until it is given back, and
 * never enters a later generation of the same name.
 *
 * Reserving.  The answer is the first that is true of: BUS_UNCONFIGURED;
 * BUS_NO_CONSUMER, the topic has no owner (it is never made by this);
 * BUS_CLOSED; BUS_EXHAUSTED, the whole budget is too small; BUS_OK; without
 * a struct bus_wait BUS_ELAPSED; BUS_EXHAUSTED, no waiter more;
 * BUS_ELAPSED, the deadline is not later than now; BUS_WAITING.  A waiter
 * is looked at again after every change, and told BUS_OK, BUS_CLOSED or, at
 * its deadline, BUS_ELAPSED.
 *
 * Sizes are known only after the claim, so a reservation is a bundle of
 * items and bytes; bus_split() takes a permit for one item out of it, never
 * beyond the whole, and bus_cancel() gives back what is left.  A bundle
 * without a topic (name NULL) is for whichever topics its permits are split
 * for; it waits in a line of its own, as if it were a topic.  A permit is
 * used once: whatever bus_send() answers, it is spent.  The text is measured
 * when it is sent, as a whole, against the permit.
 *
 * Fairness.  Within a topic: first come, first served, whatever the sizes;
 * nobody waits longer than BUS_WAIT_MAX_MS, so nobody is blocked for ever.
 * Between topics: what fits may pass what does not, so that a large waiter
 * costs the small ones nothing at first; but after BUS_PASSES grants past
 * the oldest waiter of all, the bus saves for it: nobody else gets anything
 * until it has, at most BUS_SAVE_MS long.  Then as many may pass again, then
 * it is saved for twice as long, and so on up to BUS_WAIT_MAX_MS.  So a
 * large waiter has its turn once the charges of its time have ended, and the
 * small ones go on even beside a charge that never does.
 *
 * Callbacks come from the end of a call of this module, one after the other,
 * never from within the bus_reserve() or bus_receive() that began the wait,
 * and never while another runs.  A callback may do anything: reserve, wait
 * again with the same struct or free it, cancel, close, leave, free the bus.
 * One call tells at most 1024 waiters, so that callbacks which give and take
 * in a ring cannot hold it; what is left over comes with the next call, and
 * bus_next_ms() says so.
 *
 * Time is told by bus_tick() and never goes back; the other calls happen at
 * the time that was told last.
 *
 * Ownership: items and struct bus_wait are the caller's memory and must stay
 * while the bus has them.  bundles and permits are moved, never copied.
 *
 * Pure: no I/O, no clock.  A broken count is a panic.
 */
#ifndef BUS_H
#define BUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#define BUS_PASSES 64
#define BUS_SAVE_MS 1000
#define BUS_WAIT_MAX_MS 3600000

struct bus;
struct bus_owner;
struct bus_topic; /* one generation */

enum bus_rc {
	BUS_OK,
	BUS_WAITING, /* the struct bus_wait will be told */
	BUS_EMPTY, /* nothing is buffered now */
	BUS_DRAINED, /* closed, and nothing will come any more */
	BUS_UNCONFIGURED,
	BUS_NO_CONSUMER,
	BUS_CLOSED,
	BUS_EXHAUSTED, /* ResourceExhausted */
	BUS_ELAPSED, /* DeadlineElapsed */
	BUS_EXCEEDED, /* BodyExceedsReservation */
	BUS_CONFLICT, /* BudgetConflict */
};

struct bus_limits {
	size_t max_items;
	size_t max_json_bytes;
	size_t max_waiters;
	size_t max_topics;
	size_t max_consumers;
	size_t max_topic_name_bytes;
};

struct bus_bundle {
	struct bus *bus; /* NULL: given back, or never granted */
	struct bus_topic *topic; /* NULL: of no topic */
	size_t items;
	size_t bytes;
};

struct bus_permit {
	struct bus_topic *topic; /* NULL: spent */
	size_t bytes;
};

enum bus_state {
	BUS_ITEM_FREE, /* the bus does not know it */
	BUS_ITEM_BUFFERED,
	BUS_ITEM_IN_FLIGHT,
	BUS_ITEM_DISCARDED, /* its body waits to be handed to discard() */
};

/* Embedded in what is sent.  Text and length are the caller's, and must not
 * change while the item is on the bus; the rest is the bus's. */
struct bus_item {
	const char *json; /* the serialised text */
	size_t json_bytes;

	TAILQ_ENTRY(bus_item) entry; /* all that are charged, as sent */
	TAILQ_ENTRY(bus_item) aged; /* those in the same state */
	TAILQ_ENTRY(bus_item) queued; /* of its topic, buffered */
	struct bus_topic *topic;
	enum bus_state state;
	size_t charged_bytes;
	uint64_t seq; /* its number, by send; never used again */
	int64_t since_ms; /* in this state */
	bool picked; /* for a receiver that is not told yet */
};

/* A reserve or receive that waits.  All zero before its first use; told, arg
 * and deadline_ms are set before each.  told() finds the answer in rc and, if that is BUS_OK, in bundle or item. */
struct bus_wait {
	void (*told)(struct bus_wait *w);
	void *arg;
	int64_t deadline_ms;

	enum bus_rc rc;
	struct bus_bundle bundle;
	struct bus_item *item;

	TAILQ_ENTRY(bus_wait) entry; /* all that wait, or are to be told */
	TAILQ_ENTRY(bus_wait) queued; /* of the same topic */
	struct bus *bus; /* NULL: does not wait */
	struct bus_topic *topic;
	struct bus_owner *owner; /* NULL: reserves */
	size_t items, bytes;
	uint64_t seq;
	int64_t since_ms;
	bool answered; /* to be told */
};

struct bus_stats {
	bool configured; /* false: limits are 0 */
	struct bus_limits limits;
	size_t reserved, buffered, in_flight; /* items */
	size_t charged_json_bytes;
	size_t waiters;
	size_t consumers;
	size_t topics; /* generations of every kind */
	size_t closed_topics; /* closed, with an owner that drains */
	size_t retired_topics; /* without owner, something of it is held */
	size_t topic_name_bytes;
	int64_t oldest_waiter_age_ms; /* ages are 0 when there is none */
	int64_t oldest_buffered_age_ms;
	int64_t oldest_in_flight_age_ms;
	uint64_t admission_rejected; /* errors of reserve and send */
	uint64_t accepted; /* sent */
	uint64_t received;
	uint64_t processing_released;
	uint64_t abnormal_terminations;
	uint64_t discarded_buffered;
};

/* --- life ------------------------------------------------------------- */

/* discard() gets what was buffered when its generation terminated; it is off
 * the bus by then.  NULL: nobody wants it. */
struct bus *bus_create(void (*discard)(void *arg, struct bus_item *i),
    void *arg);
/* NULL allowed; panics if anything is charged, owned or waits. */
void bus_free(struct bus *b);
/* The same again is BUS_OK; another budget is BUS_CONFLICT. */
enum bus_rc bus_configure(struct bus *b, const struct bus_limits *l);

/* Tells the time: answers the waiters whose deadline has come. */
void bus_tick(struct bus *b, int64_t now_ms);
/* When bus_tick() has something to do; INT64_MAX: nothing. */
int64_t bus_next_ms(const struct bus *b);

/* --- topics ----------------------------------------------------------- */

/* BUS_OK, BUS_UNCONFIGURED or BUS_EXHAUSTED. */
enum bus_rc bus_open(struct bus *b, const char *name, struct bus_owner **out);
void bus_close(struct bus_owner *o); /* the whole generation; again is fine */
/* Closed, and nothing of it buffered. */
bool bus_drained(const struct bus_owner *o);
/* The handle ends.  What this owner waits for is answered BUS_CLOSED; what
 * it has received stays charged.  NULL is allowed. */
void bus_leave(struct bus_owner *o);
struct bus_topic *bus_topic(const struct bus_owner *o);
const char *bus_topic_name(const struct bus_topic *t);
uint64_t bus_topic_generation(const struct bus_topic *t);
size_t bus_buffered(const struct bus_owner *o); /* of its generation */

/* --- producers -------------------------------------------------------- */

/* w is NULL where nobody wants to wait.  *out is set by BUS_OK alone. */
enum bus_rc bus_reserve(struct bus *b, const char *name, size_t items,
    size_t bytes, struct bus_wait *w, struct bus_bundle *out);
/* to: an owner of the generation it is for, or NULL for a bundle that has a
 * topic.  BUS_OK, BUS_CLOSED, BUS_EXCEEDED for more than is left, or
 * BUS_NO_CONSUMER if to is of another generation or missing; unless it is
 * BUS_OK the bundle stays as it was. */
enum bus_rc bus_split(struct bus_bundle *from, struct bus_owner *to,
    size_t bytes, struct bus_permit *out);
void bus_cancel(struct bus_bundle *rest); /* again is fine */
/* BUS_OK, BUS_CLOSED or BUS_EXCEEDED, which is also a spent permit's. */
enum bus_rc bus_send(struct bus_permit *p, struct bus_item *i);
void bus_drop(struct bus_permit *p); /* again is fine */

/* --- receivers -------------------------------------------------------- */

/* BUS_OK, BUS_DRAINED; without w BUS_EMPTY; BUS_EXHAUSTED, no waiter more;
 * BUS_ELAPSED; BUS_WAITING. */
enum bus_rc bus_receive(struct bus_owner *o, struct bus_wait *w,
    struct bus_item **out);
/* Both end the charge of what was received; true for the first of them alone.
 * Neither says how the business went, and nothing is ever sent anew. */
bool bus_complete(struct bus_item *i);
bool bus_abandon(struct bus_item *i);
static inline bool
bus_holds(const struct bus_item *i)
{
	return i->topic != NULL;
}

/* Waits no more, and is not told; what it was about to be given goes back.
 * One that does not wait may be given: nothing happens. */
void bus_cancel_wait(struct bus_wait *w);

/* --- seen from outside ------------------------------------------------ */

/* What a reservation without a topic would be granted now. */
size_t bus_free_items(const struct bus *b);
size_t bus_free_bytes(const struct bus *b);
void bus_stat(const struct bus *b, struct bus_stats *out);
/* The charged item with the least number greater than after, which need not
 * be that of an item; NULL: none.  Nothing is consumed; valid until the next
 * call that is not const. */
const struct bus_item *bus_item_after(const struct bus *b, uint64_t after);
const struct bus_item *bus_item_next(const struct bus_item *i);
int64_t bus_age_ms(const struct bus *b, const struct bus_item *i);
const char *bus_rc_name(enum bus_rc rc); /* "ResourceExhausted" */
const char *bus_state_name(enum bus_state s);

#endif
