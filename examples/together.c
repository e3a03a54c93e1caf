/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A request for two keys: it is charged to both the user and the organisation, or to neither. */

#include <weir/weir_store.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static weir_store *store;
static weir_policy per_user, per_org;

static void ask(const char *user, const char *org)
{
    weir_store_request both[] = {{.policy = &per_user,
                                  .policy_id = weir_store_policy_id(store, &per_user),
                                  .key = user,
                                  .key_len = strlen(user),
                                  .cost = 1},
                                 {.policy = &per_org,
                                  .policy_id = weir_store_policy_id(store, &per_org),
                                  .key = org,
                                  .key_len = strlen(org),
                                  .cost = 1}};
    size_t blocking;
    if (weir_store_take_many(store, both, 2, 1000000000, &blocking) != WEIR_OK)
        return;
    if (blocking < 2)
        printf("%s of %s: denied by the policy of the %s\n", user, org,
               blocking == 0 ? "user" : "organisation");
    else
        printf("%s of %s: allowed, %" PRId64 " and %" PRId64 " remaining\n", user, org,
               both[0].decision.remaining, both[1].decision.remaining);
}

int main(void)
{
    if (weir_policy_parse(&per_user, "gcra 2/h burst 2", 16, NULL, NULL) != WEIR_OK ||
        weir_policy_parse(&per_org, "sliding-log 3/h", 15, NULL, NULL) != WEIR_OK ||
        weir_store_open(&store, NULL) != WEIR_OK)
        return 1;
    ask("alice", "acme");
    ask("alice", "acme");
    ask("alice", "acme");
    ask("bob", "acme");
    ask("bob", "acme");
    ask("bob", "corp"); /* bob was not charged for the request that acme denied */
    weir_store_close(store);
    return 0;
}
