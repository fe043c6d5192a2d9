#!/bin/sh
# plugin: from a directory to the store, through its states, and out again.
. "$(dirname "$0")/lib.sh"
begin ctl-plugin
ctl schema install >/dev/null 2>&1
ctl contract add shop.ordered@v1 >/dev/null

make_version() { # VERSION
	plugin_make "$T/p$1" acme.mail "$1" send shop.ordered@v1 <<-SH
		#!/bin/sh
		echo version $1 >&2
	SH
}
make_version 1
make_version 2

entry() { # DIGEST: its place in the store
	echo "$STORE/$(echo "$1" | tr : -)"
}

# check needs no database
exits "check is 0 without a database" 0 env PGHOST=/nowhere "$OUTBOXCTL" \
    --json plugin check "$T/p1"
d1=$(json "$OUT" artifact_digest)
like "and prints the digest" "$d1" "sha256:????????????????????????????????????????????????????????????????"
is "and the handlers" "$(json "$OUT" manifest,handlers,send,version)" 1
d2=$(ctl --json plugin check "$T/p2" | tr , '\n' |
    sed -n 's/.*"artifact_digest":"\(.*\)".*/\1/p')
exits "for people too" 0 ctl plugin check "$T/p1"
like "with what it needs granted" "$OUT" \
    "*acme.mail.send needs event.subscribe shop.ordered@v1*"
exits "a directory without a manifest is 65" 65 ctl plugin check "$T"
cp -r "$T/p1" "$T/bad"
echo "colour: red" >>"$T/bad/plugin.yaml"
exits "an unknown key is 65" 65 ctl plugin check "$T/bad"
like "with line and column" "$ERR" "*plugin.yaml:*:1*colour*"
sed 's/scope: .*/effects: required/' "$T/p1/plugin.yaml" >"$T/bad/plugin.yaml"
exits "what is not built is 65" 65 ctl plugin check "$T/bad"
like "and named so" "$ERR" "*not in this version*"
cp -r "$T/p1" "$T/worker"
sed 's/protocol: exec/protocol: worker/; s/command: .*/&\ninstances: 0/' \
    "$T/p1/plugin.yaml" >"$T/worker/plugin.yaml"
exits "a worker is checked" 65 ctl plugin check "$T/worker"
like "with line and column" "$ERR" "*plugin.yaml:5:12*instances*"
sed 's/instances: 0/instances: 2/' "$T/worker/plugin.yaml" >"$T/yaml"
mv "$T/yaml" "$T/worker/plugin.yaml"
exits "and taken" 0 ctl plugin check "$T/worker"
like "as what it is" "$OUT" "acme.mail@1, worker/1*"
chmod 644 "$T/worker/bin/handle"
exits "a command that cannot be executed is 65" 65 ctl plugin check "$T/worker"
like "with line and column of the command" "$ERR" "*plugin.yaml:4:11*bin/handle*"

# install
exits "install of a bad bundle is 65" 65 ctl plugin install "$T/bad" --store "$STORE"
is "and leaves the store empty" "$(ls "$STORE")" ""
exits "install is 0" 0 ctl --json plugin install "$T/p1" --store "$STORE"
is "and answers installed" "$(json "$OUT" answer)" installed
is "with the digest of check" "$(json "$OUT" artifact_digest)" "$d1"
is "the bundle is in the store" \
    "$([ -x "$(entry "$d1")/bin/handle" ] && echo yes)" yes
exits "again is 0" 0 ctl --json plugin install "$T/p1" --store "$STORE"
is "and answers already" "$(json "$OUT" answer)" already
echo "# changed" >>"$T/p1/bin/handle"
exits "the same version with another digest is 1" 1 \
    ctl --json plugin install "$T/p1" --store "$STORE"
is "with its code" "$(json "$ERR" error,code)" OB032
is "and its copy is gone again" "$(ls "$STORE" | wc -l)" 1
daemon_config "$T/outboxd.yaml"
exits "the store may come from the config" 0 \
    ctl -c "$T/outboxd.yaml" plugin install "$T/p2"
exits "list is 0" 0 ctl --json plugin list
is "and shows both" "$(echo "$OUT" | wc -l)" 2
exits "show is 0" 0 ctl --json plugin show acme.mail@1
is "and tells the state" "$(json "$OUT" state)" inactive
is "and the targets" "$(json "$OUT" targets,0,subscriber_id)" acme.mail.send
exits "show of what is not there is 1" 1 ctl plugin show acme.none

# activate, upgrade
exits "activate with two ways at once is 64" 64 \
    ctl plugin activate acme.mail@1 --grant-all --without-grants
exits "--workspace alone is 64" 64 ctl plugin activate acme.mail@1 --workspace w
exits "activate --grant-all is 0" 0 ctl plugin activate acme.mail@1 --grant-all
is "and has granted" "$(sql "SELECT workspace FROM outbox.grants")" default
event=$(echo '{}' | ctl publish shop.ordered@v1)
exits "an upgrade without grants is 1" 1 ctl plugin activate acme.mail@2
exits "an upgrade with --same-grants is 0" 0 ctl plugin activate acme.mail@2 --same-grants
exits "show without a version is the active one" 0 ctl --json plugin show acme.mail
is "the new" "$(json "$OUT" plugin_version)" 2
is "the old one is retained" "$(sql "SELECT state FROM outbox.installations
    WHERE plugin_version = '1'")" retained
is "and owes what it owed" "$(sql "SELECT plugin_version FROM outbox.deliveries")" 1

# remove
exits "what is active is not removed" 1 ctl plugin remove acme.mail@2 --store "$STORE"
exits "deactivate is 0" 0 ctl plugin deactivate acme.mail@1
exits "what is owed still is not removed" 1 \
    ctl --json plugin remove acme.mail@1 --store "$STORE"
is "with its code" "$(json "$ERR" error,code)" OB035
is "and its entry stays" "$([ -d "$(entry "$d1")" ] && echo yes)" yes
exits "retain is 0" 0 ctl plugin retain acme.mail@1
exits "a discard ends what is owed" 0 ctl delivery discard "$event" acme.mail.send \
    --reason "test"
ctl plugin deactivate acme.mail@1 >/dev/null
exits "and then it is removed" 0 ctl plugin remove acme.mail@1 --store "$STORE"
is "with its entry" "$([ -e "$(entry "$d1")" ] || echo gone)" gone
is "and no other" "$([ -d "$(entry "$d2")" ] && echo yes)" yes
exits "again is 1" 1 ctl plugin remove acme.mail@1 --store "$STORE"
exits "deactivate without a version is the active one" 0 ctl plugin deactivate acme.mail
is "the other" "$(sql "SELECT state FROM outbox.installations
    WHERE plugin_version = '2'")" inactive
exits "an unknown plugin is 1" 1 ctl plugin activate acme.none@1
exits "people get tables" 0 ctl plugin list
like "with a head" "$OUT" "plugin_id *plugin_version *state *"
exits "and the show of a version" 0 ctl plugin show acme.mail@2
like "with its grants" "$OUT" "*event.subscribe*shop.ordered@v1*"
