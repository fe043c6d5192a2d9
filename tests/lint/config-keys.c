/*
 * config-keys - what the lint suite needs to know of the config's table.
 *
 *	config-keys table	one key a line: name TAB type TAB facts TAB default
 *	config-keys sample FILE	one key a line: name TAB value as written
 *
 * facts is the sentence that outboxd.yaml(5) must say of the key.
 */
#include "configkey.h"
#include "err.h"
#include "yamldoc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
print_choices(const struct configkey *k)
{
	size_t i, shown = 0;

	for (i = 0; k->choices[i] != NULL; i++) {
		if (k->choices[i][0] == '!')
			continue;
		printf("%s%s", shown++ > 0 ? " | " : ", one of ",
		    k->choices[i]);
	}
}

static void
print_facts(const struct configkey *k)
{
	if (k->type == CONFIGKEY_UNBUILT) {
		printf("Not in this version.");
		return;
	}
	if (k->preset == NULL)
		printf("No default");
	else
		printf("Default %s",
		    k->preset[0] != '\0' ? k->preset : "empty");
	if (k->min != NULL)
		printf(", from %s to %s", k->min, k->max);
	if (k->choices != NULL)
		print_choices(k);
	if (k->preset_only)
		printf(", nothing else in this version");
	printf(k->reloadable ? ", reloadable." : ".");
}

static void
print_table(void)
{
	const struct configkey *k;

	for (k = configkeys; k->name != NULL; k++) {
		printf("%s\t%s\t", k->name, configkey_type_name(k));
		print_facts(k);
		printf("\t%s\n", k->preset != NULL ? k->preset : "");
	}
}

static void
print_node(const char *name, const struct yamldoc_node *n)
{
	char inner[256];
	size_t i;

	if (n->kind == YAMLDOC_MAP && n->count > 0) {
		for (i = 0; i < n->count; i++) {
			snprintf(inner, sizeof(inner), "%s%s%s", name,
			    name[0] != '\0' ? "." : "", n->keys[i]->text);
			print_node(inner, n->values[i]);
		}
		return;
	}
	printf("%s\t%s\n", name,
	    n->kind == YAMLDOC_MAP	  ? "{}"
		: n->kind == YAMLDOC_LIST ? "[]"
					  : n->text);
}

static int
print_sample(const char *path)
{
	static char text[YAMLDOC_MAX_BYTES];
	struct yamldoc *doc;
	struct err e;
	size_t len;
	FILE *f;

	if ((f = fopen(path, "r")) == NULL) {
		perror(path);
		return 1;
	}
	len = fread(text, 1, sizeof(text), f);
	fclose(f);
	if ((doc = yamldoc_parse(path, text, len, &e)) == NULL) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	if (yamldoc_root(doc) != NULL)
		print_node("", yamldoc_root(doc));
	yamldoc_free(doc);
	return 0;
}

int
main(int argc, char *argv[])
{
	if (argc == 3 && strcmp(argv[1], "sample") == 0)
		return print_sample(argv[2]);
	if (argc != 2 || strcmp(argv[1], "table") != 0)
		return 64;
	print_table();
	return 0;
}
