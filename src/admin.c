#include "admin.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/listener.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"
#include "log.h"
#include "loop.h"
#include "unixsock.h"
#include "xalloc.h"

#define CLIENTS_MAX 64
#define CLIENT_MS 10000 /* from the connect to the last byte of the answer */
#define STRANGER_MS 1000 /* to be told that he has no right */
#define SILENCE_S 5
#define LOOK_MS 500 /* at those whose time is over */
#define HEAD_MAX 8192
#define BODY_MAX 65536
#define ON_WAY_MAX (16 * 1024 * 1024) /* answers that are not read yet */
#define FORBIDDEN 403
#define BAD_METHOD 405

/*
 * evhttp owns the connection and does not tell when it ends.  The number of
 * a socket's inode tells whether its descriptor is still that connection.
 */
struct client {
	TAILQ_ENTRY(client) entry;
	struct admin *admin;
	struct bufferevent *arriving; /* it has no descriptor yet */
	int fd;
	ino_t ino;
	int64_t end_ms;
	size_t on_way;
};

struct admin {
	struct admin_setup setup;
	struct peer_rules rules;
	struct unixsock sock;
	struct evhttp *http;
	struct event *timer;
	TAILQ_HEAD(client_list, client) clients; /* the oldest first */
	struct client_list arriving;
	size_t on_way;
	int calls; /* not answered yet */
	struct admin_stats stats;
};

struct admin_call {
	struct admin *admin;
	struct evhttp_request *req;
	struct peer peer;
	struct evkeyvalq params;
};

/* --- clients ---------------------------------------------------------- */

static ino_t
inode_of(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
}

static void
client_end(struct admin *a, struct client *c)
{
	TAILQ_REMOVE(&a->clients, c, entry);
	a->on_way -= c->on_way;
	a->stats.open--;
	free(c);
}

/* evhttp sees that it is over, and closes it. */
static void
client_evict(struct admin *a, struct client *c)
{
	shutdown(c->fd, SHUT_RDWR);
	a->stats.evicted++;
	client_end(a, c);
}

static void
look_at_clients(struct admin *a)
{
	struct client *c, *next;
	int64_t now = loop_now_ms();

	for (c = TAILQ_FIRST(&a->clients); c != NULL; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (inode_of(c->fd) != c->ino)
			client_end(a, c);
		else if (c->end_ms <= now)
			client_evict(a, c);
	}
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct admin *a = arg;

	look_at_clients(a);
	if (!TAILQ_EMPTY(&a->clients))
		loop_timer_in(a->timer, LOOK_MS);
}

static struct client *
client_of(struct admin *a, int fd)
{
	struct client *c;

	TAILQ_FOREACH (c, &a->clients, entry)
		if (c->fd == fd && c->ino == inode_of(fd))
			return c;
	return NULL;
}

/* The credentials are looked at before anything is read. */
static void
on_arrived(void *arg)
{
	struct client *c = arg;
	struct admin *a = c->admin;
	int fd = bufferevent_getfd(c->arriving);
	bool stranger = peer_of(fd, &a->rules).right == PEER_NONE;

	bufferevent_decref(c->arriving);
	TAILQ_REMOVE(&a->arriving, c, entry);
	c->arriving = NULL;
	if (a->stats.open >= CLIENTS_MAX)
		look_at_clients(a);
	if (a->stats.open >= CLIENTS_MAX)
		client_evict(a, TAILQ_FIRST(&a->clients));
	c->fd = fd;
	c->ino = inode_of(fd);
	c->end_ms = loop_now_ms() + (stranger ? STRANGER_MS : CLIENT_MS);
	if (TAILQ_EMPTY(&a->clients))
		loop_timer_in(a->timer, LOOK_MS);
	TAILQ_INSERT_TAIL(&a->clients, c, entry);
	a->stats.open++;
}

/* evhttp has accepted a connection and sets its descriptor when we return. */
static struct bufferevent *
on_accept(struct event_base *base, void *arg)
{
	struct admin *a = arg;
	struct client *c = xcalloc(1, sizeof(*c));

	c->admin = a;
	c->arriving = bufferevent_socket_new(base, -1, 0);
	if (c->arriving == NULL)
		panic("out of memory");
	bufferevent_incref(c->arriving);
	TAILQ_INSERT_TAIL(&a->arriving, c, entry);
	loop_defer(a->setup.loop, on_arrived, c);
	return c->arriving;
}

/* --- calls ------------------------------------------------------------ */

const char *
admin_param(struct admin_call *c, const char *name)
{
	return evhttp_find_header(&c->params, name);
}

int
admin_param_int(struct admin_call *c, const char *name, int64_t min,
    int64_t max, int64_t *out)
{
	const char *text = admin_param(c, name);
	char *end;
	long long n;

	if (text == NULL)
		return 0;
	errno = 0;
	n = strtoll(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || n < min || n > max)
		return -1;
	*out = n;
	return 1;
}

const char *
admin_param_other(struct admin_call *c, const char *const known[])
{
	const struct evkeyval *kv;
	size_t i;

	TAILQ_FOREACH (kv, &c->params, next) {
		for (i = 0; known[i] != NULL; i++)
			if (strcmp(kv->key, known[i]) == 0)
				break;
		if (known[i] == NULL)
			return kv->key;
	}
	return NULL;
}

const struct peer *
admin_peer(const struct admin_call *c)
{
	return &c->peer;
}

static void
put_answer(struct admin_call *c, const char *type, const char *text, size_t len,
    struct evbuffer *body)
{
	struct evkeyvalq *head = evhttp_request_get_output_headers(c->req);

	evhttp_add_header(head, "Content-Type", type);
	/* one question each: nobody keeps a place that others wait for */
	evhttp_add_header(head, "Connection", "close");
	if (evbuffer_add(body, text, len) == -1)
		panic("out of memory");
}

/* The client of a later answer may have made room for another one. */
static void
count_on_way(struct admin_call *c, size_t len)
{
	struct evhttp_connection *con = evhttp_request_get_connection(c->req);
	struct client *client = con != NULL
	    ? client_of(c->admin,
		  bufferevent_getfd(evhttp_connection_get_bufferevent(con)))
	    : NULL;

	if (client == NULL)
		return;
	client->on_way += len;
	c->admin->on_way += len;
}

void
admin_reply(struct admin_call *c, int status, const char *type,
    const char *text, size_t len)
{
	static const char busy[] =
	    "{\"error\":\"busy\",\"message\":\"too many answers are on their "
	    "way; ask again later\"}\n";
	struct admin *a = c->admin;
	struct evbuffer *body = evbuffer_new();

	if (body == NULL)
		panic("out of memory");
	if (a->on_way + len > ON_WAY_MAX)
		look_at_clients(a);
	if (a->on_way + len > ON_WAY_MAX) {
		status = HTTP_SERVUNAVAIL;
		type = "application/json";
		text = busy;
		len = sizeof(busy) - 1;
	}
	put_answer(c, type, text, len, body);
	count_on_way(c, len);
	a->stats.requests++;
	a->calls--;
	evhttp_send_reply(c->req, status, NULL, body);
	evbuffer_free(body);
	evhttp_clear_headers(&c->params);
	free(c);
}

void
admin_reply_json(struct admin_call *c, int status, cJSON *body)
{
	char *text = json_print(body);
	char *line = xasprintf("%s\n", text);

	admin_reply(c, status, "application/json", line, strlen(line));
	free(line);
	free(text);
	cJSON_Delete(body);
}

void
admin_reply_error(struct admin_call *c, int status, const char *code,
    const char *fmt, ...)
{
	cJSON *body = cJSON_CreateObject();
	va_list ap;
	char *text;

	va_start(ap, fmt);
	text = xvasprintf(fmt, ap);
	va_end(ap);
	cJSON_AddStringToObject(body, "error", code);
	cJSON_AddStringToObject(body, "message", text);
	free(text);
	admin_reply_json(c, status, body);
}

/* --- routing ---------------------------------------------------------- */

static const struct admin_route *
find_route(const struct admin *a, enum evhttp_cmd_type method, const char *path,
    bool *known)
{
	const struct admin_route *r;

	*known = false;
	for (r = a->setup.routes; r->path != NULL; r++) {
		if (strcmp(r->path, path) != 0)
			continue;
		*known = true;
		if (method ==
		    (r->method == ADMIN_GET ? EVHTTP_REQ_GET : EVHTTP_REQ_POST))
			return r;
	}
	return NULL;
}

static void
refuse(struct admin_call *c, const struct admin_route *r)
{
	struct admin *a = c->admin;

	a->stats.refused++;
	log_event(LOG_WARN, "admin_refused",
	    "someone may not ask what he asked", LOG_INT("uid", c->peer.uid),
	    LOG_STR("path", r->path),
	    LOG_STR("has", peer_right_name(c->peer.right)),
	    LOG_STR("needs", peer_right_name(r->right)));
	admin_reply_error(c, FORBIDDEN, "forbidden",
	    "uid %ld has the right '%s' here and needs '%s': root, or a "
	    "member of the group %s",
	    (long)c->peer.uid, peer_right_name(c->peer.right),
	    peer_right_name(r->right),
	    r->right == PEER_OPERATE ? "admin.operator_group" : "admin.group");
}

static void
route(struct admin_call *c, const char *path)
{
	bool known;
	const struct admin_route *r = find_route(c->admin,
	    evhttp_request_get_command(c->req), path, &known);

	if (r == NULL && known)
		admin_reply_error(c, BAD_METHOD, "bad_method",
		    "%s is not asked this way", path);
	else if (r == NULL)
		admin_reply_error(c, HTTP_NOTFOUND, "not_found",
		    "there is nothing here; see ADMIN SOCKET in outboxd(8)");
	else if (c->peer.right < r->right)
		refuse(c, r);
	else
		r->fn(c->admin->setup.arg, c);
}

static void
on_request(struct evhttp_request *req, void *arg)
{
	struct admin *a = arg;
	struct bufferevent *bev = evhttp_connection_get_bufferevent(
	    evhttp_request_get_connection(req));
	const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
	const char *query = uri != NULL ? evhttp_uri_get_query(uri) : NULL;
	const char *path = uri != NULL ? evhttp_uri_get_path(uri) : NULL;
	struct admin_call *c = xcalloc(1, sizeof(*c));

	a->calls++;
	c->admin = a;
	c->req = req;
	c->peer = peer_of(bufferevent_getfd(bev), &a->rules);
	TAILQ_INIT(&c->params);
	if (query != NULL && evhttp_parse_query_str(query, &c->params) == -1)
		admin_reply_error(c, HTTP_BADREQUEST, "bad_query",
		    "what follows the ? cannot be read");
	else
		route(c, path != NULL ? path : "");
}

/* --- life ------------------------------------------------------------- */

static int
find_group(const char *key, const char *name, gid_t *out, struct err *e)
{
	const struct group *g;

	*out = (gid_t)-1;
	if (name[0] == '\0')
		return 0;
	errno = 0;
	g = getgrnam(name);
	if (g == NULL) {
		err_set(e, "%s: there is no group '%s'", key, name);
		return -1;
	}
	*out = g->gr_gid;
	return 0;
}

static void
serve(struct admin *a)
{
	struct event_base *base = loop_base(a->setup.loop);
	struct evconnlistener *l;

	a->http = evhttp_new(base);
	a->timer = evtimer_new(base, on_timer, a);
	l = evconnlistener_new(base, NULL, NULL,
	    LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, a->sock.fd);
	if (a->http == NULL || a->timer == NULL || l == NULL)
		panic("out of memory");
	evhttp_set_timeout(a->http, SILENCE_S);
	evhttp_set_max_headers_size(a->http, HEAD_MAX);
	evhttp_set_max_body_size(a->http, BODY_MAX);
	evhttp_set_allowed_methods(a->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST);
	evhttp_set_bevcb(a->http, on_accept, a);
	evhttp_set_gencb(a->http, on_request, a);
	if (evhttp_bind_listener(a->http, l) == NULL)
		panic("out of memory");
}

struct admin *
admin_create(const struct admin_setup *setup, struct err *e)
{
	struct admin *a = xcalloc(1, sizeof(*a));
	gid_t group;

	a->setup = *setup;
	a->rules.trust_own_uid = setup->trust_own_uid;
	TAILQ_INIT(&a->clients);
	TAILQ_INIT(&a->arriving);
	if (find_group("admin.group", setup->group, &a->rules.readers, e) ==
		-1 ||
	    find_group("admin.operator_group", setup->operators,
		&a->rules.operators, e) == -1)
		goto fail;
	/* the file has one group; operators need it to connect at all */
	group = a->rules.readers != (gid_t)-1 ? a->rules.readers
					      : a->rules.operators;
	if (unixsock_listen(&a->sock, setup->path, group, e) == -1)
		goto fail;
	serve(a);
	return a;
fail:
	free(a);
	return NULL;
}

void
admin_free(struct admin *a)
{
	struct client *c;

	if (a == NULL)
		return;
	if (a->calls != 0)
		panic("%d calls are not answered", a->calls);
	while ((c = TAILQ_FIRST(&a->arriving)) != NULL) {
		loop_forget(a->setup.loop, c);
		bufferevent_decref(c->arriving);
		TAILQ_REMOVE(&a->arriving, c, entry);
		free(c);
	}
	while ((c = TAILQ_FIRST(&a->clients)) != NULL)
		client_end(a, c);
	evhttp_free(a->http); /* and the listener, with its descriptor */
	event_free(a->timer);
	unixsock_end(&a->sock);
	free(a);
}

void
admin_stat(struct admin *a, struct admin_stats *out)
{
	look_at_clients(a);
	*out = a->stats;
}
