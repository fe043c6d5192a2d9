/*
 * lane.h - the work of one target in this daemon.
 *
 * outbox.dispatch_targets() says which targets there are; a lane is made
 * for each, with the artifact mounted from the verified store, the numbers
 * that apply to it, and a topic on the bus.  Concurrency belongs to the
 * subscriber and is shared by its lanes (an upgrade has two for a while).
 *
 * The lanes of an installation that is a worker share its processes and
 * their credits; a lane whose handler fails again and again is broken off.
 *
 * A lane that cannot be executed here is withdrawn: not offered, tried
 * again after LANE_RETRY_MS.  If its artifact is whole and only execve(2)
 * failed, it stays doubtful: one delivery at a time is claimed to try it,
 * but heartbeats do not offer it until one was executed.  A held lane is
 * offered but not claimed.  A target that is gone closes its topic and ends
 * once that is drained.  A target for which the bus has no topic left has no
 * lane until the targets are read again.
 */
#ifndef LANE_H
#define LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "breaker.h"
#include "headstart.h"
#include "log.h"
#include "manifest.h"
#include "policy.h"
#include "store.h"
#include "tuning.h"

#define LANE_RETRY_MS 30000

struct bus;
struct bus_owner;
struct config;

struct subscriber {
	TAILQ_ENTRY(subscriber) entry;
	char *id;
	int lanes;
	int busy; /* slots taken, all lanes */
	int at_work; /* the plan's: lanes */
	void *tally; /* its counters, which stats know; NULL: not yet */
};

/* What the lanes of one installation have in common. */
struct installation {
	TAILQ_ENTRY(installation) entry;
	char *plugin, *version, *digest;
	TAILQ_HEAD(, lane) own;
	int lanes;
	/* a worker's: calls may be claimed while taken < credits */
	void *pool; /* the host's; NULL: none, or not yet */
	int credits; /* told by the pool */
	int taken; /* have one, and their settle is not yet answered */
	int planned; /* the plan's */
	int64_t wanted, wanted_all; /* the plan's */
};

struct lane {
	TAILQ_ENTRY(lane) entry;
	TAILQ_ENTRY(lane) sibling; /* of its installation */
	int64_t target_id;
	char *plugin, *plugin_version;
	char *digest;
	char *handler, *handler_version;
	struct subscriber *subscriber;
	struct installation *installation;
	struct bus_owner *topic; /* <subscriber>/<target> on the bus */
	bool gone; /* no target any more; drains */
	bool wanted; /* active, or something is owed to it */
	bool retained; /* superseded: wanted only while something is owed */
	bool worker; /* its protocol, known once it was mounted */
	bool listed; /* in the answer that is being read */

	/* the artifact */
	bool mounted;
	struct manifest *manifest;
	char *dir;
	const char **argv; /* [0] is the file to execute */
	struct store_stamp stamp;
	int64_t mount_at_ms; /* not mounted: when to try again */
	char *mount_error; /* last said; NULL: none */
	bool doubtful; /* the last execve failed: tried, not offered */

	struct tuning tuning;
	struct policy_retry retry;
	int64_t max_runtime_ms; /* how far progress extends a call */
	struct breaker breaker;
	char break_reason[24]; /* outcome of the last failure */

	/* when to claim */
	int busy; /* deliveries that have a slot: soon to start, or running */
	int held; /* claimed ahead: on the topic, behind those that have one */
	int ahead; /* how many these may be now */
	struct headstart pace;
	bool give_back; /* what is held is to be released */
	int open; /* deliveries not yet ended, that is settled */
	int64_t hold_until_ms;
	int64_t back_off_ms;
	int64_t poll_at_ms; /* known to have nothing before that */
	int64_t poll_ms; /* between two looks; doubles while empty */
	int64_t need_bytes; /* its first is larger than what was free */
	int limit_cap; /* 0: none; halved by claims that raise or come late */

	/* for people */
	struct log_rate output_rate;
	uint64_t delivered, failed, paused;
	int64_t last_delivered_ms; /* 0: never */
	char last_outcome[24];
	char last_error[256]; /* of the last attempt that was no ack; cut */
	int64_t last_error_ms; /* 0: never */
};

TAILQ_HEAD(lane_list, lane);

struct lanes {
	struct bus *bus;
	const struct config *config;
	struct lane_list list; /* in the order of the round */
	void *by_target; /* tree of those that are not gone: tsearch(3) */
	TAILQ_HEAD(, subscriber) subscribers;
	TAILQ_HEAD(, installation) installations;
	size_t count;
	int busy; /* of all lanes that need a process each */
	int held; /* of all lanes */
	int workers; /* worker processes */
	int suspects; /* claimed and not yet ended; at most one */
};

/* One row of outbox.dispatch_targets(); strings are lent. */
struct lane_target {
	int64_t target_id;
	const char *subscriber;
	const char *plugin, *plugin_version;
	const char *digest;
	const char *handler, *handler_version;
	bool retained, owed;
};

void lanes_init(struct lanes *ls, struct bus *bus, const struct config *c);
void lanes_clear(struct lanes *ls); /* topics must be drained */
/* Nothing more is admitted; what is buffered is still received. */
void lanes_close(struct lanes *ls);

/* begin, each row, end: whoever is not named is gone. */
void lanes_update_begin(struct lanes *ls);
void lanes_update_row(struct lanes *ls, const struct lane_target *t,
    int64_t now_ms);
void lanes_update_end(struct lanes *ls);
/* Frees lanes that are gone and drained. */
void lanes_sweep(struct lanes *ls);

/* SIGHUP: new numbers, and what was withdrawn is tried again. */
void lanes_configure(struct lanes *ls, const struct config *c);
/* Mounts what is due to be tried again; true if any was. */
bool lanes_remount(struct lanes *ls, int64_t now_ms);
/* When the next remount is due; INT64_MAX: none. */
int64_t lanes_remount_at(const struct lanes *ls);

struct lane *lanes_find(struct lanes *ls, int64_t target_id);
/* The lane has had its turn: it goes to the end of the round. */
void lanes_rotate(struct lanes *ls, struct lane *l);

/* Checks the artifact again, before each start.  -1: now withdrawn. */
int lane_verify(struct lane *l, const struct config *c, int64_t now_ms);
void lane_withdraw(struct lane *l, const char *why, int64_t now_ms);
/* A handler could not be, or was, executed. */
void lane_not_executed(struct lane *l, const char *why, int64_t now_ms);
void lane_executed(struct lane *l);
void lane_hold(struct lane *l, int64_t until_ms);
/* A claim came too late to start one: the next brings less, or one passed. */
void lane_claim_less(struct lane *l);
void lane_claim_more(struct lane *l);
/* No resources: 100 ms, doubling to 10 s, until one starts again. */
void lane_back_off(struct lane *l, int64_t now_ms);

/* Slots of the subscriber and credits of the worker. */
int lane_free_slots(const struct lane *l);
/* How many may be claimed: for these, and ahead, as far as the breaker lets. */
int lane_room(const struct lane *l, int64_t now_ms);

/* It has had nothing for the last few looks, or another one holds it. */
#define LANE_IDLE_MS 16
bool lane_is_idle(const struct lane *l);
/* The same with so many free slots. */
int lane_room_of(const struct lane *l, int slots, int64_t now_ms);
/* What a lease must have left at the start: the whole deadline, the kill grace
 * and half of the settle margin; the other half may have gone by since the
 * claim was sent. */
int64_t lane_needs_ms(const struct lane *l, const struct config *c);
/* What it finishes in this time it may hold: dispatch.head_start, or half of
 * what its lease has to spare. */
int64_t lane_head_start_ms(const struct lanes *ls, const struct lane *l);
/* Held, or broken off, until then. */
int64_t lane_held_until(const struct lane *l);
/* A slot, a credit, and a process if it needs its own, are free for it. */
bool lane_can_start(const struct lanes *ls, const struct lane *l);
/* Nor is the last slot for another version of its handler, which would not
 * get one while this one takes up whatever falls free. */
bool lane_can_start_held(const struct lanes *ls, const struct lane *l,
    int64_t now_ms);
void lane_take_slot(struct lanes *ls, struct lane *l);
void lane_give_slot(struct lanes *ls, struct lane *l);
/* One is claimed.  True: it has a slot now; false: it is held. */
bool lane_claimed(struct lanes *ls, struct lane *l, int64_t now_ms);
/* One that was held is not any more. */
void lane_let_go(struct lanes *ls, struct lane *l);
/* The credit comes back: the settle is answered, or is not waited for. */
void lane_give_credit(struct lane *l);
/*
 * A quick lane waits for no settle, as long as no more than it may hold ahead
 * is to be settled.
 */
bool lane_settles_later(const struct lane *l);
/* How an attempt went, for the breaker; why is the outcome's name. */
void lane_break(struct lanes *ls, struct lane *l, enum breaker_end end,
    const char *why, int64_t now_ms);

#endif
