/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What holds for a key, in words. It decides nothing and must not know where the words go. */

#include "service/hub.h"
#include "service/words.h"

static void put_rule(weir_buffer *out, const weir_ask *ask, const weir_rule *rule,
                     const weir_rule_key *seen)
{
    char text[WEIR_POLICY_TEXT_MAX];
    weir_policy_print(ask->policy, text, sizeof text);
    if (rule)
        weir_buffer_printf(out, "policy   %s%s\n", rule->name,
                           rule->rest->shadow ? ", in shadow: it counts, and denies nobody" : "");
    if (seen)
        weir_words_key(out, seen->at, seen->len);
    else
        weir_words_key(out, ask->key.at, ask->key.len);
    weir_buffer_printf(out, "limit    %s\n", text);
    if (seen && seen->held->pattern)
        weir_buffer_printf(out, "         because of the override %.200s\n", seen->held->pattern);
    if (seen && seen->list != WEIR_ON_NO_LIST)
        weir_buffer_printf(out, "list     on the %s list: %s\n",
                           seen->list == WEIR_ON_ALLOW_LIST ? "allow" : "deny",
                           seen->list == WEIR_ON_ALLOW_LIST ? "always allowed, and not counted"
                                                            : "always denied");
}

void weir_service_explain(weir_service *s, weir_ask *ask, int64_t now_ns, weir_buffer *out)
{
    ask->cost = 1;
    weir_service_peek(s, ask, now_ns);
    if (ask->status != WEIR_OK)
        return;
    const weir_rule *rule =
        ask->by_text ? NULL : weir_rules_find(s->rules, ask->rule.at, ask->rule.len);
    const weir_rule_key *seen = rule ? &s->seen[0] : NULL;
    put_rule(out, ask, rule, seen);
    if (seen && seen->list != WEIR_ON_NO_LIST)
        return;
    weir_words_figures(out, ask->policy, &ask->decision, ask->reason == WEIR_BY_SHADOW, now_ns);
}
