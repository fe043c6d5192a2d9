#!/bin/sh
# The README's first plugin, as it stands there.
. "$(dirname "$0")/daemon-lib.sh"
begin_daemon readme
start_daemon "$T/outboxd.yaml"

# the first block of its section
sed -n '/^## Your first plugin/,$p' "$ROOT/README.md" |
    sed -n '/^```sh/,/^```$/{/^```$/q;/^```/!p}' >"$T/first.sh"
mkdir "$T/path"
printf '#!/bin/sh\nexec "%s" -c "%s" "$@"\n' "$OUTBOXCTL" "$T/outboxd.yaml" \
    >"$T/path/outboxctl"
chmod 755 "$T/path/outboxctl"
is "it has ten lines" "$(wc -l <"$T/first.sh")" 10
passes "it can be copied" env PATH="$T/path:$PATH" \
    sh -ec 'cd "$1" && . "$1/first.sh"' sh "$T"
sql "SELECT outbox.publish('order.paid', 'v1', '{\"order\": 17}',
    subject => 'order-17')" >/dev/null
passes "and what the README publishes reaches it" wait_for $SLOW \
    grep -q 'event=handler_output.*acme.hello.greet.*order-17' "$T/daemon.log"
