/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints the report as JSON. */

#include "cmd/replay/report.h"

#include "codec/answer/json.h"

#include <inttypes.h>
#include <string.h>

/* Appends `text`, which ends in a name and a colon, and a number. */
static void put_u64(weir_buffer *b, const char *text, uint64_t v)
{
    weir_buffer_printf(b, "%s%" PRIu64, text, v);
}

static void put_string(weir_buffer *b, const char *text, weir_slice v)
{
    weir_buffer_text(b, text);
    weir_json_put_string(b, v.at, v.len);
}

static void put_text(weir_buffer *b, const char *text, const char *v)
{
    put_string(b, text, (weir_slice){v, strlen(v)});
}

static void put_series(weir_buffer *b, const char *text, const uint64_t *counts, size_t len)
{
    weir_buffer_text(b, text);
    for (size_t i = 0; i < len; i++)
        put_u64(b, i > 0 ? "," : "[", counts[i]);
    weir_buffer_text(b, len > 0 ? "]" : "[]");
}

static void put_series_of(weir_buffer *b, const char *text, const replay_series *s,
                          const replay_timeline *t)
{
    uint64_t counts[REPLAY_BUCKETS_MAX];
    if (replay_series_read(s, t, counts)) {
        put_series(b, text, counts, t->len);
    } else {
        weir_buffer_text(b, text);
        weir_buffer_text(b, "null");
    }
}

/* ---- the log --------------------------------------------------------------------------------- */

static void put_logs(weir_buffer *b, const replay_report *r)
{
    weir_buffer_text(b, ",\n \"logs\":[");
    for (size_t i = 0; i < r->logs_len; i++) {
        const accesslog_file *log = &r->logs[i];
        put_text(b, i > 0 ? ",\n  {\"name\":" : "{\"name\":", log->name);
        put_u64(b, ",\"lines\":", log->lines);
        put_u64(b, ",\"requests\":", log->requests);
        put_u64(b, ",\"bad\":", log->bad);
        put_u64(b, ",\"left_out\":", log->left_out);
        weir_buffer_text(b, "}");
    }
    weir_buffer_text(b, "]");
}

static void put_notes(weir_buffer *b, const replay_report *r)
{
    for (size_t i = 0; i < r->notes_len; i++)
        put_text(b, i > 0 ? ",\n  " : ",\n \"notes\":[", r->notes[i]);
    if (r->notes_len > 0)
        weir_buffer_text(b, "]");
}

static void put_load(weir_buffer *b, const replay_report *r)
{
    static const char *const names[REPLAY_PERIODS] = {
        ",\"peak\":{\"second\":", ",\"minute\":", ",\"hour\":"};
    put_series(b, ",\n \"load\":{\"requests\":", r->requests_over_time, r->stats->timeline.len);
    for (int i = 0; i < REPLAY_PERIODS; i++) {
        const replay_percentiles *p = &r->peaks[i];
        weir_buffer_text(b, names[i]);
        weir_buffer_put(b, "{\"p50\":", p->p50);
        weir_buffer_put(b, ",\"p90\":", p->p90);
        weir_buffer_put(b, ",\"p99\":", p->p99);
        weir_buffer_put(b, ",\"max\":", p->max);
        weir_buffer_text(b, "}");
    }
    weir_buffer_text(b, "}}");
}

/* ---- a policy -------------------------------------------------------------------------------- */

static void put_lockout(weir_buffer *b, const replay_lockouts *l)
{
    if (!l->key.at) {
        weir_buffer_text(b, ",\n   \"lockout\":null");
        return;
    }
    weir_buffer_put(b, ",\n   \"lockout\":{\"longest_ns\":", l->longest_ns);
    put_string(b, ",\"key\":", l->key);
    weir_buffer_put(b, ",\"from_ns\":", l->from_ns);
    weir_buffer_text(b, "}");
}

static void put_peak(weir_buffer *b, const replay_policy_report *p)
{
    const replay_counts *c = &p->policy->counts;
    if (!p->peak_key.at) {
        weir_buffer_text(b, ",\n   \"peak_admitted\":null");
        return;
    }
    put_u64(b, ",\n   \"peak_admitted\":{\"units\":", c->peak.units);
    weir_buffer_put(b, ",\"limit\":", c->limit);
    weir_buffer_put(b, ",\"window_ns\":", c->window_ns);
    put_string(b, ",\"key\":", p->peak_key);
    weir_buffer_put(b, ",\"at_ns\":", c->peak.at_ns);
    weir_buffer_text(b, "}");
}

static void put_worst(weir_buffer *b, const replay_worst *w, const replay_timeline *t)
{
    int64_t lockout_ns, from_ns;
    replay_lockout(w->denials, &lockout_ns, &from_ns);
    put_string(b, "{\"key\":", w->text);
    put_u64(b, ",\"requests\":", w->key->requests);
    put_u64(b, ",\"denied\":", w->denials->count);
    weir_buffer_put(b, ",\"lockout_ns\":", lockout_ns);
    weir_buffer_put(b, ",\"peak_minute\":", w->key->peak[REPLAY_MINUTE]);
    weir_buffer_put(b, ",\"first_denied_ns\":", w->denials->first_ns);
    weir_buffer_put(b, ",\"last_denied_ns\":", w->denials->last_ns);
    put_series_of(b, ",\"requests_over_time\":", &w->key->over_time, t);
    put_series_of(b, ",\"denied_over_time\":", &w->denials->over_time, t);
    weir_buffer_text(b, "}");
}

static void put_change(weir_buffer *b, const replay_policy_report *p)
{
    put_u64(b, ",\n   \"change\":{\"requests_newly_denied\":", p->policy->counts.newly_denied);
    put_u64(b, ",\"requests_newly_allowed\":", p->policy->counts.newly_allowed);
    put_u64(b, ",\"keys_newly_denied\":", p->keys_newly_denied);
    put_u64(b, ",\"keys_no_longer_denied\":", p->keys_no_longer_denied);
    weir_buffer_text(b, "}");
}

static void put_policy(weir_buffer *b, const replay_report *r, size_t i, size_t worst_max)
{
    const replay_policy_report *p = &r->policy[i];
    const replay_counts *c = &p->policy->counts;
    const replay_timeline *t = &r->stats->timeline;
    if (p->policy->by_name)
        put_text(b, "{\"name\":", p->policy->given);
    else
        weir_buffer_text(b, "{\"name\":null");
    put_text(b, ",\"policy\":", p->policy->text);
    weir_buffer_text(b, p->policy->shadow ? ",\"shadow\":true" : ",\"shadow\":false");
    weir_buffer_text(b, i == 0 ? ",\"baseline\":true" : ",\"baseline\":false");
    put_u64(b, ",\n   \"allowed\":", p->allowed);
    put_u64(b, ",\"denied\":", c->denied);
    put_u64(b, ",\"would_be_denied\":", c->shadowed);
    put_u64(b, ",\"allow_listed\":", c->allow_listed);
    put_u64(b, ",\"deny_listed\":", c->deny_listed);
    put_u64(b, ",\n   \"keys_denied\":", p->keys_denied);
    put_u64(b, ",\"keys\":", p->keys);
    put_lockout(b, &p->lockout);
    put_peak(b, p);
    put_series(b, ",\n   \"denied_over_time\":", p->denied_over_time, t->len);
    weir_buffer_text(b, ",\n   \"worst\":[");
    for (size_t k = 0; k < p->worst_len && k < worst_max; k++) {
        weir_buffer_text(b, k > 0 ? ",\n    " : "\n    ");
        put_worst(b, &p->worst[k], t);
    }
    weir_buffer_text(b, "]");
    if (i > 0)
        put_change(b, p);
    weir_buffer_text(b, "}");
}

void replay_report_json(weir_buffer *out, const replay_report *r, size_t worst_max)
{
    const replay_stats *s = r->stats;
    weir_buffer_text(out, "{\"weir\":\"replay\",\"version\":1");
    put_logs(out, r);
    put_u64(out, ",\n \"requests\":", s->requests);
    put_u64(out, ",\"keys\":", r->keys);
    weir_buffer_put(out, ",\"cost\":", s->cost);
    put_u64(out, ",\"late\":", r->late);
    weir_buffer_put(out, ",\"first_ns\":", s->timeline.first_ns);
    weir_buffer_put(out, ",\"last_ns\":", s->last_ns);
    weir_buffer_put(out, ",\n \"time\":{\"first_ns\":", replay_timeline_start_ns(&s->timeline));
    weir_buffer_put(out, ",\"width_ns\":", replay_timeline_width_ns(&s->timeline));
    put_u64(out, ",\"buckets\":", s->timeline.len);
    weir_buffer_text(out, "}");
    put_notes(out, r);
    put_load(out, r);
    weir_buffer_text(out, ",\n \"policies\":[");
    for (size_t i = 0; i < r->policies; i++) {
        weir_buffer_text(out, i > 0 ? ",\n  " : "\n  ");
        put_policy(out, r, i, worst_max);
    }
    weir_buffer_text(out, "]}\n");
}
