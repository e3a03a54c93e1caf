/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* EXPLAIN: describes the rule, the limit and the state of a key. */

#include "service/explain_text.h"
#include "service/service.h"
#include "service/service_internal.h"

static void put_list(weir_buffer *out, const weir_resolved *at)
{
    bool allow = at->list == WEIR_ON_ALLOW_LIST;
    if (weir_resolved_is_listed(at))
        weir_buffer_printf(out, "list     on the %s list: %s\n", allow ? "allow" : "deny",
                           allow ? "always allowed, and not counted" : "always denied");
}

const char *weir_engine_word(weir_engine_kind engine)
{
    static const char *const words[WEIR_ENGINES] = {[WEIR_ENGINE_LOCAL] = "local",
                                                    [WEIR_ENGINE_REDIS] = "redis",
                                                    [WEIR_ENGINE_HYBRID] = "hybrid"};
    WEIR_ASSERT(engine < WEIR_ENGINES);
    return words[engine];
}

/* Writes nothing for the local engine. */
static void put_engine(weir_buffer *out, weir_engine_kind engine, bool by_error)
{
    if (engine != WEIR_ENGINE_LOCAL)
        weir_buffer_printf(out, "engine   %s%s\n", weir_engine_word(engine),
                           by_error ? ", whose server is unreachable: on_error decides" : "");
}

static void put_rule(weir_buffer *out, const weir_request *request, const weir_resolved *at)
{
    const weir_rule *rule = at->rule;
    char text[WEIR_POLICY_TEXT_MAX];
    weir_policy_print(request->policy, text, sizeof text);
    if (rule)
        weir_buffer_printf(out, "policy   %s%s\n", rule->name,
                           rule->shadow ? ", in shadow mode: it denies no requests" : "");
    weir_explain_key(out, at->key.at, at->key.len);
    weir_buffer_printf(out, "limit    %s\n", text);
    if (rule && at->limit->pattern)
        weir_buffer_printf(out, "         because of the override %.200s\n", at->limit->pattern);
    put_list(out, at);
}

bool weir_service_explain(weir_service *s, weir_completion *completion, weir_request *request,
                          int64_t now_ns, weir_buffer *out)
{
    weir_resolved at;
    request->cost = 1;
    if (!weir_service_peek_resolved(s, completion, request, now_ns, &at))
        return false;
    if (request->status != WEIR_OK)
        return true;
    put_rule(out, request, &at);
    if (weir_resolved_is_listed(&at))
        return true;
    put_engine(out, weir_resolved_engine(s, &at), request->reason == WEIR_BY_ON_ERROR);
    weir_explain_state(out, request->policy, &request->decision, request->reason == WEIR_BY_SHADOW,
                       now_ns);
    return true;
}
