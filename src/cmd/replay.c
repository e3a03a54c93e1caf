/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir replay`: a log through policies, in the log's own time, on the core and the store that a
 * server would use. It reads the command line, runs the lines through, and says what was wrong with
 * them. It must not know how anything is decided. */

#define _GNU_SOURCE /* getopt_long */

#include "cmd/cmd.h"

#include "cmd/replay_keys.h"
#include "cmd/replay_lines.h"
#include "cmd/replay_print.h"
#include "codec/logline.h"
#include "port/port.h"
#include "service/zones.h"

#include <weir/weir_store.h>

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    STATUS_FAILED = 1,
    STATUS_USAGE = 2,
    POLICIES_MAX = 64,
    TOP_DEFAULT = 10,
    TOP_MAX = 1000000,
    BAD_LINES_SHOWN = 5,
    STORE_MIB = 1024,
    PROGRESS_LINES = 4096, /* between two looks at the clock */
    PROGRESS_NS = 100000000,
};

static const char help[] =
    "Usage: weir replay --policy TEXT [OPTION]... FILE|-\n"
    "\n"
    "Runs a log through policies, in the log's own time, and says who would have\n"
    "been denied. Nothing is limited by it: it only reads.\n"
    "\n"
    "  --policy TEXT      a policy, like 'gcra 100/m burst 20'; may be given again:\n"
    "                     each request goes through every policy by itself\n"
    "  --format FORMAT    combined, common, tsv or jsonl; by default what the lines\n"
    "                     look like:\n"
    "                       combined, common  access logs of Apache, nginx and others\n"
    "                       tsv               t_ns TAB key [TAB cost]\n"
    "                       jsonl             {\"t_ns\": 0, \"key\": \"a\", \"cost\": 1}, or\n"
    "                                         \"time\": \"2026-01-02T03:04:05Z\" for t_ns\n"
    "  --key FIELD        what to limit by. combined, common: host (default), ident,\n"
    "                     user, method, path, uri, protocol, status, bytes, referer,\n"
    "                     agent; jsonl: a member (default key)\n"
    "  --cost FIELD       what a request costs: a field, like bytes; jsonl: a member\n"
    "                     (default cost). Without it a request costs 1\n"
    "  --decisions jsonl  print every decision as a line of JSON; the table then goes\n"
    "                     to standard error. Bytes that are not UTF-8 become U+FFFD\n"
    "  --top N            how many denied keys to list (default 10)\n"
    "  --strict           end at the first line that cannot be read\n"
    "  --help             this text\n"
    "\n"
    "A line that is earlier than one before it is decided at the latest time seen.\n"
    "Exit status: 0 done, 1 something failed, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir replay --policy 'gcra 100/m burst 20' access.log\n"
    "  weir replay --policy 'fixed-window 1000/day tz Europe/Berlin' \\\n"
    "              --policy 'sliding-log 1000/d' --key user access.log\n"
    "  zcat access.log.*.gz | weir replay --policy 'gcra 1000000/s burst 9000000' \\\n"
    "              --cost bytes --decisions jsonl - > decisions.jsonl\n";

typedef struct options {
    const char *policy[POLICIES_MAX];
    size_t policies;
    const char *format, *key, *cost; /* NULL if not given */
    const char *path;
    size_t top;
    bool decisions, strict, help;
} options;

typedef struct rule {
    weir_policy policy;
    uint64_t id;
    uint64_t denied;
    char text[WEIR_POLICY_TEXT_MAX]; /* canonical */
} rule;

typedef struct progress {
    bool wanted, shown;
    int64_t begun_ns, last_ns;
} progress;

typedef struct replay {
    options options;
    weir_zone_book *zones;
    weir_store *store;
    rule *rules;
    replay_lines in;
    weir_logline_format format;
    bool format_known;
    weir_record record;
    replay_keys *keys;
    replay_out *out;
    progress progress;
    int64_t latest_ns;
    uint64_t requests, went_back, bad;
    const char *hint_format; /* what the first bad line could be read as; or NULL */
} replay;

/* ---- messages -------------------------------------------------------------------------------- */

/* Says what is wrong, in one line; returns `status`. */
__attribute__((format(printf, 2, 3))) static int complain(int status, const char *text, ...)
{
    va_list args;
    va_start(args, text);
    fputs("weir replay: ", stderr);
    vfprintf(stderr, text, args);
    fputs("\n", stderr);
    va_end(args);
    return status;
}

static int complain_memory(void)
{
    return complain(STATUS_FAILED, "the memory is full");
}

static int complain_output(const replay_out *out)
{
    return complain(STATUS_FAILED, "standard %s: %s", out->fd == STDERR_FILENO ? "error" : "output",
                    strerror(out->error));
}

static void erase_progress(progress *p)
{
    if (p->shown)
        fputs("\r\033[K", stderr);
    p->shown = false;
}

/* Shows how far it is, if that was not done a moment ago. */
static void show_progress(progress *p, const replay_lines *in)
{
    enum { BAR_COLS = 40 };
    int64_t now_ns = port_now_ns();
    if (now_ns >= p->last_ns && now_ns - p->last_ns < PROGRESS_NS)
        return;
    p->last_ns = now_ns;
    int64_t elapsed_ns = now_ns > p->begun_ns ? now_ns - p->begun_ns : 1;
    int64_t done = in->bytes_read < in->size ? in->bytes_read : in->size;
    char bar[BAR_COLS + 1];
    for (int64_t i = 0; i < BAR_COLS; i++)
        bar[i] = (i + 1) * in->size <= done * BAR_COLS ? '#' : '.';
    bar[BAR_COLS] = '\0';
    fprintf(stderr, "\r[%s] %3" PRId64 "%%  %" PRId64 " MB/s\033[K", bar, done * 100 / in->size,
            in->bytes_read * 1000 / elapsed_ns);
    p->shown = true;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int add_policy(options *o, const char *text)
{
    if (o->policies == POLICIES_MAX)
        return complain(STATUS_USAGE, "--policy: at most %d of them", POLICIES_MAX);
    o->policy[o->policies++] = text;
    return 0;
}

static int set_top(options *o, const char *text)
{
    size_t n = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && n <= TOP_MAX; at++)
        n = n * 10 + (size_t)(*at - '0');
    if (at == text || *at || n > TOP_MAX)
        return complain(STATUS_USAGE, "--top: expected a number from 0 to %d, found '%s'", TOP_MAX,
                        text);
    o->top = n;
    return 0;
}

static int set_decisions(options *o, const char *text)
{
    if (strcmp(text, "jsonl") != 0)
        return complain(STATUS_USAGE, "--decisions: expected jsonl, found '%s'", text);
    o->decisions = true;
    return 0;
}

/* What getopt found to be wrong; argv[at - 1] is where it stands. */
static int bad_option(int c, int option, char **argv, int at)
{
    if (c == ':')
        return complain(STATUS_USAGE, "%s needs a value", argv[at - 1]);
    if (option > 0 && option < 256)
        return complain(STATUS_USAGE, "unknown option '-%c'; see weir replay --help", option);
    if (option >= 256)
        return complain(STATUS_USAGE, "%s: it takes no value", argv[at - 1]);
    return complain(STATUS_USAGE, "unknown option '%s'; see weir replay --help", argv[at - 1]);
}

enum { OPT_POLICY = 256, OPT_FORMAT, OPT_KEY, OPT_COST, OPT_DECISIONS, OPT_TOP, OPT_STRICT };

static int set_option(options *o, int c, const char *value)
{
    switch (c) {
    case OPT_POLICY:
        return add_policy(o, value);
    case OPT_FORMAT:
        o->format = value;
        return 0;
    case OPT_KEY:
        o->key = value;
        return 0;
    case OPT_COST:
        o->cost = value;
        return 0;
    case OPT_DECISIONS:
        return set_decisions(o, value);
    case OPT_TOP:
        return set_top(o, value);
    case OPT_STRICT:
        o->strict = true;
        return 0;
    default:
        o->help = true;
        return 0;
    }
}

/* What must be there in the end. */
static int check_options(options *o, int argc, char **argv, int at)
{
    if (o->policies == 0)
        return complain(STATUS_USAGE, "--policy is missing, like --policy 'gcra 100/m burst 20'");
    if (at == argc)
        return complain(STATUS_USAGE, "FILE is missing; '-' is the standard input");
    if (argc - at > 1)
        return complain(STATUS_USAGE,
                        "expected one FILE, found also '%s'; '-' reads what cat "
                        "joins",
                        argv[at + 1]);
    o->path = argv[at];
    return 0;
}

static int read_options(options *ret, int argc, char **argv)
{
    static const struct option known[] = {
        {"policy", required_argument, NULL, OPT_POLICY},
        {"format", required_argument, NULL, OPT_FORMAT},
        {"key", required_argument, NULL, OPT_KEY},
        {"cost", required_argument, NULL, OPT_COST},
        {"decisions", required_argument, NULL, OPT_DECISIONS},
        {"top", required_argument, NULL, OPT_TOP},
        {"strict", no_argument, NULL, OPT_STRICT},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    options o = {.top = TOP_DEFAULT};
    int status = 0, c;
    optind = 0; /* begins anew: main may have used it */
    opterr = 0;
    while (status == 0 && !o.help && (c = getopt_long(argc, argv, ":h", known, NULL)) != -1) {
        if (c == '?' || c == ':')
            return bad_option(c, optopt, argv, optind);
        status = set_option(&o, c, optarg);
    }
    if (status == 0 && !o.help)
        status = check_options(&o, argc, argv, optind);
    if (status == 0)
        *ret = o;
    return status;
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Shows where a policy is wrong: the text, and a caret below it. */
static int complain_policy(const char *text, const weir_policy_error *error)
{
    complain(STATUS_USAGE, "--policy: column %" PRIu32 ": %s", error->column, error->text);
    fputs("  ", stderr);
    for (const char *at = text; *at; at++)
        fputc((unsigned char)*at < 0x20 || *at == 0x7F ? ' ' : *at, stderr);
    fputs("\n  ", stderr);
    for (uint32_t i = 1; i < error->column; i++) {
        if (((unsigned char)text[i - 1] & 0xC0) != 0x80) /* UTF-8 goes on: no column of its own */
            fputc(' ', stderr);
    }
    fputs("^\n", stderr);
    return STATUS_USAGE;
}

static int read_policy(replay *r, size_t at)
{
    const char *text = r->options.policy[at];
    rule *which = &r->rules[at];
    weir_zones zones = weir_zone_book_zones(r->zones);
    weir_policy_error error;
    if (weir_policy_parse(&which->policy, text, strlen(text), &zones, &error) != WEIR_OK)
        return complain_policy(text, &error);
    which->id = weir_store_policy_id(r->store, &which->policy);
    weir_policy_print(&which->policy, which->text, sizeof which->text);
    for (size_t i = 0; i < at; i++) {
        if (strcmp(r->rules[i].text, which->text) == 0) /* they would share their states */
            return complain(STATUS_USAGE, "--policy: '%s' is given twice", which->text);
    }
    return 0;
}

/* ---- formats --------------------------------------------------------------------------------- */

static const char *const formats[] = {"combined", "common", "tsv", "jsonl"};

/* Why --key or --cost, whichever it was, does not go with the format. */
static int complain_field(const char *option, const char *field, const char *format)
{
    bool clf = strcmp(format, "tsv") != 0;
    if (!clf)
        return complain(STATUS_USAGE,
                        "%s: a tsv line has no fields to choose from: its key is the "
                        "second, its cost the third",
                        option);
    fprintf(stderr, "weir replay: %s: a %s line has no field '%s', expected one of", option, format,
            field);
    bool common = strcmp(format, "common") == 0;
    for (int i = 0; i < (common ? WEIR_LOGLINE_REFERER : WEIR_LOGLINE_FIELDS); i++)
        fprintf(stderr, " %s", weir_logline_field_name((weir_logline_field)i));
    fputs("\n", stderr);
    return STATUS_USAGE;
}

static int set_format(replay *r, const char *format)
{
    const options *o = &r->options;
    weir_logline_format unused;
    r->format_known = true;
    if (weir_logline_format_init(&r->format, format, o->key, o->cost) == WEIR_OK)
        return 0;
    if (weir_logline_format_init(&unused, format, NULL, NULL) != WEIR_OK)
        return complain(STATUS_USAGE,
                        "--format: expected combined, common, tsv or jsonl, found "
                        "'%s'",
                        format);
    if (weir_logline_format_init(&unused, format, o->key, NULL) != WEIR_OK)
        return complain_field("--key", o->key, format);
    return complain_field("--cost", o->cost, format);
}

/* A format, but `not_this`, that the line has; NULL if there is none. Combined lines are common
 * ones that go on, so that a common line counts as combined unless `exact`. */
static const char *format_of(replay *r, const char *line, size_t len, const char *not_this,
                             bool exact)
{
    if (*line == '{') /* a member may be missing, which is for the reader to say */
        return not_this && strcmp(not_this, "jsonl") == 0 ? NULL : "jsonl";
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        weir_logline_format f;
        weir_logline_error error;
        const char *key = exact && strcmp(formats[i], "combined") == 0 ? "agent" : NULL;
        if (not_this && strcmp(formats[i], not_this) == 0)
            continue;
        if (weir_logline_format_init(&f, formats[i], key, NULL) == WEIR_OK &&
            weir_logline_read(&f, line, len, &r->record, &error) == WEIR_OK)
            return formats[i];
    }
    return NULL;
}

/* ---- the run --------------------------------------------------------------------------------- */

/* Counts a line that cannot be read, and shows the first few. */
static int bad_line(replay *r, const weir_logline_error *error)
{
    if (r->bad++ < BAD_LINES_SHOWN) {
        char text[256];
        weir_logline_error_text(error, text, sizeof text);
        erase_progress(&r->progress);
        fprintf(stderr, "%s:%" PRIu64 ": %s\n", r->in.name, r->in.number, text);
    }
    if (!r->options.strict)
        return 0;
    return complain(STATUS_FAILED, "ended at the first line that cannot be read (--strict)");
}

static int decide(replay *r)
{
    const weir_record *line = &r->record;
    if (line->t_ns < r->latest_ns)
        r->went_back++;
    else
        r->latest_ns = line->t_ns;
    replay_key *key = replay_keys_at(r->keys, line->key, line->key_len);
    if (!key)
        return complain_memory();
    key->requests++;
    r->requests++;
    bool many = r->options.policies > 1;
    for (size_t i = 0; i < r->options.policies; i++) {
        rule *which = &r->rules[i];
        replay_answer a = {
            line->t_ns, line->key, line->key_len, line->cost, many ? which->text : NULL, {0}};
        weir_status st = weir_store_check(r->store, &which->policy, which->id, line->key,
                                          line->key_len, r->latest_ns, line->cost, &a.decision);
        if (st == WEIR_E_NOMEM)
            return complain(STATUS_FAILED,
                            "%s:%" PRIu64
                            ": the memory is full: the state of this key does not fit "
                            "in %d MiB, under %s",
                            r->in.name, r->in.number, STORE_MIB, which->text);
        if (st != WEIR_OK)
            return complain(STATUS_FAILED, "%s:%" PRIu64 ": %s", r->in.name, r->in.number,
                            weir_status_str(st));
        which->denied += !a.decision.allowed;
        key->denied[i] += !a.decision.allowed;
        if (r->options.decisions)
            replay_print_decision(r->out, &a);
    }
    return 0;
}

static int run_line(replay *r, const char *line, size_t len)
{
    weir_logline_error error = {1, "a line of some format: combined, common, tsv or jsonl", ""};
    if (!r->format_known) {
        const char *format = format_of(r, line, len, NULL, false);
        int status = format ? set_format(r, format) : bad_line(r, &error);
        if (!format || status != 0)
            return status;
    }
    weir_status st = weir_logline_read(&r->format, line, len, &r->record, &error);
    if (st == WEIR_OK)
        return decide(r);
    if (st == WEIR_E_NOMEM)
        return complain_memory();
    if (r->bad == 0)
        r->hint_format = format_of(r, line, len, r->options.format, true);
    return bad_line(r, &error);
}

static int run_lines(replay *r)
{
    static const weir_logline_error too_long = {REPLAY_LINE_MAX + 1,
                                                "the end of the line, which may have 1 MiB", ""};
    const char *line = NULL;
    size_t len = 0;
    int status = 0;
    replay_line_kind kind;
    while ((kind = replay_lines_next(&r->in, &line, &len)) <= REPLAY_LINE_TOO_LONG) {
        if (r->progress.wanted && r->in.number % PROGRESS_LINES == 0)
            show_progress(&r->progress, &r->in);
        if (kind == REPLAY_LINE_TOO_LONG)
            status = bad_line(r, &too_long);
        else if (len > 0 && !(len == 1 && *line == '\r'))
            status = run_line(r, line, len);
        if (status != 0 || r->out->error != 0)
            return status;
    }
    if (kind == REPLAY_LINES_FAILED)
        return complain(STATUS_FAILED, "%s: %s", r->in.name, strerror(errno));
    return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* Says why not one line could be read, as far as that can be guessed. */
static int complain_nothing(const replay *r)
{
    const char *name = r->in.name;
    if (r->in.bytes_read == 0)
        return complain(STATUS_FAILED, "%s: it is empty", name);
    if (r->bad == 0)
        return complain(STATUS_FAILED, "%s: it has only empty lines", name);
    complain(STATUS_FAILED, "%s: no line could be read (%" PRIu64 " tried)", name, r->bad);
    if (r->hint_format && r->options.format)
        return complain(STATUS_FAILED, "hint: try --format %s", r->hint_format);
    if (r->format_known && r->format.kind == WEIR_LOGLINE_JSONL)
        return complain(STATUS_FAILED, "hint: --key NAME says which member is the key");
    if (r->hint_format)
        return complain(STATUS_FAILED, "hint: a common log has no referer and no agent, and what "
                                       "--key and --cost ask for must be in each line");
    return complain(STATUS_FAILED,
                    "hint: combined, common, tsv and jsonl can be read, uncompressed; "
                    "see weir replay --help");
}

static int print_tables(replay *r)
{
    if (r->options.decisions) {
        if (replay_out_flush(r->out) != 0)
            return complain_output(r->out);
        r->out->fd = STDERR_FILENO;
    }
    for (size_t i = 0; i < r->options.policies; i++) {
        const rule *which = &r->rules[i];
        replay_summary s = {which->text, i, r->requests, which->denied, r->keys, r->options.top};
        if (i > 0)
            replay_out_text(r->out, "\n");
        if (replay_print_table(r->out, &s) != WEIR_OK)
            return complain_memory();
    }
    if (replay_out_flush(r->out) != 0)
        return complain_output(r->out);
    return 0;
}

/* What a reader of the table must know besides. */
static void print_notes(const replay *r)
{
    if (r->bad > 0)
        complain(0, "%" PRIu64 " line%s could not be read and %s left out", r->bad,
                 r->bad == 1 ? "" : "s", r->bad == 1 ? "was" : "were");
    if (r->went_back == 1)
        complain(0, "1 line went back in time; it was decided at the latest time seen");
    else if (r->went_back > 1)
        complain(0, "%" PRIu64 " lines went back in time; each was decided at the latest time seen",
                 r->went_back);
    uint64_t evicted = weir_store_stats_get(r->store).evicted;
    if (evicted > 0)
        complain(0,
                 "WARNING: the figures are too mild: %" PRIu64 " times a key was forgotten before "
                 "it was fresh again, because %d MiB were full",
                 evicted, STORE_MIB);
}

static int run(replay *r)
{
    r->progress.wanted =
        r->in.size > 0 && isatty(STDERR_FILENO) && !(r->options.decisions && isatty(STDOUT_FILENO));
    r->progress.begun_ns = r->progress.last_ns = r->progress.wanted ? port_now_ns() : 0;
    int status = run_lines(r);
    erase_progress(&r->progress);
    if (status == 0 && r->out->error == 0 && r->requests == 0)
        status = complain_nothing(r);
    if (status == 0 && r->out->error == 0)
        status = print_tables(r);
    else if (replay_out_flush(r->out) != 0)
        status = complain_output(r->out);
    if (status == 0)
        print_notes(r);
    return status;
}

static void replay_close(replay *r)
{
    weir_record_free(&r->record);
    replay_lines_close(&r->in);
    replay_keys_close(r->keys);
    weir_store_close(r->store);
    weir_zone_book_close(r->zones);
    port_free(r->rules);
    port_free(r->out);
}

/* Makes all that a run needs, and the policies; the file comes last. */
static int replay_open(replay *r)
{
    weir_store_options store = {.memory_bytes = (size_t)STORE_MIB << 20};
    r->zones = weir_zone_book_open(WEIR_ZONEINFO_DIR);
    r->keys = replay_keys_open(r->options.policies);
    r->rules = port_zalloc(r->options.policies, sizeof *r->rules);
    if (!r->zones || !r->keys || !r->rules || weir_store_open(&r->store, &store) != WEIR_OK)
        return complain_memory();
    int status = 0;
    for (size_t i = 0; i < r->options.policies && status == 0; i++)
        status = read_policy(r, i);
    if (status == 0 && r->options.format)
        status = set_format(r, r->options.format);
    if (status == 0 && !replay_lines_open(&r->in, r->options.path))
        status = complain(STATUS_FAILED, "%s: %s",
                          strcmp(r->options.path, "-") == 0 ? "<stdin>" : r->options.path,
                          strerror(errno));
    return status;
}

static int print_help(replay_out *out)
{
    replay_out_text(out, help);
    return replay_out_flush(out) == 0 ? 0 : complain_output(out);
}

int weir_cmd_replay(int argc, char **argv)
{
    replay r = {0};
    int status = read_options(&r.options, argc, argv);
    if (status != 0)
        return status;
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error of write(), and is reported */
    r.out = port_zalloc(1, sizeof *r.out);
    if (!r.out)
        return complain_memory();
    replay_out_init(r.out, STDOUT_FILENO);
    if (r.options.help)
        status = print_help(r.out);
    else if ((status = replay_open(&r)) == 0)
        status = run(&r);
    replay_close(&r);
    return status;
}
