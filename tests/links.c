/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Linked with the whole of one room and with the rooms that it may call. That it links is the test:
 * a call that goes up has no definition here. */

int main(void)
{
    return 0;
}
