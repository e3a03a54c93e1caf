/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What holds for a key, in words. It decides nothing and must not know where the words go. */

#include "service/explain_text.h"
#include "service/service_internal.h"

static void put_list(weir_buffer *out, const weir_resolved *at)
{
    bool allow = at->list == WEIR_ON_ALLOW_LIST;
    if (weir_resolved_is_listed(at))
        weir_buffer_printf(out, "list     on the %s list: %s\n", allow ? "allow" : "deny",
                           allow ? "always allowed, and not counted" : "always denied");
}

/* Only of another than the local one. */
static void put_engine(weir_buffer *out, weir_engine_kind engine, bool by_error)
{
    static const char *const names[WEIR_ENGINES] = {"local", "redis", "hybrid"};
    if (engine != WEIR_ENGINE_LOCAL)
        weir_buffer_printf(out, "engine   %s%s\n", names[engine],
                           by_error ? ", which could not be asked: what follows is on_error's"
                                    : "");
}

static void put_rule(weir_buffer *out, const weir_request *ask, const weir_resolved *at)
{
    const weir_rule *rule = at->rule;
    char text[WEIR_POLICY_TEXT_MAX];
    weir_policy_print(ask->policy, text, sizeof text);
    if (rule)
        weir_buffer_printf(out, "policy   %s%s\n", rule->name,
                           rule->options->shadow ? ", in shadow: it counts, and denies nobody"
                                                 : "");
    weir_explain_key(out, at->key.at, at->key.len);
    weir_buffer_printf(out, "limit    %s\n", text);
    if (rule && at->limit->pattern)
        weir_buffer_printf(out, "         because of the override %.200s\n", at->limit->pattern);
    put_list(out, at);
}

bool weir_service_explain(weir_service *s, weir_completion *completion, weir_request *ask,
                          int64_t now_ns, weir_buffer *out)
{
    weir_resolved at;
    ask->cost = 1;
    if (!weir_service_peek_resolved(s, completion, ask, now_ns, &at))
        return false;
    if (ask->status != WEIR_OK)
        return true;
    put_rule(out, ask, &at);
    if (weir_resolved_is_listed(&at))
        return true;
    put_engine(out, weir_resolved_engine(s, &at), ask->reason == WEIR_BY_ON_ERROR);
    weir_explain_state(out, ask->policy, &ask->decision, ask->reason == WEIR_BY_SHADOW, now_ns);
    return true;
}
