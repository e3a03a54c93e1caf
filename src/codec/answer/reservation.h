/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_RESERVATION_H
#define WEIR_CODEC_ANSWER_RESERVATION_H
/* What RESP and HTTP share about reservations: the parser of a time-to-live, and error messages. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The error for WEIR_E_FULL. */
#define WEIR_RESERVE_FULL                                                                          \
    "too many open reservations, or the store is full and refuses new keys (memory.when_full), "   \
    "or it knows too many limits"

/* The error for WEIR_E_ABSENT; takes the length and the bytes of the id. */
#define WEIR_NO_RESERVATION                                                                        \
    "no open reservation %.*s: it was committed, was cancelled or has expired"

#define WEIR_ID_EXPECTED "16 hexadecimal digits, the id that reserve returned"

/* The input of weir_ttl_read(), for errors. */
#define WEIR_TTL_EXPECTED                                                                          \
    "a duration from 1ns to 36.5 years, such as 30s or 1h30m, or a number of seconds"

#define WEIR_TTL_REFUSAL_MAX 160 /* bytes, with the terminator */

/* Writes the error for a TTL that a policy does not accept.
 *  place   the name of the TTL in the protocol.
 *  ttl_ns  1..WEIR_SPAN_NS_MAX; 0: none was given. */
void weir_ttl_refusal(char ret[static WEIR_TTL_REFUSAL_MAX], const char *place, int64_t ttl_ns);

/* Reads a duration: a period of the policy language, or a whole number of seconds.
 *  ret  1..WEIR_SPAN_NS_MAX; written only on success. Pure. */
bool weir_ttl_read(const char *at, size_t len, int64_t *ret);

#endif
