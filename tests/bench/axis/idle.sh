# A daemon with nothing to do: its CPU, its statements a second, what the
# server spends on it, and its size; with one lane and with 100.

axis_idle() {
	bundle one 1 "$BUILD/bench/noop"
	configure 8
	for ROUND in $(seq "$ROUNDS"); do
		idle_case "1 lane"
	done
	bundle many 50 "$BUILD/bench/noop"
	bundle more 49 "$BUILD/bench/noop"
	for ROUND in $(seq "$ROUNDS"); do
		idle_case "100 lanes"
	done
	without many
	without more
}

idle_case() { # CASE
	local cpu server xacts seconds=$((SECONDS_EACH * 3)) began
	daemons 1
	sleep 6 # until it relies on NOTIFY
	began=$(now_ms)
	cpu=$(ticks "$DAEMON" also)
	server=$(server_ticks)
	xacts=$(idle_xacts)
	sleep "$seconds"
	xacts=$(($(idle_xacts) - xacts - 2)) # but for our own looks
	cpu=$(($(ticks "$DAEMON" also) - cpu))
	server=$(($(server_ticks) - server))
	began=$((($(now_ms) - began) / 1000))
	record "$1" outboxd "transactions per second" "$(div "$xacts" "$began" 2)"
	record "$1" outboxd "client CPU %" \
	    "$(div $((cpu * 100)) $((began * $(getconf CLK_TCK))) 3)"
	record "$1" outboxd "server CPU %" \
	    "$(div $((server * 100)) $((began * $(getconf CLK_TCK))) 3)"
	record "$1" outboxd "RSS kB" "$(rss_kb "$DAEMON")"
	stop_daemons
}

idle_xacts() {
	sleep 2 # sessions tell what they did about once a second
	sql "SELECT xact_commit + xact_rollback FROM pg_stat_database
	    WHERE datname = current_database()"
}
