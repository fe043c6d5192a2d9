#!/bin/sh
# sdk: what plugin new writes is installed, and the real daemon delivers to it.
. "$(dirname "$0")/lib.sh"
begin sdk-daemon
TMPDIR=$T
export TMPDIR
ctl schema install >/dev/null 2>&1
ctl contract add example.happened@v1 >/dev/null
daemon_config "$T/outboxd.yaml" "dispatch: {retry: {base: 100ms, cap: 200ms}}"

langs=
for lang in sh c python node; do
	case $lang in
	python) runtime=python3 ;;
	c) runtime=sh ;;
	*) runtime=$lang ;;
	esac
	if ! PATH=/usr/local/bin:/usr/bin:/bin command -v $runtime >/dev/null
	then
		echo "# skipped: $runtime is missing"
		continue
	fi
	langs="$langs $lang"
	ctl plugin new "$T/$lang" --lang $lang >/dev/null
	[ $lang != c ] || make -s -C "$T/c" CC="${CC:-cc}"
	ctl plugin install "$T/$lang" --store "$STORE" >/dev/null &&
	    ctl plugin activate "example.$lang@1" --grant-all >/dev/null ||
	    not_ok "$lang is installed"
done

publish() { # BODY: the id
	echo "$1" | ctl publish example.happened@v1
}

# settled EVENT WANTED: of each subscriber.
settled() {
	sql_is "$(for lang in $langs; do echo "example.$lang.hello $2"; done |
	    sort)" "SELECT subscriber_id || ' ' || status
	    FROM outbox.deliveries WHERE event_id = '$1' ORDER BY 1"
}

fine=$(publish '{"steps": 3, "exact": 123456789012345678901234567890}')
sorry=$(publish '{"sorry":true}')
start_daemon "$T/outboxd.yaml"

wait_for 20 settled "$fine" delivered
for lang in $langs; do
	is "$lang: what it acknowledges is delivered" \
	    "$(sql "SELECT status FROM outbox.deliveries
		WHERE event_id = '$fine' AND subscriber_id = 'example.$lang.hello'")" \
	    delivered
	is "$lang: what it is sorry for is tried later, as it said" \
	    "$(sql "SELECT status || ' ' ||
		(available_at > now() + interval '30 s')
		FROM outbox.deliveries WHERE event_id = '$sorry'
		AND subscriber_id = 'example.$lang.hello'")" "pending true"
	is "$lang: with its reason" \
	    "$(sql "SELECT last_error LIKE '%not yet%' FROM outbox.deliveries
		WHERE event_id = '$sorry' AND subscriber_id = 'example.$lang.hello'")" \
	    t
done

before=$(sql "SELECT count(*) FROM outbox.deliveries WHERE status = 'delivered'")
i=0
while [ $i -lt 30 ]; do
	i=$((i + 1))
	echo '{}'
done | while read -r body; do publish "$body"; done >/dev/null
wait_for 30 sql_is $((before + 30 * $(echo $langs | wc -w))) \
    "SELECT count(*) FROM outbox.deliveries WHERE status = 'delivered'"
is "thirty more are delivered to each" \
    "$(sql "SELECT count(*) FROM outbox.deliveries WHERE status = 'delivered'")" \
    $((before + 30 * $(echo $langs | wc -w)))
is "and nothing was a crash or a breach" \
    "$(sql "SELECT count(*) FROM outbox.attempts
	WHERE outcome IN ('crashed', 'protocol_error', 'bad_result')")" 0
stop_daemon
is "the daemon stops with 0" $? 0
