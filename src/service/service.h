/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H
/* A service finds the rule or the inline policy of each request, and lets the store or another
 * engine decide. Each thread has one service; all services share a limiter (limiter.h). It must not
 * know sockets or protocols. */

#include "port/buffer.h"
#include "port/text.h"
#include "service/limiter.h"
#include "service/request.h"
#include "service/rules/key_template.h"

/* ---- opening --------------------------------------------------------------------------------- */

/* How many parsed inline policies a service caches. */
#define WEIR_SERVICE_POLICIES_MAX 1024

/* Opens a service, to be used by one thread. Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_service_open(weir_service **ret, weir_limiter *l);

/* Accepts NULL. The limiter keeps the counts. No query of the service may be in flight. */
void weir_service_close(weir_service *s);

weir_limiter *weir_service_limiter(weir_service *s);

/* From pin to unpin, the service adopts no other rules, so that a caller decides several requests
 * by the same rules. pin() adopts the active ones first; it may be repeated. To be called on the
 * service's thread, which must not wait while the rules are pinned. */
void weir_service_pin(weir_service *s);
void weir_service_unpin(weir_service *s);

/* Gives the service an engine; NULL takes it away. To be called on the service's thread, with no
 * query in flight.
 *  kind  not WEIR_ENGINE_LOCAL. */
void weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine);

/* ---- taking ---------------------------------------------------------------------------------- */

/* Decides n requests (0..WEIR_BATCH_MAX) in order, as if one by one, at now_ns. Engines are queried
 * in parallel. Writes the status of each request:
 *  - WEIR_OK;
 *  - WEIR_E_ABSENT: no such rule;
 *  - the status of weir_policy_parse(), with error.column > 0: a bad inline policy;
 *  - WEIR_E_RANGE: a bad key or cost;
 *  - WEIR_E_NOMEM: the store is full;
 *  - WEIR_E_IO: the engine failed, and on_error does not decide;
 *  - WEIR_E_UNSUPPORTED: the engine does not support the policy, or is not configured.
 * Returns whether all are answered; see weir_completion. */
WEIR_NODISCARD bool weir_service_take(weir_service *s, weir_completion *completion,
                                      weir_request *requests, size_t n, int64_t now_ns);

/* Decides n requests (1..WEIR_ALL_MAX) atomically: all are charged, or none is. See
 * weir_store_take_many(). Each request gets its own decision. If the call is denied, it is the
 * decision that the request would get alone.
 *  - A key on an allow list is not charged and denies nothing. A key on a deny list denies all.
 *  - A rule in shadow denies nothing. Its request is charged only if all others are allowed and
 *    its own limit allows it, so its counters show the requests that really passed.
 *  - An allowed call counts for each request, a denied call only for the request that denied.
 *  - All states must be kept by one engine, except for keys on lists. Else a request fails with
 *    WEIR_E_UNSUPPORTED.
 *  ret  its status is WEIR_OK; or that of the first request that failed, with nothing charged; or
 *       WEIR_E_RANGE for a bad n, with no request written.
 * Returns whether it is answered; see weir_completion. */
WEIR_NODISCARD bool weir_service_take_all(weir_service *s, weir_completion *completion,
                                          weir_request *requests, size_t n, int64_t now_ns,
                                          weir_all_result *ret);

/* ---- reservations ---------------------------------------------------------------------------- */
/* See weir_store_reserve(). */

#define WEIR_ID_NONE 0 /* the id of an allowed request that needs no reservation */

/* Reserves request->cost units. Decides and counts as weir_service_take(). Statuses are those of
 * weir_service_take() and weir_store_reserve(), and WEIR_E_UNSUPPORTED if another engine than the
 * local one keeps the state. WEIR_E_RANGE, with `why`, is a TTL that the policy does not accept:
 * above its lease, or none without a lease.
 *  ttl_ns  1..WEIR_SPAN_NS_MAX, or 0 for the lease of the policy.
 *  ret_id  written if the request is allowed: WEIR_ID_NONE for a key on an allow list; a
 *          reservation of 0 units if only the shadow allows it. */
void weir_service_reserve(weir_service *s, weir_request *request, int64_t ttl_ns, int64_t now_ns,
                          uint64_t *ret_id);

/* Commits a reservation: see weir_store_commit(). Does nothing for WEIR_ID_NONE, and then reports
 * the largest limit.
 *  ret_next_ns  as weir_request.next_ns; may be NULL. */
WEIR_NODISCARD weir_status weir_service_commit(weir_service *s, uint64_t id, int64_t actual,
                                               int64_t now_ns, weir_decision *ret,
                                               int64_t *ret_over, int64_t *ret_next_ns);

/* Renews a reservation: see weir_store_renew(). Does nothing for WEIR_ID_NONE, and then reports the
 * largest limit.
 *  ret_next_ns  as weir_request.next_ns; may be NULL. */
WEIR_NODISCARD weir_status weir_service_renew(weir_service *s, uint64_t id, int64_t ttl_ns,
                                              int64_t now_ns, weir_decision *ret,
                                              int64_t *ret_next_ns);

/* ---- other operations on one key ------------------------------------------------------------- */
/* They return whether the request is answered; see weir_completion. */

/* Decides as weir_service_take() would, but charges nothing; see weir_peek(). */
WEIR_NODISCARD bool weir_service_peek(weir_service *s, weir_completion *completion,
                                      weir_request *request, int64_t now_ns);

/* Writes next_ns of n decided requests, if their status is WEIR_OK: the smallest d such that a cost
 * of 1, with the same `keep`, would be allowed at now_ns + d under the limit, if nothing else is
 * charged; INT64_MAX if no wait helps; WEIR_NEXT_UNKNOWN (core/figures.h) if an engine did not
 * report it, or the rules have changed since. To be called right after the call that decided, with
 * the same now_ns. Peeks only if the decision does not show that a cost of 1 is allowed now. */
void weir_service_next(weir_service *s, weir_request *requests, size_t n, int64_t now_ns);

/* Writes the figures of a peek, if its status is WEIR_OK: those of the layer that the decision
 * names. There are none for a key on a list, if the rules have changed since, or if an engine did
 * not report them. To be called right after the call that decided, with the same now_ns. */
void weir_service_figures(weir_service *s, weir_request *request, int64_t now_ns);

/* Gives back request->cost units. Statuses are those of weir_service_take(), and WEIR_E_UNSUPPORTED
 * if the policy has no refunds. The decision is that of a peek. A key on a list is not changed. */
WEIR_NODISCARD bool weir_service_refund(weir_service *s, weir_completion *completion,
                                        weir_request *request, int64_t now_ns);

/* Charges request->cost units that were used already, whether they fit or not; see weir_charge().
 * Also writes request->over. Statuses are those of weir_service_take(); WEIR_E_RANGE, with `why`,
 * is also a policy without a rate. The decision is that of a peek with cost 0. Not counted as a
 * request. A key on a list is not charged. */
WEIR_NODISCARD bool weir_service_charge(weir_service *s, weir_completion *completion,
                                        weir_request *request, int64_t now_ns);

/* The same for n requests, 0..WEIR_BATCH_MAX. Engines are queried in parallel. */
WEIR_NODISCARD bool weir_service_charge_all(weir_service *s, weir_completion *completion,
                                            weir_request *requests, size_t n, int64_t now_ns);

/* Deletes the state of a key, so that it has its full quota. Ignores request->cost. Writes only
 * status, why and error. */
WEIR_NODISCARD bool weir_service_reset(weir_service *s, weir_completion *completion,
                                       weir_request *request, int64_t now_ns);

/* Gives all keys of a policy their full quota: those of its own limit, of its overrides and of its
 * candidate; see weir_store_reset_policy(). Reads only rule and by_text; writes only status, why
 * and error. Statuses: WEIR_OK; WEIR_E_ABSENT; WEIR_E_UNSUPPORTED and WEIR_E_IO if another engine
 * keeps the states and cannot reset them; WEIR_E_FULL; or as weir_policy_parse(). */
WEIR_NODISCARD bool weir_service_reset_policy(weir_service *s, weir_completion *completion,
                                              weir_request *request, int64_t now_ns);

/* Describes a key in text, for people: its rule, its limit and the override it is from, its list,
 * the remaining quota, when the quota is full, and when the next request is allowed. Each line ends
 * with "\n". Charges nothing; sets request->cost to 1. */
WEIR_NODISCARD bool weir_service_explain(weir_service *s, weir_completion *completion,
                                         weir_request *request, int64_t now_ns, weir_buffer *out);

/* Decides as CL.THROTTLE does. The state depends on the key alone. */
WEIR_NODISCARD bool weir_service_throttle(weir_service *s, weir_completion *completion,
                                          const weir_throttle *t, weir_slice key, int64_t now_ns,
                                          weir_throttle_result *ret);

/* Finds the key under which the state of a request is kept: its key, or the network of an IP
 * address. Decides nothing. Reads only rule, by_text, key and cost. Prefetches the state of the key
 * in the local store into the processor's cache, for a caller that decides a little later.
 *  ret  written on WEIR_OK; valid until the next call on the service.
 * Returns a status of weir_service_take(). */
WEIR_NODISCARD weir_status weir_service_key(weir_service *s, const weir_request *request,
                                            weir_slice *ret);

/* ---- requests of a proxy --------------------------------------------------------------------- */

/* What happens to a request without a key. */
weir_no_key weir_service_no_key(weir_service *s, weir_slice rule);

/* Writes the key of a request by the key template of a rule.
 *  rule     the name of the rule.
 *  preset   the template of a rule without one: the name of a variable; NULL: none.
 *  value    supplies the values of the variables; see key_template.h.
 *  buf      size bytes.
 *  ret_len  written on WEIR_OK; 0 if all values are empty, or the key needs more than `size` or
 *           WEIR_KEY_MAX bytes.
 * Returns WEIR_OK; WEIR_E_ABSENT if there is no such rule; WEIR_E_UNSUPPORTED if the rule has no
 * template and `preset` is NULL. */
WEIR_NODISCARD weir_status weir_service_make_key(weir_service *s, weir_slice rule,
                                                 const char *preset, weir_key_value *value,
                                                 void *ctx, char *buf, size_t size,
                                                 size_t *ret_len);

/* How many bits of an address count in keys of a rule; those of WEIR_RULE_SPEC_DEFAULT if there is
 * no such rule. */
weir_key_template_bits weir_service_key_bits(weir_service *s, weir_slice rule);

/* Finds the route of a request among the active routes: the first one that matches, or, if `name`
 * is not absent, the first one with that name. Returns NULL if there is none. The route is valid
 * until the next call on the service. */
const weir_route *weir_service_route(weir_service *s, const weir_route_request *request,
                                     weir_slice name);

/* How the active routes read the paths of requests. */
weir_encoded_slash weir_service_slash(weir_service *s);

/* Whether a key template of the active rules reads a header. The case of its name does not
 * matter. */
bool weir_service_wants_header(weir_service *s, weir_slice name);

/* ---- active rules, latency ------------------------------------------------------------------- */

/* "local", "redis" or "hybrid". */
const char *weir_engine_word(weir_engine_kind engine);

/* An active rule, as WEIR.POLICY LIST and /v1/policies show it. */
typedef struct weir_rule_view {
    const char *name;
    const char *limit; /* the policy text as it was given */
    const weir_policy *policy;
    size_t overrides, allow, deny; /* numbers of patterns */
    bool shadow;
    const char *candidate; /* a policy text, or NULL */
    weir_engine_kind engine;
    weir_on_error on_error;
} weir_rule_view;

/* Calls fn for each active rule, sorted by name, until it returns false. The view is valid until fn
 * returns. */
void weir_service_rules(weir_service *s, bool (*fn)(void *ctx, const weir_rule_view *rule),
                        void *ctx);

/* Whether there are decisions whose latency weir_service_latency() has not recorded. The latency of
 * engines is recorded without it. */
bool weir_service_has_decided(const weir_service *s);

/* Records elapsed_ns as the latency of each decision since the last call. */
void weir_service_latency(weir_service *s, int64_t elapsed_ns);

#endif
