# outboxd - needs GNU make.  Objects and programs go to $(BUILD).
#
#   make                  build/outboxd, build/outboxctl, the SDK for C
#   make check            installs what is missing, builds, runs every suite
#   make demo             installs what is missing, builds, shows it working
#   make install          DESTDIR, prefix, bindir, sbindir, mandir, sysconfdir
#   make check-asan       unit and system suites under ASan and UBSan
#   make check-valgrind   the unit suite under valgrind
#   make bench            speed, beside other systems: tests/bench/run
#   make bench-micro      what single operations of the daemon cost
#   make fuzz             tests/fuzz by clang's libFuzzer, FUZZ_SECONDS=60 each
#   make format           clang-format; format-check only looks
#
# WERROR=1 makes warnings errors, SAN=1 builds with ASan and UBSan,
# BUILD=dir keeps such a build apart, CC=clang chooses the compiler, V=1 shows
# the commands.

MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL = all
.DELETE_ON_ERROR:
.SUFFIXES:

ifdef SAN
BUILD = build-asan
else
BUILD = build
endif

# These goals work, or begin, on a machine where nothing is installed yet.
BARE_GOALS = bootstrap check demo clean dist-clean format format-check
ifneq ($(filter-out $(BARE_GOALS),$(or $(MAKECMDGOALS),all)),)
include config.mk
endif

CSTD = -std=gnu11
WARN = -Wall -Wextra -Wno-unused-parameter
DEFS = -D_GNU_SOURCE -DOUTBOXD_VERSION='"$(VERSION)"' \
    -DOUTBOXD_SYSCONFDIR='"$(sysconfdir)"'
INCS = -Isrc $(PQ_CFLAGS) $(EVENT_CFLAGS) $(CJSON_CFLAGS) $(YAML_CFLAGS) \
    $(CRYPTO_CFLAGS) $(HTTP_CFLAGS)
LIBS = -Wl,--as-needed -lm $(PQ_LIBS) $(HTTP_LIBS) $(EVENT_LIBS) $(CJSON_LIBS) \
    $(YAML_LIBS) $(CRYPTO_LIBS)
HARDEN = -fstack-protector-strong -fPIE
HARDEN_LD = -pie -Wl,-z,relro,-z,now
ifndef V
Q = @
SAY = @echo " "
else
SAY = @:
endif
ifdef WERROR
WARN += -Werror
endif
ifdef SAN
HARDEN += -fsanitize=address,undefined -fno-sanitize-recover=undefined \
    -fno-omit-frame-pointer
HARDEN_LD += -fsanitize=address,undefined
endif
ifdef FUZZER
HARDEN += -fsanitize=fuzzer-no-link,address,undefined \
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer
HARDEN_LD += -fsanitize=address,undefined
FUZZ_LD = -fsanitize=fuzzer
else
FUZZ_OBJ = $(BUILD)/fuzz/replay.o
endif
COMPILE = $(CC) $(CSTD) $(WARN) $(HARDEN) $(CFLAGS) $(CPPFLAGS) $(DEFS) \
    $(INCS) -MMD -MP -c
LINK = $(CC) $(HARDEN) $(CFLAGS) $(HARDEN_LD) $(LDFLAGS)

# The daemon is src/*.c; outboxctl is src/ctl/*.c and what both share.
SHARED_SRC := $(wildcard $(patsubst %,src/%.c,config configkey configvalue \
    digest err event file frame greeting ids journal journald json log logline manifest \
    manifestjson reply store tuning units utf8 uuid xalloc yamldoc yamlval \
    cgroup child fsuser isolation landlock loop output policy run runenv \
    runner scratch seccomp stray))
DAEMON_SRC := $(wildcard src/*.c)
CTL_SRC := $(wildcard src/ctl/*.c)
# What plugin new writes; not what was made of it.
SDK_SRC := $(sort $(wildcard $(addprefix sdk/examples/,sh/plugin.yaml \
    sh/bin/hello c/plugin.yaml c/Makefile c/src/*.[ch] python/*.yaml \
    python/*.py node/*.yaml node/*.js)))
SDK_FILES = sdk/README.md sdk/c/outbox-plugin.c sdk/c/outbox-plugin.h \
    sdk/python/outbox_plugin.py sdk/node/outbox-plugin.js
SQL_SRC := $(sort $(wildcard sql/*.sql sql/schema/*.sql sql/function/*.sql \
    sql/view/*.sql))
DAEMON_OBJ = $(DAEMON_SRC:src/%.c=$(BUILD)/obj/%.o)
SHARED_OBJ = $(SHARED_SRC:src/%.c=$(BUILD)/obj/%.o)
CTL_OBJ = $(CTL_SRC:src/%.c=$(BUILD)/obj/%.o) $(SHARED_OBJ)
CTL_OBJ += $(BUILD)/gen/sql_files.o $(BUILD)/gen/sdk_files.o

TEST_SRC := $(wildcard tests/unit/test_*.c)
TEST_BIN = $(TEST_SRC:tests/unit/%.c=$(BUILD)/unit/%)
CTL_TEST_SRC := $(wildcard tests/unit/ctl/test_*.c)
CTL_TEST_BIN = $(CTL_TEST_SRC:tests/unit/ctl/%.c=$(BUILD)/unit/ctl/%)
TEST_HELPER_SRC := $(wildcard tests/unit/helper*.c)
TEST_HELPER_OBJ = $(TEST_HELPER_SRC:tests/unit/%.c=$(BUILD)/unit/%.o)
CONFIG_KEYS = $(patsubst %.c,$(BUILD)/lint/%,$(notdir \
    $(wildcard tests/lint/config-keys.c)))
# Helpers of the system suite: one C file, one program.
TOOL_SRC := $(wildcard tests/system/*.c tests/plugins/*.c)
TOOL_BIN = $(TOOL_SRC:%.c=$(BUILD)/%)
DB_SRC := $(filter-out tests/db/db.c,$(wildcard tests/db/*.c))
DB_BIN = $(DB_SRC:tests/db/%.c=$(BUILD)/db/%)

# Targets of tests/fuzz; a plain build only replays what is kept.
FUZZ_SRC := $(filter-out tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))
FUZZ_BIN = $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/fuzz/%)

SDK_LIB = $(BUILD)/sdk/liboutbox-plugin.a
SDK_TEST_BIN = $(BUILD)/sdk/host $(BUILD)/sdk/plugin
# Built with the tests, so that they go on to build.
BENCH_BIN = $(BUILD)/bench/calls $(BUILD)/bench/micro $(BUILD)/bench/noop \
    $(BUILD)/bench/publisher $(BUILD)/bench/rival $(BUILD)/bench/spawn \
    $(BUILD)/bench/spawnrate

.PHONY: all
all: $(BUILD)/outboxd $(BUILD)/outboxctl $(SDK_LIB)

$(BUILD)/outboxd: $(DAEMON_OBJ)
	$(SAY) ld $@
	$(Q)$(LINK) -o $@ $^ $(LIBS)

$(BUILD)/outboxctl: $(CTL_OBJ)
	$(SAY) ld $@
	$(Q)$(LINK) -o $@ $^ $(LIBS)

# The SDK stands by itself: nothing of src, and one library.
$(BUILD)/sdk/outbox-plugin.o: sdk/c/outbox-plugin.c config.mk
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(CC) $(CSTD) $(WARN) $(HARDEN) $(CFLAGS) $(CPPFLAGS) \
	    $(CJSON_CFLAGS) -MMD -MP -c -o $@ $<

$(SDK_LIB): $(BUILD)/sdk/outbox-plugin.o
	$(SAY) ar $@
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/obj/%.o: src/%.c config.mk
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -o $@ $<

$(BUILD)/gen/sql_files.c: src/ctl/embed $(SQL_SRC)
	@mkdir -p $(@D)
	src/ctl/embed sql $(SQL_SRC) > $@

$(BUILD)/gen/sdk_files.c: src/ctl/embed $(SDK_SRC)
	@mkdir -p $(@D)
	src/ctl/embed sdk $(SDK_SRC) > $@

$(BUILD)/gen/%_files.o: $(BUILD)/gen/%_files.c config.mk
	$(SAY) cc $@
	$(Q)$(COMPILE) -o $@ $<

# A file that has gone must be noticed: its text is embedded.
$(BUILD)/gen/sql_files.c: $(BUILD)/gen/sql_list
$(BUILD)/gen/sdk_files.c: $(BUILD)/gen/sdk_list
$(BUILD)/gen/sql_list: EMBEDDED = $(SQL_SRC)
$(BUILD)/gen/sdk_list: EMBEDDED = $(SDK_SRC)
$(BUILD)/gen/%_list: FORCE
	@mkdir -p $(@D)
	@echo '$(EMBEDDED)' | cmp -s - $@ || echo '$(EMBEDDED)' > $@

.PHONY: FORCE
FORCE:

# Tests

$(BUILD)/unit/%.o: tests/unit/%.c config.mk
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) $(CHECK_CFLAGS) -Itests/unit -o $@ $<

$(BUILD)/unit/ctl/%: $(BUILD)/unit/ctl/%.o $(TEST_HELPER_OBJ) \
    $(filter-out $(BUILD)/obj/ctl/main.o,$(CTL_OBJ))
	$(SAY) ld $@
	$(Q)$(LINK) -o $@ $^ $(LIBS) $(CHECK_LIBS)

$(BUILD)/unit/%: $(BUILD)/unit/%.o $(TEST_HELPER_OBJ) \
    $(filter-out $(BUILD)/obj/main.o,$(DAEMON_OBJ))
	$(SAY) ld $@
	$(Q)$(LINK) -o $@ $^ $(LIBS) $(CHECK_LIBS)

$(BUILD)/lint/config-keys: $(BUILD)/lint/config-keys.o $(SHARED_OBJ)
	$(SAY) ld $@
	$(Q)$(LINK) -o $@ $^ $(LIBS)

$(BUILD)/lint/%.o: tests/lint/%.c config.mk
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -o $@ $<

$(FUZZ_BIN): $(BUILD)/fuzz/%: $(BUILD)/fuzz/%.o $(FUZZ_OBJ) $(SHARED_OBJ)
	$(SAY) ld $@
	$(Q)$(LINK) $(FUZZ_LD) -o $@ $^ $(LIBS)

# The daemon's own.
$(BUILD)/fuzz/bus: $(patsubst %,$(BUILD)/obj/%.o,bus bustopic buswait)

$(BUILD)/fuzz/%.o: tests/fuzz/%.c config.mk
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -o $@ $<

$(DB_BIN): $(BUILD)/db/%: $(BUILD)/db/%.o $(BUILD)/db/db.o
	$(LINK) -o $@ $^ $(PQ_LIBS)

$(BUILD)/db/%.o: tests/db/%.c config.mk
	@mkdir -p $(@D)
	$(COMPILE) -o $@ $<

$(BUILD)/sdk/host: tests/sdk/host.c $(filter-out $(BUILD)/obj/main.o,$(DAEMON_OBJ))
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -o $@.o $<
	$(Q)$(LINK) -o $@ $@.o $(filter %.o,$^) $(LIBS)

$(BUILD)/sdk/plugin: tests/sdk/plugin.c $(SDK_LIB)
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -Isdk/c -o $@.o $<
	$(Q)$(LINK) -o $@ $@.o $(SDK_LIB) $(CJSON_LIBS)

# Plugins run behind walls that the sanitizers' own leak check does not pass.
$(TOOL_BIN): HARDEN := $(filter-out -fsanitize=% -fno-sanitize%,$(HARDEN))
$(TOOL_BIN): HARDEN_LD := $(filter-out -fsanitize=%,$(HARDEN_LD))
$(TOOL_BIN): $(BUILD)/%: %.c config.mk
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -o $@.o $<
	$(Q)$(LINK) -o $@ $@.o $(LIBS)

.PRECIOUS: $(BUILD)/db/%.o $(BUILD)/unit/%.o $(BUILD)/unit/ctl/%.o $(BUILD)/lint/%.o \
    $(BUILD)/fuzz/%.o

.PHONY: tests check check-run check-lint check-unit check-fuzz check-db \
    check-sdk check-system
tests: all $(TEST_BIN) $(CTL_TEST_BIN) $(CONFIG_KEYS) $(TOOL_BIN) $(DB_BIN) \
    $(SDK_TEST_BIN) $(FUZZ_BIN) \
    $(BENCH_BIN)

check: bootstrap
	+$(MAKE) --no-print-directory check-run

check-run: tests
	BUILD=$(BUILD) tests/run-all lint unit fuzz db sdk system

check-lint check-unit check-fuzz check-db check-sdk check-system: check-%: tests
	BUILD=$(BUILD) tests/run-all $*

.PHONY: check-asan check-valgrind
# The db suite runs SQL: nothing of it is compiled by us.
check-asan:
	+$(MAKE) --no-print-directory SAN=1 tests
	BUILD=build-asan tests/run-all unit fuzz sdk system

check-valgrind: tests
	BUILD=$(BUILD) VALGRIND=1 tests/run-all unit

.PHONY: fuzz fuzz-targets
fuzz-targets: $(FUZZ_BIN)

FUZZ_SECONDS = 60
fuzz:
	@echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	    clang -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null || \
	    { echo "fuzz: clang's libFuzzer is missing; install the Debian" \
	    "packages clang and libclang-rt-dev" >&2; exit 1; }
	+$(MAKE) --no-print-directory CC=clang BUILD=build-fuzz FUZZER=1 \
	    fuzz-targets
	BUILD=build-fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run-all fuzz

# What things cost here; see tests/bench.  AXES, ROUNDS, SIZE and PEERS are
# those of tests/bench/run.
.PHONY: bench bench-micro bench-spawn bench-calls
bench: all $(BENCH_BIN)
	BUILD=$(BUILD) tests/bench/run $(AXES)

bench-micro: $(BUILD)/bench/micro
	tests/bench/micro.sh $(BUILD)

bench-spawn: $(BUILD)/bench/spawn
	$(BUILD)/bench/spawn

bench-calls: $(BUILD)/bench/calls $(BUILD)/bench/noop
	tests/bench/calls.sh $(BUILD)

$(BUILD)/bench/noop: tests/bench/noop/noop.c $(SDK_LIB)
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -Isdk/c -o $@.o $<
	$(Q)$(LINK) -o $@ $@.o $(SDK_LIB) $(CJSON_LIBS)

$(BUILD)/bench/%: tests/bench/%.c $(filter-out $(BUILD)/obj/main.o,$(DAEMON_OBJ))
	@mkdir -p $(@D)
	$(SAY) cc $@
	$(Q)$(COMPILE) -o $@.o $<
	$(Q)$(LINK) -o $@ $@.o $(filter %.o,$^) $(LIBS)

# Everything else

.PHONY: bootstrap demo
bootstrap:
	@.ci/bootstrap

demo: bootstrap
	+@$(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tests/demo/run

configure: configure.ac
	@command -v autoconf >/dev/null || { echo "autoconf is missing;" \
	    "install the Debian package autoconf, or run .ci/bootstrap" >&2; \
	    exit 1; }
	autoconf

config.mk: configure config.mk.in
	./configure $(CONFIGURE_FLAGS)

FORMAT_SRC = $(shell find src tests sdk -name '*.[ch]' 2>/dev/null)
.PHONY: format format-check
format:
	clang-format -i $(FORMAT_SRC)

format-check:
	clang-format --dry-run --Werror $(FORMAT_SRC)

INSTALL = install
MAN_SECTIONS = 1 5 7 8
SED_PATHS = sed -e 's|/usr/sbin/outboxd|$(sbindir)/outboxd|g' \
    -e 's|/usr/bin/outboxctl|$(bindir)/outboxctl|g'

.PHONY: install
install: all
	$(INSTALL) -d $(DESTDIR)$(sbindir) $(DESTDIR)$(bindir) \
	    $(DESTDIR)$(datadir)/outboxd $(DESTDIR)$(sysconfdir)/outboxd \
	    $(DESTDIR)/var/lib/outboxd/plugins
	$(INSTALL) -m 755 $(BUILD)/outboxd $(DESTDIR)$(sbindir)
	$(INSTALL) -m 755 $(BUILD)/outboxctl $(DESTDIR)$(bindir)
	for f in $(SQL_SRC); do \
	    $(INSTALL) -D -m 644 $$f $(DESTDIR)$(datadir)/outboxd/$$f || exit; \
	done
	$(INSTALL) -D -m 644 $(SDK_LIB) \
	    $(DESTDIR)$(libdir)/liboutbox-plugin.a
	$(INSTALL) -D -m 644 sdk/c/outbox-plugin.h \
	    $(DESTDIR)$(includedir)/outbox-plugin.h
	$(INSTALL) -d $(DESTDIR)$(libdir)/pkgconfig
	sed -e 's|@VERSION@|$(VERSION)|' -e 's|@prefix@|$(prefix)|' \
	    -e 's|@libdir@|$(libdir)|' -e 's|@includedir@|$(includedir)|' \
	    sdk/c/outbox-plugin.pc.in \
	    > $(DESTDIR)$(libdir)/pkgconfig/outbox-plugin.pc
	for f in $(SDK_FILES); do \
	    $(INSTALL) -D -m 644 $$f $(DESTDIR)$(datadir)/outboxd/$$f || exit; \
	done
	for f in $(SDK_SRC); do \
	    m=644; test ! -x $$f || m=755; \
	    $(INSTALL) -D -m $$m $$f $(DESTDIR)$(datadir)/outboxd/$$f || exit; \
	done
	for s in $(MAN_SECTIONS); do \
	    for f in man/*.$$s; do \
		test ! -e $$f || $(INSTALL) -D -m 644 $$f \
		    $(DESTDIR)$(mandir)/man$$s/$${f#man/} || exit; \
	    done; \
	done
	$(INSTALL) -m 644 etc/outboxd.yaml \
	    $(DESTDIR)$(datadir)/outboxd/outboxd.yaml
	$(INSTALL) -m 644 etc/grafana-outboxd.json \
	    etc/prometheus-outboxd.rules.yaml $(DESTDIR)$(datadir)/outboxd
	test -e $(DESTDIR)$(sysconfdir)/outboxd/outboxd.yaml || \
	    { sed 's|^  user: ""|  user: outboxd-plugin|' etc/outboxd.yaml \
		> $(DESTDIR)$(sysconfdir)/outboxd/outboxd.yaml && \
	    chmod 640 $(DESTDIR)$(sysconfdir)/outboxd/outboxd.yaml; }
	if test -e systemd/outboxd.service; then \
	    $(INSTALL) -d $(DESTDIR)$(unitdir) && \
	    $(SED_PATHS) systemd/outboxd.service \
		> $(DESTDIR)$(unitdir)/outboxd.service; \
	    $(INSTALL) -D -m 644 systemd/outboxd.sysusers \
		$(DESTDIR)$(prefix)/lib/sysusers.d/outboxd.conf; \
	fi

.PHONY: clean dist-clean
clean:
	rm -rf build build-*

dist-clean: clean
	rm -rf config.mk config.log config.status configure configure~ \
	    autom4te.cache

-include $(wildcard $(BUILD)/obj/*.d $(BUILD)/obj/ctl/*.d \
    $(BUILD)/unit/*.d $(BUILD)/unit/ctl/*.d $(BUILD)/lint/*.d $(BUILD)/db/*.d \
    $(BUILD)/sdk/*.d $(BUILD)/fuzz/*.d)
