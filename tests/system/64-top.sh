#!/bin/sh
# outboxctl top: one page for scripts, and a screen that is left as it was.
. "$(dirname "$0")/daemon-lib.sh"
. "$(dirname "$0")/admin-lib.sh"
begin_daemon top
with_admin
handler quick "concurrency: 8" </dev/null
handler slow "concurrency: 1" <<-'SH'
	while [ ! -e "$T/go" ]; do sleep 0.1; done
SH
start_daemon "$T/outboxd.yaml" || exit 1
wait_for $SLOW test -S "$SOCKET"
publish slow 5 >/dev/null
publish quick 3 >/dev/null
wait_for $SLOW sql_is 3 "SELECT count(*) FROM outbox.deliveries
    WHERE subscriber_id = 'test.quick.run' AND status = 'delivered'"

# ---- one page ----
top() {
	ctl -c "$T/outboxd.yaml" top "$@"
}
page_has() { # PATTERN [ARG...]: for wait_for
	local pattern=$1
	shift
	top --once "$@" 2>&1 | grep -Eq "$pattern"
}
exits "--once is 0" 0 top --once
like "it says that it asks the socket" "$OUT" "outboxctl top*from the socket*"
like "it tells of the daemon" "$OUT" "*daemon * pid $DAEMON,*"
like "of links and duties" "$OUT" "*claim up*duties*heartbeat*"
passes "of lanes, with depth and what is in flight" wait_for $SLOW page_has \
    '^test\.slow\.run@1 +[0-9]+ +[0-9.]+s +1/1 '
is "without escape sequences" "$(top --once | tr -cd '\033' | wc -c)" 0
exits "not a terminal: one page, too" 0 top
like "the same" "$OUT" "*test.quick.run@1 *"
exits "an interval that is none is 64" 64 top --interval 5
exits "one that is too short is 64" 64 top --interval 1ms

exits "from the database with --conninfo" 0 ctl --conninfo \
    "host=$PGHOST port=$PGPORT user=$PGUSER dbname=$PGDATABASE" top --once
like "and it says so" "$OUT" "*from the database*pid $DAEMON*test.slow.run@1*"
exits "neither socket nor database is 69" 69 env PGHOST="$T" "$OUTBOXCTL" \
    --conninfo "host=$T" top --once

# ---- status ----
exits "status is 0" 0 ctl -c "$T/outboxd.yaml" --json status
is "and tells of links" "$(json "$OUT" links,0,link)" claim
is "and duties, with the age of the last success" \
    "$([ "$(json "$OUT" duties,0,age_ms)" -lt 60000 ] && echo yes)" yes
exits "status for people is 0, too" 0 ctl -c "$T/outboxd.yaml" status
like "and tells the same" "$OUT" "*link claim up*duty heartbeat, done *"
exits "without a socket it is 0 as before" 0 ctl --conninfo \
    "host=$PGHOST port=$PGPORT user=$PGUSER dbname=$PGDATABASE" --json status
is "and links are null" "$(json "$OUT" links)" ""

# ---- SIGUSR1 ----
logged() { # PATTERN: for wait_for
	grep -Eq "$1" "$T/daemon.log"
}
kill -USR1 "$DAEMON"
passes "SIGUSR1 logs what waits in each lane" wait_for $SLOW logged \
    'state_depth.*test\.slow\.run.*oldest_ms'
passes "and duties and links" logged 'state_duty.*heartbeat'

# ---- the screen ----
if ! command -v tmux >/dev/null; then
	echo "# skipped: tmux is missing, so nothing was seen on a screen"
	exit 0
fi
MUX="tmux -S $T/tmux -f /dev/null"
$MUX new-session -d -x 100 -y 24 -s t \
    "env PS1='shell> ' HISTFILE= sh -i" || exit 70
MUX_PID=$($MUX display-message -p '#{pid}')
DAEMONS="$DAEMONS $MUX_PID"

screen() {
	$MUX capture-pane -p -t t
}
shows() { # PATTERN: for wait_for
	screen | grep -Eq "$1"
}
above() { # A B: for wait_for
	screen | awk -v a="$1" -v b="$2" 'index($0, a) && !x { x = NR }
	    index($0, b) && !y { y = NR } END { exit !(x && y && x < y) }'
}
lacks() {
	! shows "$1"
}
keys() {
	$MUX send-keys -t t "$@"
}
start_top() {
	keys "stty -g | cksum; $OUTBOXCTL -c $T/outboxd.yaml top --interval 200ms; echo ended \$?; stty -g | cksum" Enter
	wait_for $SLOW shows '^test\.slow\.run@1'
}
# The terminal's modes before and after are the same, the cursor is there.
restored() {
	[ "$(screen | grep -E '^[0-9]+ [0-9]+$' | tail -2 | sort -u | wc -l)" = 1 ] &&
	    [ "$($MUX display-message -p -t t '#{alternate_on}#{cursor_flag}')" = 01 ]
}

wait_for $SLOW shows 'shell>'
passes "top shows the lanes" start_top
is "on the other screen, without the cursor" \
    "$($MUX display-message -p -t t '#{alternate_on}#{cursor_flag}')" 10
passes "the deepest first" wait_for $SLOW above test.slow.run@1 test.quick.run@1
keys ssss
passes "s sorts: by name" wait_for $SLOW above test.quick.run@1 test.slow.run@1
passes "and says so" wait_for $SLOW shows 'by name'
keys /qui
passes "/ filters while it is typed" wait_for $SLOW lacks '^test\.slow'
passes "and shows the rest" shows '^test\.quick\.run@1'
keys Enter
passes "Enter keeps it" wait_for $SLOW shows '1 of 2.*with qui'
keys Escape
passes "Esc clears it" wait_for $SLOW shows '^test\.slow'
keys '?'
passes "? helps" wait_for $SLOW shows 'this, and back'
keys '?'
passes "and is gone again" wait_for $SLOW shows '^test\.slow'
keys p
passes "p pauses" wait_for $SLOW shows PAUSED
clock=$(screen | head -1)
sleep 1.2
is "nothing is asked then" "$(screen | head -1)" "$clock"
keys p
passes "and p goes on" wait_for $SLOW lacks 'PAUSED$'
$MUX resize-window -t t -x 40 -y 10
passes "a smaller screen gets a smaller page" wait_for $SLOW shows \
    's sort  / filter  Esc clear  p pause'
is "of as many lines" "$(screen | wc -l)" 10
like "that begins with its first line" "$(screen | head -1)" "outboxctl top*"
$MUX resize-window -t t -x 120 -y 30
passes "and a bigger one a bigger page" wait_for $SLOW shows 'LAST ERROR'
: >"$T/go"
passes "what changes is seen" wait_for $SLOW shows '^test\.slow\.run@1 +0 '
pid=$(pgrep -P "$($MUX display-message -p -t t '#{pane_pid}')" outboxctl)
kill -TSTP "$pid"
passes "a stop gives the shell its screen back" wait_for $SLOW \
    eval '[ "$($MUX display-message -p -t t "#{alternate_on}#{cursor_flag}")" = 01 ]'
keys "fg; echo ended \$?; stty -g | cksum" Enter
passes "and fg the page" wait_for $SLOW shows '^test\.slow\.run@1'
is "on the other screen, without the cursor" \
    "$($MUX display-message -p -t t '#{alternate_on}#{cursor_flag}')" 10
keys q
passes "q ends it with 0" wait_for $SLOW shows '^ended 0'
passes "and the terminal is as it was" wait_for $SLOW restored

for signal in TERM INT HUP SEGV; do
	keys clear Enter
	wait_for $SLOW lacks ended
	start_top
	pid=$(pgrep -P "$($MUX display-message -p -t t '#{pane_pid}')" outboxctl)
	kill "-$signal" "$pid"
	passes "SIG$signal ends it" wait_for $SLOW shows 'ended 1|^shell>$'
	passes "and the terminal has its screen and cursor back" wait_for $SLOW \
	    eval '[ "$($MUX display-message -p -t t "#{alternate_on}#{cursor_flag}")" = 01 ]'
	keys "echo modes; stty -a | grep -Eo -- ' (-?icanon|-?echo) ' | paste -sd:" Enter
	passes "and its modes" wait_for $SLOW shows '^ icanon : echo'
done

keys clear Enter
wait_for $SLOW lacks ended
start_top
stop_daemon
passes "a daemon that ends: the database tells on" wait_for $SLOW shows \
    'from the database'
passes "that no daemon is alive" wait_for $SLOW shows 'none is alive'
keys q
wait_for $SLOW shows 'ended 0'
$MUX kill-server
