/*
 * manifest: the tree knows its lines and its bounds, every refusal says where,
 * and what is taken has been checked and can be handed to the database.
 */
#include "fuzz.h"
#include "ids.h"
#include "json.h"
#include "manifest.h"
#include "manifestjson.h"
#include "utf8.h"
#include "yamldoc.h"

#include <stdbool.h>

static int
count_lines(const char *text, size_t len)
{
	int n = 2; /* an error may lie behind the last */

	/* YAML also ends lines at these. */
	for (size_t i = 0; i < len; i++)
		n += text[i] == '\n' || text[i] == '\r' ||
		    (len - i >= 2 && memcmp(text + i, "\xc2\x85", 2) == 0) ||
		    (len - i >= 3 &&
			memcmp(text + i, "\xe2\x80\xa8", 3) == 0) ||
		    (len - i >= 3 && memcmp(text + i, "\xe2\x80\xa9", 3) == 0);
	return n;
}

static size_t
check_node(const struct yamldoc_node *n, int lines, int depth)
{
	size_t nodes = 1;

	HOLDS(depth <= YAMLDOC_MAX_DEPTH);
	HOLDS(n->line >= 1 && n->line <= lines && n->column >= 1);
	if (n->kind == YAMLDOC_SCALAR) {
		HOLDS(n->count == 0);
		HOLDS(utf8_is_valid(n->text, strlen(n->text)));
		return nodes;
	}
	for (size_t i = 0; i < n->count; i++) {
		if (n->kind == YAMLDOC_MAP) {
			HOLDS(n->keys[i]->kind == YAMLDOC_SCALAR);
			HOLDS(yamldoc_get(n, n->keys[i]->text) == n->values[i]);
			nodes += check_node(n->keys[i], lines, depth);
		}
		nodes += check_node(n->values[i], lines, depth + 1);
	}
	return nodes;
}

static void
check_refusal(const struct err *e)
{
	HOLDS(strncmp(e->text, "plugin.yaml:", 12) == 0);
	HOLDS(strlen(e->text) > 14);
	HOLDS(utf8_is_valid(e->text, strlen(e->text)));
}

static void
check_doc(const char *text, size_t len)
{
	struct err e = {.text = ""};
	struct yamldoc *doc = yamldoc_parse("plugin.yaml", text, len, &e);
	const struct yamldoc_node *root;

	if (doc == NULL) {
		check_refusal(&e);
		return;
	}
	root = yamldoc_root(doc);
	if (root != NULL)
		HOLDS(check_node(root, count_lines(text, len), 1) <=
		    YAMLDOC_MAX_NODES);
	yamldoc_free(doc);
}

static void
check_handlers(const struct manifest *m)
{
	HOLDS(m->n_handlers > 0);
	for (size_t i = 0; i < m->n_handlers; i++) {
		const struct manifest_handler *h = &m->handlers[i];

		HOLDS(ids_check(ID_HANDLER, h->name, NULL) == 0);
		HOLDS(ids_check(ID_VERSION, h->version, NULL) == 0);
		HOLDS(manifest_handler(m, h->name) == h);
		HOLDS(i == 0 || strcmp(h[-1].name, h->name) < 0);
		HOLDS(h->n_subscribes > 0);
		for (size_t k = 0; k < h->n_subscribes; k++)
			HOLDS(ids_check(ID_CONTRACT, h->subscribes[k].id,
				  NULL) == 0);
	}
}

static void
check_manifest(const struct manifest *m)
{
	char *text = manifestjson_print(m);
	struct err e;
	cJSON *v = json_parse(text, strlen(text), SIZE_MAX, &e);

	HOLDS(ids_check(ID_PLUGIN, m->plugin, NULL) == 0);
	HOLDS(ids_check(ID_VERSION, m->version, NULL) == 0);
	HOLDS(m->command[0] != NULL && m->command[0][0] != '/');
	HOLDS(strstr(m->command[0], "..") == NULL ||
	    strncmp(m->command[0], "../", 3) != 0);
	check_handlers(m);
	HOLDS(cJSON_IsObject(v));
	HOLDS((size_t)cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(v,
		  "handlers")) == m->n_handlers);
	cJSON_Delete(v);
	free(text);
}

void
fuzz_one(const char *text, size_t len)
{
	struct err e = {.text = ""};
	struct manifest *m = manifest_parse("plugin.yaml", text, len, &e);

	if (m == NULL)
		check_refusal(&e);
	else
		check_manifest(m);
	manifest_free(m);
	check_doc(text, len);
}
