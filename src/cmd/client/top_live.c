/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One loop waits for keys, signals, replies and the next interval, and draws. Each interval it
 * sends INFO, WEIR.POLICY LIST now and then, and WEIR.TOP for the chosen policy, one after the
 * other. */

#include "cmd/client/screen.h"

#include "cmd/client/connection.h"
#include "cmd/client/top_stats.h"
#include "cmd/kit/out.h"
#include "cmd/kit/terminal.h"
#include "port/assert.h"
#include "port/port.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RETRY_NS INT64_C(1000000000) /* between attempts to connect, and the timeout of each */

enum {
    FILTER_MAX = 32,
    RULES_EVERY = 10, /* intervals */
    FRAME_MAX = 4 << 20,
    KEYS_READ_MAX = 64
};

typedef enum step { IDLE, INFO, RULES, KEYS } step; /* which reply is awaited */

typedef struct live {
    const top_live_options *options;
    client client;
    bool connected;
    step step;
    int64_t next_ns;  /* the next interval, or the next attempt to connect */
    uint64_t samples; /* so far */
    bool rules_known;
    top_sample sample[2]; /* the latest one is sample[samples & 1] */
    top_rules rules;
    top_keys keys;
    screen_row row[TOP_POLICIES_MAX];
    screen_model model;
    char filter[FILTER_MAX + 1];
    char chosen[TOP_NAME_MAX + 1]; /* "": the first one, whichever it is */
    char notice[CLIENT_ERROR_MAX + 32];
    bool keys_known, dirty, quit;
    bool tables; /* instead of the screen */
    bool failed; /* before the first table */
    weir_buffer frame;
} live;

static int complain(const char *text)
{
    fprintf(stderr, "weir top: %s\n", text);
    return 1;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Lists the policies again, and finds the chosen one at its new place. */
static void refresh(live *l)
{
    screen_model *m = &l->model;
    const top_sample *now = &l->sample[l->samples & 1];
    m->now = l->samples > 0 ? now : NULL;
    m->before = l->samples > 1 ? &l->sample[(l->samples - 1) & 1] : NULL;
    m->rows = m->now ? screen_list(m->before, m->now, m->sort, l->filter, l->row) : 0;
    m->chosen = 0;
    for (size_t i = 0; i < m->rows && *l->chosen; i++) {
        if (strcmp(l->row[i].policy->name, l->chosen) == 0)
            m->chosen = i;
    }
    l->dirty = true;
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void lose(live *l, const char *why)
{
    l->connected = false;
    l->step = IDLE;
    l->next_ns = port_steady_ns() + RETRY_NS;
    l->failed = l->tables && l->samples < 2; /* the first table has the rates of two */
    snprintf(l->notice, sizeof l->notice, "%s%s", why,
             l->failed ? "" : "; trying again every second");
    l->dirty = true;
}

static weir_slice word(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

static void ask(live *l, step next, const weir_slice *words, size_t n)
{
    client_set_timeout(&l->client, l->options->timeout_ns);
    if (client_send(&l->client, words, n) != CLIENT_OK)
        lose(l, l->client.error);
    else
        l->step = next;
}

static void ask_info(live *l)
{
    const weir_slice words[] = {word("INFO")};
    l->next_ns = port_steady_ns() + l->options->interval_ns;
    ask(l, INFO, words, 1);
}

static void ask_rules(live *l)
{
    const weir_slice words[] = {word("WEIR.POLICY"), word("LIST")};
    ask(l, RULES, words, 2);
}

/* Whether `keys` are those that the screen should show, or are requested. */
static bool has_keys(const live *l)
{
    return l->model.rows == 0 ||
           (l->keys.allowed == l->model.allowed &&
            strcmp(l->keys.policy, l->row[l->model.chosen].policy->name) == 0);
}

/* Asks for the keys of the chosen policy, if there is one. */
static void ask_keys(live *l)
{
    l->step = IDLE;
    if (l->model.rows == 0)
        return;
    const char *name = l->row[l->model.chosen].policy->name;
    l->keys_known = l->keys_known && has_keys(l); /* the old ones are shown until then */
    l->model.keys = l->keys_known ? &l->keys : NULL;
    snprintf(l->keys.policy, sizeof l->keys.policy, "%s", name);
    l->keys.allowed = l->model.allowed;
    const weir_slice words[] = {word("WEIR.TOP"), word(l->keys.policy),
                                word(l->keys.allowed ? "allowed" : "denied")};
    ask(l, KEYS, words, 3);
}

/* Asks for other keys at once, unless a reply is awaited, after which it is done. */
static void want_keys(live *l)
{
    if (l->connected && l->step == IDLE && !has_keys(l))
        ask_keys(l);
}

static const char unexpected[] = "unexpected reply; is this server a weir daemon?",
                  no_rights[] = "this needs a user with the rights metrics, peek and top";

/* Returns NULL, or what is wrong with the reply. */
static const char *take_info(live *l)
{
    top_sample *next = &l->sample[(l->samples + 1) & 1];
    if (!top_read_info(&l->client.reply, port_steady_ns(), next))
        return unexpected;
    if (next->connections_max == 0) /* INFO has the versions only */
        return no_rights;
    l->samples++;
    l->notice[0] = '\0';
    refresh(l);
    return NULL;
}

/* Takes the reply of the current step, and goes on to the next one. Returns as take_info(). */
static const char *take_reply(live *l)
{
    const char *wrong = unexpected;
    switch (l->step) {
    case INFO:
        wrong = take_info(l);
        if (!wrong && (!l->rules_known || l->samples % RULES_EVERY == 0))
            ask_rules(l);
        else if (!wrong)
            ask_keys(l);
        break;
    case RULES:
        l->rules_known = top_read_rules(&l->client.reply, &l->rules);
        wrong = l->rules_known                                           ? NULL
                : l->client.reply.value[0].type == WEIR_RESP_ERROR_REPLY ? no_rights
                                                                         : unexpected;
        if (!wrong)
            ask_keys(l);
        break;
    case KEYS:
        l->keys_known = top_read_keys(&l->client.reply, &l->keys);
        wrong = l->keys_known ? NULL : unexpected;
        l->model.keys = l->keys_known ? &l->keys : NULL;
        l->step = IDLE;
        want_keys(l);
        break;
    case IDLE: /* no reply is awaited */
        break;
    }
    l->dirty = true;
    return wrong;
}

static void on_socket(live *l)
{
    client_status st = client_read(&l->client);
    if (st == CLIENT_WAITING)
        return;
    const char *wrong = st == CLIENT_OK ? take_reply(l) : l->client.error;
    if (wrong)
        lose(l, wrong);
}

static void reconnect(live *l)
{
    int64_t timeout_ns = l->options->timeout_ns;
    if (timeout_ns > RETRY_NS)
        timeout_ns = RETRY_NS;
    l->connected = client_reopen(&l->client, timeout_ns) == CLIENT_OK;
    if (!l->connected)
        lose(l, l->client.error);
    l->rules_known = false;
}

/* Does what is due. */
static void on_time(live *l)
{
    int64_t now_ns = port_steady_ns();
    if (!l->connected && now_ns >= l->next_ns)
        reconnect(l);
    if (l->connected && l->step != IDLE && now_ns >= l->client.deadline_ns)
        lose(l, "timeout: no reply from the daemon");
    if (l->connected && l->step == IDLE && now_ns >= l->next_ns)
        ask_info(l);
}

/* How long nothing is due. */
static int64_t idle_ns(const live *l)
{
    bool waiting = l->connected && l->step != IDLE;
    return (waiting ? l->client.deadline_ns : l->next_ns) - port_steady_ns();
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void type(live *l, int key)
{
    size_t len = strlen(l->filter);
    if (key == TERMINAL_ESCAPE || key == '\r' || key == '\n')
        l->model.typing = false;
    if (key == TERMINAL_ESCAPE)
        l->filter[0] = '\0';
    if ((key == 0x7F || key == '\b') && len > 0)
        l->filter[len - 1] = '\0';
    if (key > ' ' && key < 0x7F && len < FILTER_MAX) {
        l->filter[len] = (char)key;
        l->filter[len + 1] = '\0';
    }
}

static void choose(live *l, int64_t i)
{
    int64_t last = (int64_t)l->model.rows - 1;
    if (last < 0)
        return;
    i = i < 0 ? 0 : i > last ? last : i;
    snprintf(l->chosen, sizeof l->chosen, "%s", l->row[i].policy->name);
    refresh(l);
    want_keys(l);
}

static void sort_by(live *l, screen_sort sort)
{
    l->model.sort = sort;
}

static void toggle_allowed(live *l)
{
    l->model.allowed = !l->model.allowed;
    want_keys(l);
}

static void press(live *l, int key)
{
    int64_t at = (int64_t)l->model.chosen, page = screen_page(&l->model, terminal_size_get().rows);
    switch (key) {
    case 'q':
        l->quit = true;
        break;
    case '?':
    case 'h':
        l->model.help = true;
        break;
    case TERMINAL_UP:
    case 'k':
        choose(l, at - 1);
        break;
    case TERMINAL_DOWN:
    case 'j':
        choose(l, at + 1);
        break;
    case TERMINAL_PAGE_UP:
        choose(l, at - page);
        break;
    case TERMINAL_PAGE_DOWN:
        choose(l, at + page);
        break;
    case TERMINAL_HOME:
    case 'g':
        choose(l, 0);
        break;
    case TERMINAL_END:
    case 'G':
        choose(l, INT32_MAX);
        break;
    case 'd':
        sort_by(l, SCREEN_BY_DENIED);
        break;
    case 'r':
        sort_by(l, SCREEN_BY_DECIDED);
        break;
    case 'n':
        sort_by(l, SCREEN_BY_NAME);
        break;
    case 't':
        toggle_allowed(l);
        break;
    case '/':
        l->model.typing = true;
        break;
    case TERMINAL_ESCAPE:
        l->filter[0] = '\0';
        break;
    default:
        break;
    }
}

static void on_key(live *l)
{
    int keys[KEYS_READ_MAX];
    size_t n = terminal_read(keys, KEYS_READ_MAX);
    l->quit |= n == 0; /* the terminal is gone */
    for (size_t i = 0; i < n && !l->quit; i++) {
        if (l->model.help)
            l->model.help = false;
        else if (l->model.typing)
            type(l, keys[i]);
        else
            press(l, keys[i]);
        refresh(l);
    }
}

/* ---- the two ways to show it ----------------------------------------------------------------- */

/* Whether the figures were shown as often as --count says. The first sample has no rates. */
static bool is_complete(const live *l)
{
    return l->options->count > 0 && l->step == IDLE && l->samples > (uint64_t)l->options->count;
}

static void draw(live *l)
{
    terminal_size size = terminal_size_get();
    weir_buffer_clear(&l->frame);
    screen_draw(&l->model, size.cols, size.rows, &l->frame);
    l->dirty = false;
    l->quit |=
        l->frame.failed || !terminal_write(weir_buffer_data(&l->frame), weir_buffer_len(&l->frame));
}

static int run_screen(live *l)
{
    if (!terminal_open())
        return complain("cannot set the modes of the terminal");
    while (!l->quit && !is_complete(l)) {
        on_time(l);
        if (l->dirty)
            draw(l);
        terminal_events e = terminal_wait(l->connected ? l->client.fd : -1, idle_ns(l));
        l->dirty |= e.redraw;
        if (e.key)
            on_key(l);
        if (e.socket)
            on_socket(l);
    }
    terminal_close();
    return 0;
}

/* Prints what a new sample says. Returns 0, or 1 after an error. */
static int print_table(live *l)
{
    static out_stream out; /* too large for a stack */
    weir_buffer_clear(&l->frame);
    screen_print(&l->model, terminal_style_get().cols, &l->frame);
    weir_buffer_append_byte(&l->frame, '\n');
    if (l->frame.failed)
        return complain("out of memory");
    out_init(&out, STDOUT_FILENO);
    out_bytes(&out, weir_buffer_data(&l->frame), weir_buffer_len(&l->frame));
    int error = out_flush(&out);
    if (error == 0)
        return 0;
    fprintf(stderr, "weir top: cannot write to standard output: %s\n", strerror(error));
    return 1;
}

static int run_tables(live *l)
{
    uint64_t printed = 1; /* the first sample has no rates */
    char said[sizeof l->notice] = "";
    l->tables = true;
    while (!is_complete(l)) {
        on_time(l);
        if (strcmp(said, l->notice) != 0 && *l->notice)
            complain(l->notice);
        if (l->failed)
            return 1;
        memcpy(said, l->notice, sizeof said);
        struct pollfd p = {.fd = l->connected ? l->client.fd : -1, .events = POLLIN};
        int64_t wait_ms = idle_ns(l) / 1000000 + 1;
        if (poll(&p, 1, wait_ms > 1 ? (int)wait_ms : 1) > 0)
            on_socket(l);
        if (l->samples > printed && l->step == IDLE) {
            printed = l->samples;
            if (print_table(l) != 0)
                return 1;
        }
    }
    return 0;
}

static int fail_to_open(const client *c, client_status st)
{
    if (st == CLIENT_UNREACHABLE)
        fprintf(stderr,
                "weir top: %s; start a daemon with `weir serve`, or set its address with --server "
                "or WEIR_SERVER\n",
                c->error);
    else
        complain(c->error);
    return st == CLIENT_USAGE ? 2 : 1;
}

int top_live(const top_live_options *o)
{
    WEIR_ASSERT(o->interval_ns > 0 && o->timeout_ns > 0 && o->count >= 0);
    live *l = port_zalloc(1, sizeof *l);
    if (!l)
        return complain("out of memory");
    const terminal_style style = terminal_style_get();
    l->options = o;
    client_status st = client_open(&l->client, &o->login, o->timeout_ns);
    l->connected = st == CLIENT_OK;
    l->model = (screen_model){.server = l->client.to.name,
                              .rules = &l->rules,
                              .row = l->row,
                              .allowed = o->allowed,
                              .filter = l->filter,
                              .notice = l->notice,
                              .colour = style.colour,
                              .utf8 = style.utf8};
    snprintf(l->chosen, sizeof l->chosen, "%s", o->policy);
    weir_buffer_init(&l->frame, FRAME_MAX);
    l->dirty = true;
    int status = st != CLIENT_OK       ? fail_to_open(&l->client, st)
                 : terminal_can_fill() ? run_screen(l)
                                       : run_tables(l);
    weir_buffer_free(&l->frame);
    client_close(&l->client);
    port_free(l);
    return status;
}
