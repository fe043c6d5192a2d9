#include "overview.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "admin.h"
#include "bus.h"
#include "claimer.h"
#include "depth.h"
#include "lane.h"
#include "loop.h"
#include "pgconn.h"
#include "pool.h"
#include "runner.h"
#include "settler.h"
#include "xalloc.h"

/* --- duties ----------------------------------------------------------- */

void
overview_duties(const struct stats_view *v, struct duties *d, int64_t now_ms)
{
	const struct claimer_stats *c = claimer_stats(v->claimer);
	bool up = pgconn_is_up(v->claim);

	duty_answered(d, pgconn_answered_ms(v->claim));
	duty_answered(d, pgconn_answered_ms(v->settle));
	duty_done(d, DUTY_CLAIM, c->last_claim_ms);
	duty_turn(d, DUTY_CLAIM, c->last_turn_ms);
	duty_owe(d, DUTY_CLAIM, v->ready && up, now_ms);
	duty_done(d, DUTY_SETTLE, settler_last_ok_ms(v->settler));
	duty_turn(d, DUTY_SETTLE, settler_last_turn_ms(v->settler));
	duty_owe(d, DUTY_SETTLE,
	    settler_backlog(v->settler) > 0 && pgconn_is_up(v->settle), now_ms);
	duty_done(d, DUTY_REAP, c->last_reap_ms);
	duty_done(d, DUTY_WAKE, c->last_wake_ms);
	duty_done(d, DUTY_HEARTBEAT, c->last_beat_ms);
	duty_owe(d, DUTY_HEARTBEAT, up, now_ms);
}

static void
take_duties(const struct stats_view *v, struct snapshot *s, int64_t now)
{
	for (int i = 0; i < DUTIES; i++)
		s->duties[i] = (struct snapshot_duty){
		    .age_ms = duty_age_ms(v->duties, (enum duty)i, now),
		    .overdue = duty_is_overdue(v->duties, (enum duty)i,
			v->duty_limit_ms, now),
		};
}

/* --- everything else -------------------------------------------------- */

static int64_t
age_ms(int64_t then, int64_t now)
{
	return then > 0 ? now - then : -1;
}

static int64_t
left_ms(int64_t until, int64_t now)
{
	return until > now ? until - now : 0;
}

static void
take_link(struct snapshot *s, const char *name, const struct pgconn *pg)
{
	s->links[s->n_links++] = (struct snapshot_link){
	    .name = name,
	    .state = pgconn_state(pg),
	    .host = pgconn_host(pg),
	    .up = pgconn_is_up(pg),
	    .lost = pgconn_times_lost(pg),
	};
}

static void
take_depth(struct snapshot_lane *to, const struct depth *depth)
{
	const struct depth_row *row =
	    depth != NULL ? depth_find(depth, to->target_id) : NULL;

	if (row == NULL)
		return;
	to->depth_known = true;
	to->pending = row->pending;
	to->claimed = row->claimed;
	to->held_back = row->paused;
	to->oldest_ms = row->oldest_ms;
}

static void
take_lane(struct snapshot_lane *to, const struct lane *l, int64_t now)
{
	*to = (struct snapshot_lane){
	    .target_id = l->target_id,
	    .subscriber = l->subscriber->id,
	    .plugin = l->plugin,
	    .version = l->plugin_version,
	    .available = l->mounted && !l->doubtful,
	    .gone = l->gone,
	    .in_flight = l->busy,
	    .concurrency = l->tuning.concurrency,
	    .held = l->held,
	    .held_ms = left_ms(l->hold_until_ms, now),
	    .breaker = breaker_state_name(l->breaker.state),
	    .break_reason = l->break_reason,
	    .breaker_failures = l->breaker.failures,
	    .breaker_open_ms = left_ms(l->breaker.open_until_ms, now),
	    .delivered = l->delivered,
	    .failed = l->failed,
	    .paused = l->paused,
	    .delivered_age_ms = age_ms(l->last_delivered_ms, now),
	    .last_outcome = l->last_outcome[0] != '\0' ? l->last_outcome : NULL,
	    .last_error = l->last_error[0] != '\0' ? l->last_error : NULL,
	    .last_error_age_ms = age_ms(l->last_error_ms, now),
	    .mount_error = l->mounted ? NULL : l->mount_error,
	    .oldest_ms = -1,
	};
}

static void
take_lanes(struct snapshot *s, const struct lanes *ls,
    const struct depth *depth, int64_t now)
{
	const struct lane *l;

	s->lanes = xcalloc(ls->count + 1, sizeof(*s->lanes));
	TAILQ_FOREACH (l, &ls->list, entry) {
		if (s->n_lanes == ls->count)
			break;
		take_lane(&s->lanes[s->n_lanes], l, now);
		take_depth(&s->lanes[s->n_lanes++], depth);
	}
}

static void
take_workers(struct snapshot *s, const struct lanes *ls)
{
	const struct installation *i;
	struct pool_view v;

	TAILQ_FOREACH (i, &ls->installations, entry) {
		if (i->pool == NULL)
			continue;
		pool_look(i->pool, &v);
		s->workers =
		    xgrow(s->workers, s->n_workers, sizeof(*s->workers));
		s->workers[s->n_workers++] = (struct snapshot_workers){
		    .plugin = i->plugin,
		    .version = i->version,
		    .processes = v.processes,
		    .ready = v.ready,
		    .in_flight = v.in_flight,
		    .waiting = v.waiting,
		    .restarts = v.restarts,
		    .restart_in_ms = v.restart_in_ms,
		    .error = v.error,
		};
	}
}

static void
take_work(const struct stats_view *v, struct snapshot *s)
{
	const struct claimer_stats *c = claimer_stats(v->claimer);
	const size_t *n = v->book->count;

	s->claims = (struct snapshot_claims){
	    .claims = c->claims,
	    .items = c->items,
	    .empty = c->empty,
	    .busy = c->busy,
	    .wakes = c->wakes,
	    .sleeps = c->sleeps,
	    .asleep = claimer_sleeps(v->claimer),
	    .time = &c->claim_time,
	};
	s->work = (struct snapshot_work){
	    .running = n[DELIVERY_RUNNING],
	    .finished = n[DELIVERY_FINISHED],
	    .doubted = n[DELIVERY_DOUBTED],
	    .settling = n[DELIVERY_SETTLING],
	    .suspects = v->lanes->suspects,
	    .strays_killed = (uint64_t)runner_strays(v->runner),
	    .ended = v->stats->ended,
	    .repeated = v->stats->repeated,
	    .claim_lost = v->stats->claim_lost,
	    .refused = v->stats->refused,
	    .settle_time = settler_time(v->settler),
	};
}

static void
take_admin(struct snapshot *s, struct admin *admin)
{
	struct admin_stats a = {0};

	if (admin != NULL)
		admin_stat(admin, &a);
	s->admin = (struct snapshot_admin){
	    .requests = a.requests,
	    .refused = a.refused,
	    .evicted = a.evicted,
	    .open = a.open,
	};
}

void
overview_take(const struct stats_view *v, const struct depth *depth,
    struct admin *admin, struct snapshot *out)
{
	int64_t now = loop_now_ms();

	*out = (struct snapshot){
	    .version = OUTBOXD_VERSION,
	    .worker = v->worker,
	    .phase = v->phase,
	    .isolation = runner_isolation(v->runner),
	    .pid = (int)getpid(),
	    .ready = v->ready,
	    .up_ms = now - v->stats->started_ms,
	    .tally = &v->stats->tally,
	    .depth_age_ms = depth != NULL ? depth_age_ms(depth) : -1,
	    .depth_cap = DEPTH_CAP,
	    .depth_error = depth != NULL ? depth_error(depth) : NULL,
	};
	if (gethostname(out->host, sizeof(out->host) - 1) == -1)
		snprintf(out->host, sizeof(out->host), "unknown");
	out->started_s = (int64_t)time(NULL) - out->up_ms / 1000;
	take_link(out, "claim", v->claim);
	take_link(out, "settle", v->settle);
	if (v->listen != v->claim)
		take_link(out, "listen", v->listen);
	take_lanes(out, v->lanes, depth, now);
	take_workers(out, v->lanes);
	bus_stat(v->bus, &out->bus);
	take_work(v, out);
	take_admin(out, admin);
	take_duties(v, out, now);
}
