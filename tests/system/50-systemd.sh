#!/bin/sh
# The unit, under a real systemd: a container is booted from an overlay of this
# machine, with the built programs installed.  50-systemd.inside runs there.
. "$(dirname "$0")/lib.sh"
begin systemd

skip() {
	echo "# skipped: $*"
	exit 0
}

# ---- the unit by itself ----
if command -v systemd-analyze >/dev/null; then
	sed -e "s|/usr/sbin/outboxd|$OUTBOXD|" \
	    -e "s|/usr/bin/outboxctl|$OUTBOXCTL|" \
	    "$ROOT/systemd/outboxd.service" >"$T/outboxd.service"
	is "systemd-analyze has nothing to say about the unit" \
	    "$(systemd-analyze verify --man=no "$T/outboxd.service" 2>&1 |
		grep outboxd)" ""
	# what is above 2.0 is what it takes to change users
	passes "and its exposure is low" systemd-analyze security \
	    --offline=yes --threshold=22 "$T/outboxd.service"
else
	echo "# skipped: systemd-analyze is missing"
fi

# ---- a machine for it ----
[ "$(id -u)" -eq 0 ] || skip "only root can boot a container"
command -v systemd-nspawn >/dev/null || skip "systemd-nspawn is missing"
! ldd "$OUTBOXD" | grep -q libasan ||
	skip "the sandbox of the unit is too small for a sanitizer"
CGROUP=/sys/fs/cgroup/unified
[ -e $CGROUP/cgroup.procs ] || CGROUP=/sys/fs/cgroup
[ -w $CGROUP/cgroup.procs ] || skip "there is no cgroup v2 to use"
W=$T/w M=$T/w/m
CGROUP=$CGROUP/outboxd-boot-$$
mkdir "$W"
leave() {
	local status=$1 i=0
	[ -z "${BOOT:-}" ] || kill "$BOOT" 2>/dev/null
	while [ $i -lt 50 ] && ! rmdir "$CGROUP" 2>/dev/null &&
	    [ -e "$CGROUP" ]; do
		[ ! -e "$CGROUP/cgroup.kill" ] || echo 1 >"$CGROUP/cgroup.kill"
		find "$CGROUP" -depth -mindepth 1 -type d -exec rmdir {} + 2>/dev/null
		sleep 0.1
		i=$((i + 1))
	done
	umount -l "$M" 2>/dev/null
	umount -l "$W" 2>/dev/null
	finish "$status"
}
trap 'leave $?' EXIT
mount -t tmpfs tmpfs "$W" 2>/dev/null || skip "nothing can be mounted"
mkdir "$W/up" "$W/wk" "$M"
mount -t overlay overlay \
    -o "lowerdir=/,upperdir=$W/up,workdir=$W/wk" "$M" 2>/dev/null ||
	skip "there is no overlay file system"
mkdir "$CGROUP" || skip "no cgroup can be made"

nspawn() {
	sh -c "echo \$\$ >$CGROUP/cgroup.procs"'
	    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 exec timeout -k 5 180 systemd-nspawn "$@"' \
	    nspawn -q -D "$M" --register=no --keep-unit --private-network \
	    --system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self seccomp" \
	    -M outboxd-boot "$@" </dev/null
}
nspawn /bin/true >"$T/boot.log" 2>&1 ||
	skip "systemd-nspawn does not run here: $(tail -n 1 "$T/boot.log")"

# ---- what is on it ----
rm -rf "$M/etc/systemd/system/multi-user.target.wants" \
    "$M/usr/sbin/policy-rc.d" "$M/etc/outboxd" "$M/var/lib/outboxd"
mkdir -p "$M/etc/systemd/system/multi-user.target.wants" "$M/opt/boot"
make -s -C "$ROOT" install BUILD="$BUILD" DESTDIR="$M" prefix=/usr \
    >"$T/install.log" 2>&1 || { cat "$T/install.log" >&2; exit 70; }
cp "$ROOT/tests/system/50-systemd.inside" "$M/opt/boot/test"
plugin_make "$M/opt/boot/bundle" test.boot 1 run boot.made@v1 <<'SH'
#!/bin/sh
body=$(cat)
case $body in
*linger*)
	setsid sh -c 'sleep 1000' &
	sleep 1000 ;;
esac
echo "who=$(id -un) caps=$(sed -n 's/^CapEff:.//p' /proc/self/status) cgroup=$(sed -n 's/^0:://p' /proc/self/cgroup)"
SH
cat >"$M/etc/systemd/system/boot-test.service" <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=PG_BIN=$PG_BIN
ExecStart=/bin/sh /opt/boot/test
ExecStopPost=/usr/bin/systemctl --no-block poweroff
StandardOutput=file:/opt/boot/results
StandardError=file:/opt/boot/errors
[Install]
WantedBy=multi-user.target
UNIT
ln -s ../boot-test.service "$M/etc/systemd/system/multi-user.target.wants/"

# ---- boot ----
nspawn --boot >"$T/boot.log" 2>&1 &
BOOT=$!
wait $BOOT
BOOT=
if ! grep -q '^end' "$M/opt/boot/results" 2>/dev/null; then
	not_ok "the container runs its test to the end" \
	    "$(tail -n 20 "$T/boot.log")" "$(cat "$M/opt/boot/errors" 2>&1)" \
	    "$(cat "$M/opt/boot/results" 2>&1)"
fi
sed '/^end/d' "$M/opt/boot/results"
FAILED=$((FAILED + $(grep -c '^not ok' "$M/opt/boot/results" || :)))
