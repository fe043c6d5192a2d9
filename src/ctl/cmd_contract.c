/*
 * cmd_contract.c - contract add, list, retire.
 */
#include <stdlib.h>

#include "../xalloc.h"
#include "args.h"
#include "ctl.h"
#include "input.h"
#include "out.h"

#define SCHEMA_MAX (1024UL * 1024)

static const struct option_spec add_options[] = {
    {"--schema", "FILE", "JSON schema of the body; - reads standard input",
	OPTION_ONCE},
    {.name = NULL},
};

static int
say(struct ctl *c, const struct ref *ref, PGresult *res)
{
	const char *answer;
	char *words;

	if (res == NULL)
		return ctl_fail_db(c);
	answer = db_text(res, 0, "answer");
	words = xasprintf("%s: %s@%s", answer, ref->id, ref->version);
	out_done(c, words, "answer", answer, "contract_id", ref->id,
	    "contract_version", ref->version, NULL);
	free(words);
	PQclear(res);
	return EX_OK;
}

static int
contract_add(struct ctl *c, const struct args *a)
{
	const char *path = args_value(a, "--schema");
	char *schema = NULL;
	struct ref ref;
	struct db *db;
	int code;

	if (!input_ref(c, ID_CONTRACT, args_operand(a, 0), true, &ref))
		return c->exit;
	if (path != NULL && (schema = input_json(c, path, SCHEMA_MAX)) == NULL)
		code = c->exit;
	else if ((db = ctl_db(c)) == NULL)
		code = c->exit;
	else
		code = say(c, &ref,
		    db_run(db,
			"SELECT outbox.contract_add($1, $2, $3::json)"
			" AS answer",
			DB_PARAMS(ref.id, ref.version, schema)));
	free(schema);
	return code;
}

static int
contract_list(struct ctl *c, const struct args *a)
{
	return out_list(c,
	    "contract_id contract_version state owner_plugin added_at "
	    "retired_at",
	    "SELECT k.* FROM outbox.contracts k"
	    " ORDER BY k.contract_id, k.contract_version",
	    DB_NONE);
}

static int
contract_retire(struct ctl *c, const struct args *a)
{
	struct ref ref;
	struct db *db;
	int code;

	if (!input_ref(c, ID_CONTRACT, args_operand(a, 0), true, &ref))
		return c->exit;
	if ((db = ctl_db(c)) == NULL)
		code = c->exit;
	else
		code = say(c, &ref,
		    db_run(db,
			"SELECT outbox.contract_retire($1, $2) AS answer",
			DB_PARAMS(ref.id, ref.version)));
	return code;
}

const struct command contract_commands[] = {
    {"contract", "add", "ID@VERSION", 1, 1, "declare the type of a fact",
	"The schema is the part of JSON Schema 2020-12 that outbox-sql(7)\n"
	"names; without one any JSON is accepted. Adding the same again is\n"
	"no error.",
	add_options, contract_add},
    {"contract", "list", "", 0, 0, "show every contract", NULL, NULL,
	contract_list},
    {"contract", "retire", "ID@VERSION", 1, 1,
	"refuse new facts under a contract",
	"What was published is delivered still.", NULL, contract_retire},
    {.group = NULL},
};
