#!/bin/sh
# What outboxctl says before it ever speaks to a database.
. "$(dirname "$0")/lib.sh"
begin ctl-usage

exits "no command at all is 64" 64 ctl
like "and shows the commands" "$ERR" "usage: outboxctl*delivery explain*"
exits "--help is 0" 0 ctl --help
like "and shows the commands on standard output" "$OUT" "usage: *status*"
exits "--version is 0" 0 ctl --version
like "and names program and version" "$OUT" "outboxctl [0-9]*"

exits "an unknown command is 64" 64 ctl delivry list
like "and the nearest is named" "$ERR" "*did you mean delivery?*"
exits "an unknown subcommand is 64" 64 ctl delivery lst
like "and the nearest is named, too" "$ERR" "*did you mean list?*"
exits "a group alone is 64" 64 ctl plugin
like "and its commands are shown" "$ERR" "*plugin activate*"
exits "an unknown option is 64" 64 ctl delivery list --staus paused
like "and the nearest option is named" "$ERR" "*did you mean --status?*"
exits "an unknown global option is 64" 64 ctl --jsn status
like "and the nearest global option is named" "$ERR" "*--json*"
exits "a missing value is 64" 64 ctl delivery list --status
exits "a value for a flag is 64" 64 ctl schema upgrade --dry-run=yes
exits "an option given twice is 64" 64 \
    ctl delivery list --status paused --status pending
exits "a missing operand is 64" 64 ctl event show
exits "an operand too many is 64" 64 ctl event show a b
exits "-c and --conninfo together are 64" 64 ctl -c x --conninfo y status
exits "a number out of bounds is 64" 64 ctl delivery list --limit 0
exits "a word for a number is 64" 64 ctl delivery list --limit ten
exits "a status that is none is 64" 64 ctl delivery list --status done
exits "an id without its version is 64" 64 ctl contract add a.b
exits "a broken id is 65" 65 ctl contract add A.b@v1
exits "a broken uuid is 65" 65 ctl delivery show 12 a.b.c
exits "discard without a reason is 64" 64 ctl delivery discard \
    018f2c1e-7b1a-4c55-9a51-3d1b7a0c9e11 a.b.c
exits "a blank reason is 64" 64 ctl subscriber pause a.b.c --reason " "
exits "--all without a filter is 64" 64 ctl delivery retry --all
exits "filters without --all are 64" 64 ctl delivery retry \
    018f2c1e-7b1a-4c55-9a51-3d1b7a0c9e11 a.b.c --status pending
exits "--all beside a delivery is 64" 64 ctl delivery retry \
    018f2c1e-7b1a-4c55-9a51-3d1b7a0c9e11 a.b.c --all

exits "a page of 201 is 64" 64 ctl memory entries --limit 201
exits "a page of 1023 bytes is 64" 64 ctl memory tree --max-bytes 1023
exits "a search for nothing is 64" 64 ctl memory search
exits "an entry that is no number is 64" 64 ctl memory reveal x

exits "errors are JSON with --json" 64 ctl --json delivery list --limit 0
is "and hold the exit code" "$(json "$ERR" error,exit)" 64

for unbuilt in "retention plan" "backup create" doctor \
    dev "delivery replay e s"; do
	exits "$unbuilt is refused, not ignored" 64 ctl $unbuilt
	like "$unbuilt: not in this version" "$ERR" "*not in this version*"
done

exits "--help of a word that is no command is 64" 64 ctl schema bogus --help
"$OUTBOXCTL" delivery discard --help >"$T/out"
like "what a command needs has no brackets" "$(tr -s '\n ' ' ' <"$T/out")" \
    "*--all --reason TEXT \[--generation N\]*"

bad=
for command in $("$OUTBOXCTL" --help |
    sed -n 's/^  \([a-z]*\) \([a-z]*\)  .*/\1:\2/p; s/^  \([a-z]*\)   .*/\1/p'); do
	"$OUTBOXCTL" $(echo "$command" | tr : ' ') --help >"$T/out" 2>&1 &&
	    grep -q '^usage: outboxctl' "$T/out" || bad="$bad $command"
done
is "every command has --help" "$bad" ""

bad=
for command in $("$OUTBOXCTL" --help |
    sed -n 's/^  \([a-z]*\) \([a-z]*\)  .*/\1:\2/p; s/^  \([a-z]*\)   .*/\1/p'); do
	words=$(echo "$command" | tr : ' ')
	grep -q "Cm ${words% }\( \|$\)" "$ROOT/man/outboxctl.8" ||
	    bad="$bad $command"
	for option in $("$OUTBOXCTL" $words --help |
	    sed -n 's/^  -\(-[a-z-]*\).*/\1/p'); do
		grep -q "Fl $option\( \|$\)" "$ROOT/man/outboxctl.8" ||
		    bad="$bad $command:-$option"
	done
done
is "every command and option is in outboxctl(8)" "$bad" ""

exits "a full disk is not silent" 75 sh -c '"$0" --help >/dev/full' \
    "$OUTBOXCTL"
