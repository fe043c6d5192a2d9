#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "../xalloc.h"
#include "out.h"

#define CELL_MAX 72 /* characters of a value that a table shows */
#define MAX_COLUMNS 32

/* ---- text ---- */

static bool
starts_character(unsigned char byte)
{
	return (byte & 0xc0) != 0x80;
}

static size_t
characters(const char *s)
{
	size_t n = 0;

	for (; *s != '\0'; s++)
		n += starts_character((unsigned char)*s);
	return n;
}

char *
out_plain(const char *text, size_t max)
{
	size_t len = strlen(text), shown = 0;
	char *plain = xmalloc(len * 4 + 8), *to = plain;
	const unsigned char *s;

	for (s = (const unsigned char *)text; *s != '\0'; s++) {
		if (starts_character(*s) && shown++ == max) {
			to += sprintf(to, "\xe2\x80\xa6"); /* ... */
			break;
		}
		if (*s == '\n')
			to += sprintf(to, "\\n");
		else if (*s == '\t')
			to += sprintf(to, "\\t");
		else if (*s < 0x20 || *s == 0x7f)
			to += sprintf(to, "\\x%02x", *s);
		else if (s[0] == 0xc2 && s[1] >= 0x80 && s[1] < 0xa0)
			to += sprintf(to, "\\x%02x", *++s); /* C1 controls */
		else
			*to++ = (char)*s;
	}
	*to = '\0';
	return plain;
}

char *
out_one_line(const char *json)
{
	char *line = xstrdup(json), *s;

	for (s = line; *s != '\0'; s++)
		if (*s == '\n' || *s == '\r')
			*s = ' ';
	return line;
}

/* ---- columns ---- */

struct column {
	char name[64];
	int field; /* of the result */
	size_t width;
};

/* Reads "a b c"; columns that the result does not have are left out. */
static int
read_columns(const PGresult *res, const char *names,
    struct column cols[MAX_COLUMNS])
{
	int n = 0;
	size_t len;

	while (n < MAX_COLUMNS) {
		names += strspn(names, " ");
		len = strcspn(names, " ");
		if (len == 0)
			break;
		snprintf(cols[n].name, sizeof(cols[n].name), "%.*s", (int)len,
		    names);
		names += len;
		cols[n].field = PQfnumber(res, cols[n].name);
		if (cols[n].field >= 0)
			n++;
	}
	return n;
}

static char *
cell(const PGresult *res, int row, int field, size_t max)
{
	if (PQgetisnull(res, row, field))
		return xstrdup("-");
	return out_plain(PQgetvalue(res, row, field), max);
}

static void
put_padded(FILE *f, const char *text, size_t width, bool last)
{
	size_t n = characters(text);

	fputs(text, f);
	if (last)
		fputc('\n', f);
	else
		fprintf(f, "%*s", (int)(width > n ? width - n : 0) + 2, "");
}

void
out_table(FILE *f, const PGresult *res, const char *columns)
{
	struct column cols[MAX_COLUMNS];
	int n = read_columns(res, columns, cols), rows = PQntuples(res);
	int row, i;
	size_t width;
	char *text;

	if (rows == 0) {
		fprintf(f, "(none)\n");
		return;
	}
	for (i = 0; i < n; i++) {
		cols[i].width = strlen(cols[i].name);
		for (row = 0; row < rows; row++) {
			text = cell(res, row, cols[i].field, CELL_MAX);
			width = characters(text);
			if (width > cols[i].width)
				cols[i].width = width;
			free(text);
		}
	}
	for (i = 0; i < n; i++)
		put_padded(f, cols[i].name, cols[i].width, i == n - 1);
	for (row = 0; row < rows; row++)
		for (i = 0; i < n; i++) {
			text = cell(res, row, cols[i].field, CELL_MAX);
			put_padded(f, text, cols[i].width, i == n - 1);
			free(text);
		}
}

void
out_record(FILE *f, const PGresult *res, const char *columns)
{
	struct column cols[MAX_COLUMNS];
	int n = read_columns(res, columns, cols), i;
	size_t width = 0;
	char *text;

	for (i = 0; i < n; i++)
		if (!PQgetisnull(res, 0, cols[i].field) &&
		    strlen(cols[i].name) > width)
			width = strlen(cols[i].name);
	for (i = 0; i < n; i++) {
		if (PQgetisnull(res, 0, cols[i].field))
			continue;
		text = cell(res, 0, cols[i].field, (size_t)-1);
		fprintf(f, "%-*s  %s\n", (int)width, cols[i].name, text);
		free(text);
	}
}

/* ---- JSON ---- */

static char *
with_json(const char *sql)
{
	return xasprintf("SELECT t.*, row_to_json(t)::text AS json FROM (%s) t",
	    sql);
}

PGresult *
out_run(struct ctl *c, const char *sql, int n, const char *const *values)
{
	char *asked = with_json(sql);
	PGresult *res = db_run(c->db, asked, n, values);

	free(asked);
	return res;
}

bool
out_run_all(struct ctl *c, int n, const char *const sql[], PGresult *results[])
{
	char **asked = xcalloc((size_t)n, sizeof(*asked));
	bool good;
	int i;

	for (i = 0; i < n; i++)
		asked[i] = with_json(sql[i]);
	good = db_run_all(c->db, n, (const char *const *)asked, results);
	for (i = 0; i < n; i++)
		free(asked[i]);
	free(asked);
	return good;
}

void
out_add_raw(cJSON *object, const char *key, const char *json)
{
	char *line;

	if (json == NULL) {
		cJSON_AddNullToObject(object, key);
		return;
	}
	line = out_one_line(json);
	cJSON_AddRawToObject(object, key, line);
	free(line);
}

cJSON *
out_rows(const PGresult *res)
{
	cJSON *rows = cJSON_CreateArray();
	char *line;
	int i;

	for (i = 0; i < PQntuples(res); i++) {
		line = out_one_line(db_text(res, i, "json"));
		cJSON_AddItemToArray(rows, cJSON_CreateRaw(line));
		free(line);
	}
	return rows;
}

void
out_row(const PGresult *res, const cJSON *more)
{
	char *line = out_one_line(db_text(res, 0, "json")), *text;

	if (more == NULL) {
		printf("%s\n", line);
	} else {
		text = json_print(more);
		line[strlen(line) - 1] = '\0'; /* its closing brace */
		printf("%s,%s\n", line, text + 1);
		free(text);
	}
	free(line);
}

void
out_json(cJSON *object)
{
	char *text = json_print(object);

	printf("%s\n", text);
	free(text);
	cJSON_Delete(object);
}

void
out_done(const struct ctl *c, const char *words, ...)
{
	cJSON *object;
	const char *key, *value;
	va_list ap;

	if (!c->json) {
		printf("%s\n", words);
		return;
	}
	object = cJSON_CreateObject();
	va_start(ap, words);
	while ((key = va_arg(ap, const char *)) != NULL) {
		value = va_arg(ap, const char *);
		if (value == NULL)
			cJSON_AddNullToObject(object, key + (*key == '#'));
		else if (*key == '#')
			cJSON_AddRawToObject(object, key + 1, value);
		else
			cJSON_AddStringToObject(object, key, value);
	}
	va_end(ap);
	out_json(object);
}

int
out_list(struct ctl *c, const char *columns, const char *sql, int n,
    const char *const *values)
{
	PGresult *res;
	char *line;
	int i;

	if (ctl_db(c) == NULL)
		return c->exit;
	res = out_run(c, sql, n, values);
	if (res == NULL)
		return ctl_fail_db(c);
	for (i = 0; c->json && i < PQntuples(res); i++) {
		line = out_one_line(db_text(res, i, "json"));
		printf("%s\n", line);
		free(line);
	}
	if (!c->json)
		out_table(stdout, res, columns);
	PQclear(res);
	return EX_OK;
}
