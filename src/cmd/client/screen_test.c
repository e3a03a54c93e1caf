/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of the screen of `weir top` on a small terminal emulator, which fails if a line is too
 * long, if the screen is too high, or if there is a byte that it does not know. */

#define _GNU_SOURCE /* wcwidth() */

#include "cmd/client/screen.h"

#include "port/text.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include <cmocka.h>

enum { COLS_MAX = 200, ROWS_MAX = 60, CELL_MAX = 24 };

/* ---- the emulator ---------------------------------------------------------------------------- */

static struct {
    int cols, rows, col, row; /* the cursor, from 0 */
    char cell[ROWS_MAX][COLS_MAX][CELL_MAX];
    bool red[ROWS_MAX], reverse[ROWS_MAX]; /* of any cell in the line */
    int look;
} tty;

static void tty_size(int cols, int rows)
{
    memset(&tty, 0, sizeof tty);
    tty.cols = cols;
    tty.rows = rows;
    for (int r = 0; r < rows; r++) {
        for (int c = 0; c < cols; c++)
            strcpy(tty.cell[r][c], "#"); /* what was there before */
    }
}

/* A sequence after ESC; returns its length. */
static size_t tty_sequence(const char *at)
{
    int row, col, n = 0;
    if (sscanf(at, "[%d;%dH%n", &row, &col, &n) == 2 && n > 0) {
        assert_in_range(row, 1, tty.rows);
        assert_int_equal(col, 1);
        tty.row = row - 1;
        tty.col = 0;
        return (size_t)n;
    }
    if (strncmp(at, "[K", 2) == 0) {
        for (int c = tty.col; c < tty.cols; c++)
            strcpy(tty.cell[tty.row][c], " ");
        return 2;
    }
    assert_int_equal(at[0], '[');
    size_t len = strcspn(at, "m");
    tty.look = at[len - 1] - '0';
    if (len == 3) /* "[0m" without a second number is short */
        tty.look = at[1] - '0';
    return len + 1;
}

static void tty_write(const weir_buffer *out)
{
    static char text[1 << 20];
    size_t len = weir_buffer_len(out);
    assert_true(len < sizeof text && !out->failed);
    memcpy(text, weir_buffer_data(out), len);
    text[len] = '\0';
    for (size_t at = 0; at < len;) {
        if (text[at] == '\033') {
            at += 1 + tty_sequence(text + at + 1);
            continue;
        }
        bool valid;
        size_t n = weir_utf8_len(text + at, len - at, &valid);
        wchar_t wide;
        mbstate_t state = {0};
        assert_true(valid && mbrtowc(&wide, text + at, n, &state) == n);
        int width = wcwidth(wide);
        assert_in_range(width, 0, 2);
        assert_true(tty.col + width <= tty.cols);
        if (width > 0) {
            snprintf(tty.cell[tty.row][tty.col], CELL_MAX, "%.*s", (int)n, text + at);
            tty.red[tty.row] |= tty.look == 1;
            tty.reverse[tty.row] |= tty.look == 7;
        }
        if (width == 2)
            tty.cell[tty.row][tty.col + 1][0] = '\0';
        tty.col += width;
        at += n;
    }
}

/* The text of a line, without spaces at its end. */
static const char *line(int row)
{
    static char text[COLS_MAX * CELL_MAX];
    size_t len = 0;
    for (int c = 0; c < tty.cols; c++)
        len += (size_t)sprintf(text + len, "%s", tty.cell[row][c]);
    while (len > 0 && text[len - 1] == ' ')
        text[--len] = '\0';
    return text;
}

/* The line that contains a text; -1 if there is none. */
static int find(const char *text)
{
    for (int r = 0; r < tty.rows; r++) {
        if (strstr(line(r), text))
            return r;
    }
    return -1;
}

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct fixture {
    top_sample before, now;
    top_rules rules;
    top_keys keys;
    screen_row row[TOP_POLICIES_MAX];
    screen_model model;
    weir_buffer out;
} fixture;

static void add(fixture *f, const char *name, uint64_t allowed, uint64_t denied)
{
    top_policy *p = &f->now.policy[f->now.policies], *o = &f->before.policy[f->now.policies];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->counts = (top_counts){.allowed = allowed, .denied = denied};
    *o = *p;
    o->counts = (top_counts){0};
    f->before.policies = ++f->now.policies;
}

static void add_rule(fixture *f, const char *name, const char *limit, bool shadow)
{
    top_rule *r = &f->rules.rule[f->rules.len++];
    snprintf(r->name, sizeof r->name, "%s", name);
    snprintf(r->limit, sizeof r->limit, "%s", limit);
    r->shadow = shadow;
}

static void add_key(fixture *f, const char *text, size_t len, bool cut)
{
    top_key *k = &f->keys.key[f->keys.len++];
    memcpy(k->text, text, len);
    *k = (top_key){.len = len, .cut = cut, .units = 9000, .at_least = 8500, .requests = 12};
    memcpy(k->text, text, len);
}

static void list(fixture *f)
{
    f->model.rows =
        screen_list(f->model.before, f->model.now, f->model.sort, f->model.filter, f->row);
}

static int open_fixture(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    *f = (fixture){.model = {.server = "127.0.0.1:6380", .filter = "", .notice = "", .utf8 = true}};
    f->model.before = &f->before;
    f->model.now = &f->now;
    f->model.rules = &f->rules;
    f->model.keys = &f->keys;
    f->model.row = f->row;
    f->now.at_ns = 2000000000;
    f->now.uptime_s = 3661;
    f->now.connections = 12;
    f->now.connections_max = 345;
    f->now.keys = 1200000;
    f->now.bytes = 35756441;
    f->now.bytes_max = 67108864;
    f->now.latency[3] = 100;
    strcpy(f->now.version, "1.2.3");
    add(f, "api", 20, 4);
    add(f, "login", 2, 40);
    add(f, "(texts)", 0, 0);
    add(f, "idle", 0, 0);
    add_rule(f, "api", "gcra 10/s burst 2", false);
    add_rule(f, "login", "sliding-log 5/m", true);
    strcpy(f->keys.policy, "login");
    add_key(f, "alice", 5, false);
    add_key(f, "b\xFF\x1B[2J", 6, false);
    add_key(f, "\xE6\x97\xA5\xE6\x9C\xAC", 6, true);
    weir_buffer_init(&f->out, 1 << 20);
    list(f);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    fixture *f = *state;
    weir_buffer_free(&f->out);
    free(f);
    return 0;
}

static void draw(fixture *f, int cols, int rows)
{
    tty_size(cols, rows);
    weir_buffer_clear(&f->out);
    screen_draw(&f->model, cols, rows, &f->out);
    tty_write(&f->out);
    assert_int_equal(find("#"), -1); /* nothing is left of what was there before */
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void check_screen(void **state)
{
    fixture *f = *state;
    draw(f, 80, 24);
    assert_string_equal(line(0), "weir 1.2.3  127.0.0.1:6380  up 1h 1m  connections 12 of 345");
    assert_string_equal(line(1), "decisions 33/s  denied 22/s  p50 768 ns  p99 1.0 us");
    assert_string_equal(line(2), "keys 1.2M  memory 34.1 MiB of 64.0 MiB  evicted 0  refused 0");
    assert_string_equal(line(3), "");
    assert_string_equal(line(4),
                        " POLICY                  REQ/s DENIED/s*  SHADOW/s  FAILED/s  LIMIT");
    assert_string_equal(
        line(5),
        ">login                      21        20         0         0  (shadow) sliding-~");
    assert_string_equal(
        line(6), " api                        12         2         0         0  gcra 10/s burst 2");
    assert_string_equal(line(7), " idle                        0         0         0         0");
    int keys = find("login: the keys with the most denied units");
    assert_int_equal(keys, 9); /* after the last policy and an empty line */
    assert_string_equal(line(keys + 1), "   UNITS  AT LEAST  REQUESTS  KEY");
    assert_string_equal(line(keys + 2), "    9.0k      8.5k        12  alice");
    assert_string_equal(line(keys + 3), "    9.0k      8.5k        12  b\\xFF\\x1B[2J");
    assert_string_equal(line(keys + 4),
                        "    9.0k      8.5k        12  \xE6\x97\xA5\xE6\x9C\xAC...");
    assert_string_equal(line(23),
                        "q quit  ? help  / filter  d r n sort  t allowed keys  3 policies");
}

/* A key that the daemon cut ends with "...", wherever the screen ends. */
static void check_cut_key(void **state)
{
    fixture *f = *state;
    f->keys.len = 0;
    add_key(f, "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz", 40, true);
    for (int cols = 20; cols <= 90; cols++) {
        draw(f, cols, 24);
        int at = find("  z");
        assert_true(at > 0);
        assert_string_equal(line(at) + strlen(line(at)) - 3, "...");
    }
}

static void check_small_screen(void **state)
{
    fixture *f = *state;
    draw(f, 20, 5);
    assert_string_equal(line(0), "weir 1.2.3  127.0.0~");
    assert_string_equal(line(1), " POLI~  REQ/s DEN/s*");
    assert_string_equal(line(2), ">login     21     20");
    assert_string_equal(line(3), " api       12      2");
    assert_string_equal(line(4), "q quit  ? help  / f~");
    draw(f, 1, 1);
    assert_string_equal(line(0), ">");
}

/* Every size, with everything that can be on a screen. */
static void check_all_sizes(void **state)
{
    fixture *f = *state;
    char name[TOP_NAME_MAX + 1];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "%0*d", 1 + i % TOP_NAME_MAX, i);
        add(f, name, (uint64_t)i * 1000003, (uint64_t)i % 7);
    }
    for (int variant = 0; variant < 10; variant++) {
        screen_model *m = &f->model;
        m->colour = variant % 2 == 0;
        m->utf8 = variant % 3 != 0;
        m->help = variant == 7;
        m->typing = variant == 6;
        m->filter = variant == 5 || variant == 6 ? "no such policy" : "";
        m->notice = variant == 4 ? "127.0.0.1:6380: connection lost; trying again" : "";
        m->now = variant == 9 ? NULL : &f->now;
        m->before = variant == 8 ? NULL : &f->before;
        m->keys = variant == 3 ? NULL : &f->keys;
        m->rows =
            m->now ? screen_list(m->before, m->now, (screen_sort)(variant % 3), m->filter, f->row)
                   : 0;
        for (int rows = 1; rows <= ROWS_MAX; rows += rows < 25 ? 1 : 7) {
            for (int cols = 1; cols <= COLS_MAX; cols += cols < 30 ? 1 : 13) {
                m->chosen = m->rows > 0 ? (size_t)(rows * cols) % m->rows : 0;
                draw(f, cols, rows);
            }
        }
    }
}

/* The chosen policy is on the screen, and alone has the mark, wherever it is in the list. */
static void check_chosen(void **state)
{
    fixture *f = *state;
    char name[16], expected[TOP_NAME_MAX + 3];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "p%02d", i);
        add(f, name, 0, 0);
    }
    f->model.sort = SCREEN_BY_NAME;
    list(f);
    f->model.colour = true;
    for (size_t i = 0; i < f->model.rows; i++) {
        f->model.chosen = i;
        draw(f, 60, 20);
        snprintf(expected, sizeof expected, ">%s ", f->row[i].policy->name);
        int at = find(expected), reversed = 0;
        assert_true(at > 0);
        for (int r = 0; r < 20; r++)
            reversed += tty.reverse[r];
        assert_true(reversed == 1 && tty.reverse[at]);
    }
    assert_int_equal(screen_page(&f->model, 20), 7);
    assert_int_equal(screen_page(&f->model, 1), 1);
}

static void check_order(void **state)
{
    fixture *f = *state;
    static const char *const expected[][3] = {
        [SCREEN_BY_DENIED] = {"login", "api", "idle"},
        [SCREEN_BY_DECIDED] = {"login", "api", "idle"},
        [SCREEN_BY_NAME] = {"api", "idle", "login"},
    };
    for (int sort = 0; sort < 3; sort++) {
        f->model.sort = (screen_sort)sort;
        list(f);
        assert_int_equal(f->model.rows, 3);
        for (int i = 0; i < 3; i++)
            assert_string_equal(f->row[i].policy->name, expected[sort][i]);
        draw(f, 80, 24);
        assert_true(strchr(line(4), '*'));
    }
    f->now.policy[0].counts.allowed = 1000; /* api */
    f->now.policy[2].counts.denied = 1;     /* requests without a policy are listed now */
    f->model.sort = SCREEN_BY_DECIDED;
    list(f);
    assert_int_equal(f->model.rows, 4);
    assert_string_equal(f->row[0].policy->name, "api");
    f->model.sort = SCREEN_BY_DENIED;
    list(f);
    assert_string_equal(f->row[0].policy->name, "login");
    f->model.filter = "p";
    list(f);
    assert_int_equal(f->model.rows, 1);
    draw(f, 80, 24);
    assert_string_equal(line(23), "filter: p (1 policy)  Esc ends it  q quit");
    f->model.filter = "zzz";
    list(f);
    draw(f, 80, 24);
    assert_true(find("no policy matches the filter") > 0);
    f->model.typing = true;
    draw(f, 80, 24);
    assert_string_equal(line(23), "/zzz_");
}

static void check_notes(void **state)
{
    fixture *f = *state;
    f->model.colour = true;
    f->model.notice = "connection lost";
    draw(f, 80, 24);
    assert_string_equal(line(23), "connection lost");
    assert_true(tty.red[23] && tty.red[6] && !tty.red[7]); /* api is denied, idle is not */
    f->keys.len = 0;
    draw(f, 80, 24);
    assert_true(find("  none") > 0);
    strcpy(f->keys.note, "WEIR.TOP is disabled: the configuration has top: off");
    draw(f, 80, 24);
    assert_true(find("  disabled by the configuration: remove `top: off` from weir.yaml") > 0);
    strcpy(f->keys.note, "no policy");
    draw(f, 80, 24);
    assert_true(find("  no policy") > 0);
    f->model.allowed = true; /* these keys are not there yet */
    draw(f, 80, 24);
    assert_true(find("login: the keys with the most allowed units") > 0 && find("  no policy") < 0);
    f->model.now = NULL;
    f->model.rows = 0;
    draw(f, 80, 24);
    assert_string_equal(line(0), "connection lost");
    f->model.help = true;
    draw(f, 80, 24);
    assert_true(find("  q                   quit") > 0);
}

/* Without a terminal there are no control sequences, and every policy is listed. */
static void check_print(void **state)
{
    fixture *f = *state;
    f->model.colour = false;
    weir_buffer_clear(&f->out);
    screen_print(&f->model, 80, &f->out);
    weir_buffer_append_byte(&f->out, '\0');
    const char *text = (const char *)weir_buffer_data(&f->out);
    assert_null(strchr(text, '\033'));
    assert_non_null(strstr(text, "\n login                      21        20         0"));
    assert_non_null(strstr(text, "\n idle "));
    int lines = 0;
    for (; *text; text++)
        lines += *text == '\n';
    assert_int_equal(lines, 3 + 1 + 3);
    f->model.rows = 0;
    weir_buffer_clear(&f->out);
    screen_print(&f->model, 80, &f->out);
    weir_buffer_append_byte(&f->out, '\0');
    assert_non_null(strstr((const char *)weir_buffer_data(&f->out), " no policies\n"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        TEST(check_screen), TEST(check_small_screen), TEST(check_cut_key), TEST(check_all_sizes),
        TEST(check_chosen), TEST(check_order),        TEST(check_notes),   TEST(check_print),
    };
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
