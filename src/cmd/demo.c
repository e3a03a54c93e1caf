/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir demo`: decides on two bursts, one just before a window ends and one just after, and draws
 * what each policy allowed. The core decides in this process, and the times are simulated. */

#include "cmd/kit/caret.h"
#include "cmd/kit/commands.h"
#include "cmd/kit/key_state.h"
#include "cmd/kit/options.h"
#include "cmd/kit/terminal.h"
#include "port/duration.h"
#include "port/text.h"
#include "service/zone_cache.h"

#include <weir/weir.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    POLICIES_MAX = 8,
    BURST_MAX = 10000,
    MARKS_MAX = 20,  /* drawn for each burst */
    COUNTS_MAX = 120 /* bytes of the text of an outcome */
};

static const char usage[] =
    "Usage: weir demo [OPTION]...\n"
    "\n"
    "Shows how policies treat a burst at the end of a window: a client sends a burst just\n"
    "before the window ends, and another just after. Decides in this process, without a\n"
    "daemon and without waiting.\n"
    "\n"
    "  --policy TEXT  a policy to show, like 'gcra 100/s burst 20'; can be repeated, at\n"
    "                 most 8 times. The first one sets the window (default: a fixed\n"
    "                 window, a sliding log and GCRA, each with 10 requests a second)\n"
    "  --burst N      the number of requests in each burst, 1 to 10000 (default: the\n"
    "                 limit of the first policy)\n"
    "  --help         print this text\n"
    "\n"
    "Exit status: 0 success, 1 failure, 2 wrong usage or an invalid policy.\n"
    "\n"
    "Examples:\n"
    "  weir demo\n"
    "  weir demo --policy 'sliding-counter 100/m' --policy 'fixed-window 100/m'\n"
    "  weir demo --burst 15 --policy 'leaky-queue 10/s depth 20'\n";

static const char *const default_texts[] = {"fixed-window 10/s", "sliding-log 10/s",
                                            "gcra 10/s burst 10"};

typedef struct outcome {
    int64_t allowed, delayed, denied; /* `delayed` ones are allowed, too */
} outcome;

typedef struct shown_policy {
    weir_policy policy;
    char text[WEIR_POLICY_TEXT_MAX]; /* canonical */
    outcome mark[2 * MARKS_MAX];     /* what became of the requests that each mark stands for */
    outcome sum;
} shown_policy;

typedef struct demo {
    shown_policy policy[POLICIES_MAX];
    size_t len;
    bool own; /* the policies are the user's */
    int64_t burst;
    int64_t begin_ns, end_ns; /* the window: the first burst ends with it */
    int marks;                /* for each burst */
    terminal_style style;
} demo;

/* ---- the requests ---------------------------------------------------------------------------- */

/* How long each burst takes: a tenth of the window, or 0 if that has fewer nanoseconds than the
 * burst has requests. */
static int64_t burst_ns(const demo *d)
{
    int64_t tenth_ns = (d->end_ns - d->begin_ns) / 10;
    return tenth_ns < d->burst ? 0 : tenth_ns;
}

/* When request i of 0..2 * burst - 1 is sent. A burst that takes no time is sent in the last
 * nanosecond of the window, or in the first one of the next. */
static int64_t sent_ns(const demo *d, int64_t i)
{
    int64_t length_ns = burst_ns(d);
    if (length_ns == 0)
        return d->end_ns - (i < d->burst);
    return d->end_ns + (i - d->burst) * (length_ns / d->burst);
}

/* The mark that request i belongs to. */
static int mark_of(const demo *d, int64_t i)
{
    return (int)(i * d->marks / d->burst);
}

static void count(outcome *o, const weir_decision *answer)
{
    o->allowed += answer->allowed;
    o->delayed += answer->allowed && answer->delay_ns > 0;
    o->denied += !answer->allowed;
}

static weir_status send_bursts(const demo *d, shown_policy *s)
{
    key_state state = {0};
    weir_status st = WEIR_OK;
    for (int64_t i = 0; i < 2 * d->burst && st == WEIR_OK; i++) {
        weir_decision answer;
        st = key_state_check(&state, &s->policy, sent_ns(d, i), 1, &answer);
        if (st == WEIR_OK) {
            count(&s->mark[mark_of(d, i)], &answer);
            count(&s->sum, &answer);
        }
    }
    key_state_free(&state);
    return st;
}

/* The first window of the first policy's first layer that begins after the epoch. */
static void find_window(demo *d)
{
    const weir_layer *l = &d->policy[0].policy.layer[0];
    d->begin_ns = l->period_ns;
    d->end_ns = 2 * l->period_ns;
    if (!l->window)
        return;
    weir_span first = l->window(l->zone, l->calendar, l->anchor, 0);
    weir_span second = l->window(l->zone, l->calendar, l->anchor, first.end_ns);
    d->begin_ns = second.start_ns;
    d->end_ns = second.end_ns;
}

/* ---- drawing --------------------------------------------------------------------------------- */

typedef enum mark_kind { MARK_ALLOWED, MARK_DENIED, MARK_DELAYED, MARK_SOME, MARK_KINDS } mark_kind;

static const struct {
    const char *utf8, *ascii, *colour, *text;
} mark_look[MARK_KINDS] = {
    [MARK_ALLOWED] = {"●", "o", "34", "allowed"},
    [MARK_DENIED] = {"✕", "x", "31", "denied"},
    [MARK_DELAYED] = {"◆", "d", "33", "delayed"},
    [MARK_SOME] = {"◐", "%", "33", "some denied"},
};

static mark_kind kind_of(const outcome *o)
{
    if (o->denied > 0)
        return o->allowed > 0 ? MARK_SOME : MARK_DENIED;
    return o->delayed > 0 ? MARK_DELAYED : MARK_ALLOWED;
}

static void put_mark(const demo *d, mark_kind kind)
{
    const char *text = d->style.utf8 ? mark_look[kind].utf8 : mark_look[kind].ascii;
    if (d->style.colour)
        printf("\033[%sm%s\033[0m", mark_look[kind].colour, text);
    else
        fputs(text, stdout);
}

static void put_marks(const demo *d, const shown_policy *s)
{
    for (int i = 0; i < 2 * d->marks; i++) {
        if (i == d->marks)
            fputs(d->style.utf8 ? "│" : "|", stdout);
        put_mark(d, kind_of(&s->mark[i]));
    }
}

static int counts_text(const shown_policy *s, char *ret, size_t size)
{
    char delayed[40] = "";
    if (s->sum.delayed > 0)
        snprintf(delayed, sizeof delayed, ", %" PRId64 " delayed", s->sum.delayed);
    return snprintf(ret, size, "%" PRId64 " allowed, %" PRId64 " denied%s", s->sum.allowed,
                    s->sum.denied, delayed);
}

/* Prints words, as many on a line as fit. */
static void put_words(const demo *d, const char *text)
{
    int col = 0;
    while (*text) {
        int len = (int)strcspn(text, " ");
        if (col > 0 && col + 1 + len > d->style.cols) {
            puts("");
            col = 0;
        }
        col += printf("%s%.*s", col > 0 ? " " : "", len, text);
        text += len + (text[len] == ' ');
    }
    puts("");
}

/* Prints the times above the marks: of the first request, of the end of the window. */
static void put_axis(const demo *d, int indent)
{
    char first[WEIR_DURATION_MAX], end[WEIR_DURATION_MAX];
    weir_duration_print(first, sent_ns(d, 0) - d->begin_ns, WEIR_DURATION_SHORT);
    weir_duration_print(end, d->end_ns - d->begin_ns, WEIR_DURATION_SHORT);
    bool both = (int)strlen(first) < d->marks;
    int end_col = indent + d->marks;
    printf("%*s%s", indent, "", both ? first : "");
    printf("%*s%s\n", end_col - indent - (both ? (int)strlen(first) : 0), "", end);
}

static void put_legend(const demo *d, int indent)
{
    bool used[MARK_KINDS] = {0};
    for (size_t p = 0; p < d->len; p++) {
        for (int i = 0; i < 2 * d->marks; i++)
            used[kind_of(&d->policy[p].mark[i])] = true;
    }
    printf("%*s", indent, "");
    const char *gap = "";
    for (int k = 0; k < MARK_KINDS; k++) {
        if (!used[k])
            continue;
        fputs(gap, stdout);
        put_mark(d, (mark_kind)k);
        printf(" %s", mark_look[k].text);
        gap = "  ";
    }
    puts("");
}

static void put_introduction(const demo *d)
{
    char text[400], part[WEIR_DURATION_MAX], window[WEIR_DURATION_MAX];
    weir_duration_print(window, d->end_ns - d->begin_ns, WEIR_DURATION_SHORT);
    weir_duration_print(part, burst_ns(d) > 0 ? burst_ns(d) : 1, WEIR_DURATION_SHORT);
    snprintf(text, sizeof text,
             "A client sends %" PRId64 " request%s in the last %s of a window of %s, "
             "and %" PRId64 " more in the first %s of the next window.",
             d->burst, d->burst == 1 ? "" : "s", part, window, d->burst, part);
    put_words(d, text);
}

static void put_conclusion(const demo *d)
{
    char text[400], both[WEIR_DURATION_MAX];
    int64_t least = INT64_MAX, most = 0;
    for (size_t i = 0; i < d->len; i++) {
        int64_t n = d->policy[i].sum.allowed;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    weir_duration_print(both, burst_ns(d) > 0 ? 2 * burst_ns(d) : 2, WEIR_DURATION_SHORT);
    if (!d->own && d->policy[0].sum.allowed > d->policy[0].policy.layer[0].limit)
        snprintf(text, sizeof text,
                 "The fixed window begins a new count after each second, so it allows %" PRId64
                 " requests within %s; the sliding log and GCRA still count the first burst.",
                 d->policy[0].sum.allowed, both);
    else if (least == most)
        snprintf(text, sizeof text, "%s allows %" PRId64 " of %" PRId64 " requests within %s.",
                 d->len > 1 ? "Each policy" : "The policy", most, 2 * d->burst, both);
    else
        snprintf(text, sizeof text,
                 "Of %" PRId64 " requests within %s, the policies allow %" PRId64 " to %" PRId64
                 ".",
                 2 * d->burst, both, least, most);
    put_words(d, text);
}

/* With `wide`, a policy takes one line, else three. */
static void put_policies(const demo *d, bool wide, int indent)
{
    put_axis(d, indent);
    for (size_t i = 0; i < d->len; i++) {
        const shown_policy *s = &d->policy[i];
        char counts[COUNTS_MAX];
        counts_text(s, counts, sizeof counts);
        if (wide)
            printf("%-*s", indent, s->text);
        else
            printf("%s\n%*s", s->text, indent, "");
        put_marks(d, s);
        if (wide)
            fputs("  ", stdout);
        else
            printf("\n%*s", indent, "");
        puts(counts);
    }
    put_legend(d, indent);
}

static void draw(const demo *d)
{
    int name_cols = 0, counts_cols = 0;
    for (size_t i = 0; i < d->len; i++) {
        char counts[COUNTS_MAX];
        int name = (int)strlen(d->policy[i].text);
        int cols = counts_text(&d->policy[i], counts, sizeof counts);
        name_cols = name > name_cols ? name : name_cols;
        counts_cols = cols > counts_cols ? cols : counts_cols;
    }
    bool wide = name_cols + 2 + 2 * d->marks + 1 + 2 + counts_cols <= d->style.cols;
    put_introduction(d);
    puts("");
    put_policies(d, wide, wide ? name_cols + 2 : 2);
    puts("");
    put_conclusion(d);
}

/* ---- the command line ------------------------------------------------------------------------ */

static int add_policy(demo *d, const weir_zones *zones, const char *text)
{
    weir_policy_error error;
    if (d->len == POLICIES_MAX) {
        fprintf(stderr, "weir demo: --policy: expected at most %d policies\n", POLICIES_MAX);
        return 2;
    }
    shown_policy *s = &d->policy[d->len];
    if (weir_policy_parse(&s->policy, text, strlen(text), zones, &error) != WEIR_OK) {
        caret_policy_error("weir demo", text, &error);
        return 2;
    }
    weir_policy_print(&s->policy, s->text, sizeof s->text);
    d->len++;
    return 0;
}

static int set_burst(demo *d, const char *text)
{
    uint64_t n;
    if (!weir_decimal_read(text, strlen(text), BURST_MAX, &n) || n < 1) {
        fprintf(stderr, "weir demo: --burst: expected a number from 1 to %d, found '%s'\n",
                BURST_MAX, text);
        return 2;
    }
    d->burst = (int64_t)n;
    return 0;
}

enum { OPT_POLICY = 256, OPT_BURST };

/* Returns 0; 2 after an error; -1 for --help. */
static int read_options(demo *d, const weir_zones *zones, int argc, char **argv)
{
    static const struct option known[] = {{"policy", required_argument, NULL, OPT_POLICY},
                                          {"burst", required_argument, NULL, OPT_BURST},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int c, status = 0;
    optind = 0;
    while (status == 0 && (c = options_next("weir demo", argc, argv, known)) != -1) {
        if (c == 'h')
            return -1;
        status = c == OPT_POLICY  ? add_policy(d, zones, optarg)
                 : c == OPT_BURST ? set_burst(d, optarg)
                                  : 2;
    }
    if (status == 0 && optind < argc) {
        fprintf(stderr, "weir demo: expected no arguments, found '%s'; see weir demo --help\n",
                argv[optind]);
        return 2;
    }
    d->own = d->len > 0;
    for (size_t i = 0; status == 0 && !d->own && i < sizeof default_texts / sizeof *default_texts;
         i++)
        status = add_policy(d, zones, default_texts[i]);
    return status;
}

static int run(demo *d)
{
    int64_t limit = d->policy[0].policy.layer[0].limit;
    if (d->burst == 0)
        d->burst = limit < BURST_MAX ? limit : BURST_MAX;
    d->style = terminal_style_get();
    int marks_max = (d->style.cols - 3) / 2; /* beside an indent of 2 and the line in the middle */
    marks_max = marks_max > MARKS_MAX ? MARKS_MAX : marks_max < 1 ? 1 : marks_max;
    d->marks = d->burst < marks_max ? (int)d->burst : marks_max;
    find_window(d);
    for (size_t i = 0; i < d->len; i++) {
        weir_status st = send_bursts(d, &d->policy[i]);
        if (st != WEIR_OK) {
            fprintf(stderr, "weir demo: cannot decide by '%s': %s\n", d->policy[i].text,
                    weir_status_str(st));
            return 1;
        }
    }
    draw(d);
    return 0;
}

int weir_cmd_demo(int argc, char **argv)
{
    static demo d; /* large for a stack */
    memset(&d, 0, sizeof d);
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!cache) {
        fputs("weir demo: out of memory\n", stderr);
        return 1;
    }
    const weir_zones zones = weir_zone_cache_zones(cache);
    int status = read_options(&d, &zones, argc, argv);
    if (status < 0)
        fputs(usage, stdout);
    else if (status == 0)
        status = run(&d);
    weir_zone_cache_close(cache);
    return status < 0 ? 0 : status;
}
