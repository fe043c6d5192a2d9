#!/bin/sh
# plugin new and plugin test: from nothing to a plugin that was seen working,
# without a database.
. "$(dirname "$0")/lib.sh"
begin ctl-plugin-kit
PGHOST=/nowhere
export PGHOST
TMPDIR=$T
export TMPDIR

# json_of TEXT KEY: a plain value out of one line of JSON.
json_of() {
	echo "$1" | sed -n "s/.*\"$2\":\"\{0,1\}\([^\",}]*\).*/\1/p" | head -n 1
}

# ---- new ----

exits "new without a language is 64" 64 ctl plugin new "$T/none"
like "and names those there are" "$ERR" "*sh, c, python or node*"
exits "new in another language is 64" 64 ctl plugin new "$T/none" --lang cobol
exits "a directory that is no name is 65" 65 ctl plugin new "$T/7up" --lang sh
exits "a bad id is 65" 65 ctl plugin new "$T/none" --lang sh --id Acme
is "and nothing is made" "$(ls "$T" | grep -c none)" 0
exits "new is 0" 0 ctl --json plugin new "$T/my-sh" --lang sh
is "and names the plugin after the directory" "$(json_of "$OUT" plugin_id)" \
    example.my_sh
echo mine >"$T/my-sh/bin/hello"
exits "nothing is written over" 1 ctl plugin new "$T/my-sh" --lang sh
is "the file is as it was" "$(cat "$T/my-sh/bin/hello")" mine
exits "new takes an id" 0 ctl plugin new "$T/sh" --lang sh --id acme.first
exits "and check takes that bundle" 0 ctl plugin check "$T/sh"
like "under that id" "$OUT" "acme.first@1*"

for lang in c python node; do
	exits "new in $lang is 0" 0 ctl plugin new "$T/$lang" --lang $lang
done
exits "the bundle in C is none before it is made" 65 ctl plugin check "$T/c"
like "and what to do is said" "$ERR" "*make -C *"
exits "the bundle in C is made by make" 0 make -C "$T/c" CC="${CC:-cc}"

for lang in sh c python node; do
	case $lang in
	python) runtime=python3 ;;
	*) runtime=$lang ;;
	esac
	if [ $lang != c ] && ! PATH=/usr/local/bin:/usr/bin:/bin \
	    command -v $runtime >/dev/null; then
		echo "# skipped: $runtime is missing"
		continue
	fi
	exits "$lang: check takes what new wrote" 0 ctl plugin check "$T/$lang"
	exits "$lang: test takes it" 0 ctl plugin test "$T/$lang"
	like "$lang: and tells what would be recorded" "$OUT" \
	    "*hello: *outcome ok, verdict ack*"
	exits "$lang: a retry is told, and exit 1" 1 \
	    sh -c "echo '{\"sorry\":true}' | '$OUTBOXCTL' plugin test '$T/$lang' --event -"
	like "$lang: with its delay and reason" "$OUT" \
	    "*verdict retry after 1m*reason: not yet*"
	exits "$lang: it conforms on a bad day" 0 \
	    ctl plugin test "$T/$lang" --hostile
	like "$lang: in every case" "$OUT" "* conform, 0 fail, 0 to look at"
	sed 's/^protocol: worker/protocol: exec/' "$T/$lang/plugin.yaml" \
	    >"$T/yaml" && mv "$T/yaml" "$T/$lang/plugin.yaml"
	[ $lang = sh ] || exits "$lang: the same code is an exec handler" 0 \
	    ctl plugin test "$T/$lang" --hostile
done

# ---- test ----

exits "test of a handler that is not there is 65" 65 \
    ctl plugin test "$T/sh" --handler none
exits "test of what is no bundle is 65" 65 ctl plugin test "$T"
echo "no json" >"$T/bad.json"
exits "an event that is none is 65" 65 \
    ctl plugin test "$T/sh" --event "$T/bad.json"
cat >"$T/event.json" <<'JSON'
{"specversion":"1.0","id":"e-77","type":"example.happened","contractversion":"v1","workspace":"w","data":1}
JSON
exits "a whole event is taken as it is" 0 \
    ctl plugin test "$T/sh" --event "$T/event.json"
like "with its id" "$OUT" "*hello: example.happened@v1 e-77*"
exits "test has JSON" 0 ctl --json plugin test "$T/sh"
is "with the verdict" "$(json_of "$OUT" verdict)" ack
is "and the time" "$(json_of "$OUT" run_ms | grep -c '^[0-9]')" 1

# exec_with: a bundle whose handler is the script on standard input.
exec_with() {
	rm -rf "$T/x"
	plugin_make "$T/x" acme.x 1 try a.b@v1
}
exec_with <<'SH'
#!/bin/sh
exit 65
SH
exits "a refusal is exit 1" 1 ctl plugin test "$T/x"
like "mapped as the daemon maps it" "$OUT" \
    "*exit 65: outcome rejected, verdict pause (handler_rejected)*"
exec_with <<'SH'
#!/bin/sh
kill -SEGV $$
SH
exits "a signal is exit 1" 1 ctl plugin test "$T/x"
like "and a crash" "$OUT" "*signal 11*outcome crashed*"
exec_with <<'SH'
#!/bin/sh
echo '{"outcome":"ack","colour":1}' >&3
SH
exits "a bad result is exit 1" 1 ctl plugin test "$T/x"
like "and no acknowledgement" "$OUT" "*colour*outcome bad_result, verdict retry*"
exec_with <<'SH'
#!/bin/sh
trap '' TERM
cat >/dev/null
echo x >>"${0%/*}/../dropped"
sleep 100 &
exec sleep 0.2
SH
exits "a plugin that misbehaves fails" 1 ctl plugin test "$T/x" --hostile
like "for what it leaves behind" "$OUT" "*left processes behind*"
exits "hostile has JSON" 1 ctl --json plugin test "$T/x" --hostile
is "an object for each case" "$(echo "$OUT" | grep -c '"case":')" 10

# worker_with: the same for a worker in sh; it may read lines and answer.
worker_with() {
	exec_with
	sed -i 's/^protocol: exec/protocol: worker/' "$T/x/plugin.yaml"
}
greeting='{"type":"hello","protocol":"worker/1"}
{"type":"ready"}'
cat >"$T/good" <<SH
#!/bin/sh
read -r hello; echo '$greeting' >&3
while read -r frame; do
	call=\${frame#*\"call\":\"}; call=\${call%%\"*}
	case \$frame in
	*'"type":"deliver"'*)
		echo '{"type":"result","call":"'\$call'","outcome":"ack"}' >&3 ;;
	*'"type":"ping"'*)
		id=\${frame#*\"id\":\"}; id=\${id%%\"*}
		echo '{"type":"pong","id":"'\$id'"}' >&3 ;;
	*'"type":"drain"'*) exit 0 ;;
	esac
done
SH
worker_with <"$T/good"
exits "a worker in sh is enough" 0 ctl plugin test "$T/x"
like "and its frames are shown" "$OUT" \
    '*> {"type":"hello"*< {"type":"ready"}*> {"type":"deliver"*< {"type":"result"*drained: exit 0*'

sed "s/\"outcome\":\"ack\"}' >&3/&; echo '{\"type\":\"result\",\"call\":\"'\$call'\",\"outcome\":\"ack\"}' >\&3/" \
    "$T/good" | worker_with
exits "a second result is a breach" 1 ctl plugin test "$T/x" --hostile
like "and named" "$OUT" "*which was answered before*"
sed 's/^read/echo "{\\"type\\":\\"pong\\",\\"id\\":\\"1\\"}" >\&3; read/' \
    "$T/good" | worker_with
exits "an answer before it is asked is a breach" 1 ctl plugin test "$T/x"
like "and named, too" "$OUT" "*pong before hello*"
worker_with <<'SH'
#!/bin/sh
exit 3
SH
exits "a worker that ends at once is told" 1 ctl plugin test "$T/x"
like "with its status" "$OUT" "*ended by itself: exit 3*"

# two handlers, of which the first never answers
sed "s/\"type\":\"deliver\"'/&*'\"handler\":\"fast\"'/" "$T/good" | worker_with
sed -i 's/deadline: 5s/deadline: 200ms/' "$T/x/plugin.yaml"
cat >>"$T/x/plugin.yaml" <<'YAML'
  fast:
    version: "1"
    subscribes: [{contract: a.b@v1}]
  try2:
    version: "1"
    subscribes: [{contract: a.b@v1}]
    deadline: 200ms
YAML
exits "a handler that never answers is exit 1" 1 ctl plugin test "$T/x"
like "killed after a cancel at its deadline" "$OUT" \
    '*> {"type":"cancel","call":"?","reason":"deadline"}*try2: no result*outcome crashed*'
like "while another is answered" "$OUT" "*fast: a result: outcome ok, verdict ack*"
exits "one handler can be asked for" 0 ctl plugin test "$T/x" --handler fast
is "and no other is run" "$(echo "$OUT" | grep -c '^try')" 0
is "nothing is left behind" "$(ls -d "$T"/outboxctl-test.* 2>/dev/null)" ""
