/* SPDX-License-Identifier: BSD-2-Clause */
/* Assertions: WEIR_ASSERT(x) states an invariant that no input can break.
 *
 * A build that defines WEIR_ASSERTS checks each one. meson.build defines it in debug, sanitizer and
 * fuzz builds. A failed assertion prints its place and aborts the process. Other builds compile the
 * expression but never evaluate it, so it must have no side effects. An assertion never replaces
 * the check of an input. */
#ifndef WEIR_PORT_ASSERT_H
#define WEIR_PORT_ASSERT_H

#ifdef WEIR_ASSERTS
/* Prints the expression and its place to stderr, and aborts. Any thread. */
_Noreturn void port_assert_failed(const char *expression, const char *file, int line);
#define WEIR_ASSERT(x) ((x) ? (void)0 : port_assert_failed(#x, __FILE__, __LINE__))
#else
#define WEIR_ASSERT(x) ((void)sizeof(!(x)))
#endif

#endif
