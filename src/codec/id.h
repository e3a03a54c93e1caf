/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ID_H
#define WEIR_CODEC_ID_H
/* The ids of reservations as texts: 16 hex digits, since JSON and many clients have no number of 64
 * bits. And what both protocols say of reservations. */

/* Why there is none, of WEIR_E_FULL. */
#define WEIR_RESERVE_FULL                                                                          \
    "as many reservations are open as the store holds, or it is full and refuses new keys"

#define WEIR_ID_EXPECTED "16 hex digits, as the reservation was answered with"

#endif
