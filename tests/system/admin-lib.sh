# admin-lib.sh - the admin socket, for scripts that source daemon-lib.sh.

SOCKET= # set by with_admin

# with_admin [MORE]: the config's admin part; MORE as "group: x".
with_admin() {
	SOCKET=$T/admin.sock
	sed -i '/^admin:/d' "$T/outboxd.yaml"
	echo "admin: {socket: $SOCKET${1:+, $1}}" >>"$T/outboxd.yaml"
	chmod 755 "$T" # others must reach the socket, whose own mode is tested
}

# ask PATH [CURL ARG...]: the answer.
ask() {
	local path=$1
	shift
	curl -sS -m 10 --unix-socket "$SOCKET" "$@" "http://d$path" 2>&1
}

# code PATH [CURL ARG...]: its status.
code() {
	local path=$1
	shift
	curl -s -m 10 -o /dev/null -w '%{http_code}' --unix-socket "$SOCKET" \
	    "$@" "http://d$path"
}

answers() { # PATH STATUS: for wait_for
	[ "$(code "$1")" = "$2" ]
}

# metric NAME{LABELS}: its value now.
metric() {
	ask /metrics | awk -v want="$1" '{ value = $NF; sub(/ [^ ]*$/, "") }
	    $0 == want { print value }'
}
