/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_PARTS_H
#define WEIR_CMD_SERVE_PARTS_H
/* The parts of the daemon that are not guests: wrong passwords, the certificates of its listeners,
 * its remote engines, the events of its store, and the service manager that has started it. */

#include "cmd/config/config.h"
#include "cmd/kit/log.h"
#include "net/hand_over.h"
#include "net/notify.h"
#include "net/passed.h"
#include "port/atomic.h"
#include "port/buffer.h"
#include "service/limiter.h"

struct net_tls_server;
struct weir_server;

/* ---- wrong passwords (auth_failures.c) ------------------------------------------------------- */

/* Wrong passwords, and requests that users have no right to: counted for the metrics, and logged at
 * most once a second. The delayed replies to wrong passwords are limited. It never sees a password.
 * It must not know any clock or socket. */

typedef struct auth_failures auth_failures;

/*  log       kept by reference.
 *  held_max  1 or more: how many replies to wrong passwords may be delayed per second.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status auth_failures_open(auth_failures **ret, const log_target *log,
                                              uint64_t held_max);

/* Logs the failures and denials that are not logged yet, and frees *g. Accepts NULL. */
void auth_failures_close(auth_failures *g);

/* Replaces the limit on delayed replies. Threads: any. */
void auth_failures_set_held_max(auth_failures *g, uint64_t held_max);

/* Counts a failure. The log event `wrong-password` has the number of failures since the previous
 * event and the address of the last client.
 *  peer    the client's address, fewer than 64 bytes.
 *  now_ns  of a clock that does not step.
 * Returns true to delay the reply. Returns false if held_max replies of this second are delayed:
 * send the reply at once and close the connection, so that password guessing cannot use up all
 * connections. Threads: any. */
bool auth_failures_add(auth_failures *g, protocol_kind protocol, const char *peer, int64_t now_ns);

/* A request that a user has no right to. */
typedef struct auth_denial {
    protocol_kind protocol;
    const char *peer; /* as for auth_failures_add() */
    const char *user; /* "": the client is not logged in */
    const char *right;
} auth_denial;

/* Counts a denial. The log event `right-denied` has the number of denials since the previous event,
 * and the members of the last one. Threads: any. */
void auth_failures_add_denial(auth_failures *g, const auth_denial *d, int64_t now_ns);

/* Logs the failures that are not logged yet, if a second has passed since the last event. Call it
 * about once a second. Threads: any. */
void auth_failures_tick(auth_failures *g, int64_t now_ns);

/* Appends the metrics weir_wrong_passwords_total and weir_denied_rights_total. Threads: any. */
void auth_failures_put_metrics(auth_failures *g, weir_buffer *out);

/* ---- certificates (tls_listeners.c) ---------------------------------------------------------- */

/* The TLS certificates of the daemon's listeners: loading them, replacing them when their files
 * change, their log lines and their metrics. One thread uses it, except where noted. */

typedef struct tls_listeners tls_listeners;

/* Loads the certificates of all listeners that use TLS.
 *  config     kept by reference; `log` too.
 *  ret_error  `size` bytes; written on WEIR_E_IO.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status tls_listeners_open(tls_listeners **ret, const weir_config *config,
                                              const log_target *log, char *ret_error, size_t size);
void tls_listeners_close(tls_listeners *t); /* accepts NULL; close the server first */

/* The certificate of listener i of the configuration; NULL if it accepts plain text. */
struct net_tls_server *tls_listeners_get(const tls_listeners *t, size_t i);

/* Loads certificates again whose files have changed or could not be loaded. A file that cannot be
 * loaded is logged as tls-reload-refused, and the old certificate stays in use.
 *  config  a reloaded configuration, which may name other files; NULL: the same files. */
void tls_listeners_reload(tls_listeners *t, const weir_config *config);

/* Loads certificates again whose files have changed since the last attempt. Renews the keys of
 * session tickets once a day. Call it about once a second.
 *  now_ns  port_steady_ns(). */
void tls_listeners_tick(tls_listeners *t, int64_t now_ns);

/* Appends the metrics, if a listener uses TLS. Threads: any. */
void tls_listeners_put_metrics(const tls_listeners *t, const struct weir_server *server,
                               weir_buffer *out);

/* ---- engines (engines.c) --------------------------------------------------------------------- */

/* The daemon's remote engines: for each event loop, a redis engine and a hybrid engine on top of
 * it. They exist if the configuration has `redis`, even if no policy uses them yet. */

typedef struct engines engines;

/* Loads the TLS certificates. Does not connect yet.
 *  config, log  kept by reference.
 *  ret_error    written on WEIR_E_IO; `size` bytes.
 * Returns WEIR_OK, with *ret NULL if there is no Redis; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status engines_open(engines **ret, const weir_config *config, weir_store *store,
                                        const log_target *log, char *ret_error, size_t size);

/* Opens the engines of a loop and attaches them to its service; detaches and closes them. Call both
 * on the loop's thread. They accept NULL for e.
 *  loop  0..255, each once. */
void engines_begin(engines *e, unsigned loop, weir_service *service, port_dialer *dialer);
void engines_end(engines *e, unsigned loop, weir_service *service);

/* Waits until each loop is connected to a server, at most patience_ns. Accepts NULL for e. Call it
 * on a thread that runs no loop.
 *  loops     number of loops, which have called engines_begin() or are about to.
 *  gives_up  ends the wait once as many servers are known to fail as there are URLs. */
void engines_await(engines *e, unsigned loops, bool gives_up, int64_t patience_ns);

/* Returns whether any loop is without a server: it has no connection, or, for the calling loop, the
 * circuit breakers of all connected servers are open. Call it on a loop's thread.
 *  loop   the calling loop.
 *  loops  number of loops. */
bool engines_are_down(engines *e, unsigned loop, unsigned loops, int64_t now_ns);

/* Appends " (SERVER: REASON)", escaped for JSON, if a loop has no server and the reason is known.
 * Threads: any. */
void engines_put_why(engines *e, unsigned loops, weir_buffer *out);

/* Appends the metrics of the engines. Accepts NULL. Threads: any. */
void engines_put_metrics(const engines *e, weir_buffer *out);

/* Appends the state of the engines as a JSON value: null for NULL, otherwise an object with `name`,
 * `up`, `failures` and `by_error`. Call it on a loop's thread; see engines_are_down(). */
void engines_put_live(engines *e, unsigned loop, unsigned loops, int64_t now_ns, weir_buffer *out);

/* Call it after the last engines_end(). Accepts NULL. */
void engines_close(engines *e);

/* ---- events of the store (store_events.c) ---------------------------------------------------- */

/* Logs the events of the store while the daemon runs: steps of the wall clock and of weir's clock,
 * a state file that is lost, and policies whose own memory is full. */

typedef struct store_events {
    const log_target *log;
    weir_store *store;
    weir_limiter *limiter;
    const char *state_file;            /* NULL: in memory only */
    uint64_t clock_steps, clock_jumps; /* already logged */
    /* The keys that each partition had evicted or refused at the start; UINT64_MAX: logged. */
    uint64_t lost[WEIR_PARTITIONS_MAX];
    port_counter place; /* a weir_file: the state file at the last check */
} store_events;

/* Begins to watch. What the arguments refer to must outlive *ret. */
void store_events_begin(store_events *ret, const log_target *log, weir_store *store,
                        weir_limiter *limiter, const char *state_file);

/* Logs how the state file was left by the last process that used it. */
void store_events_log_opened(const log_target *log, const char *state_file,
                             const weir_store_opened *opened, int64_t now_ns);

/* Logs at the start if the state file's time differs from the wall clock. */
void store_events_log_offset(store_events *e);

/* Call it about once a second. */
void store_events_tick(store_events *e);

/* Appends whether the state file is lost, if there is one. Any thread. */
void store_events_put_metrics(const store_events *e, weir_buffer *out);

/* ---- hand-over (take_over.c) ----------------------------------------------------------------- */

/* The part of a hand-over that concerns the states and the log. A process uses it to take over
 * from a running daemon, and later when another process takes over from it. One thread uses it. */

struct manager;

typedef struct take_over {
    const log_target *log;
    struct manager *manager;
    weir_store *store;
    bool has_file;   /* a state file */
    bool is_shared;  /* by the configuration */
    bool has_socket; /* the configuration has `hand_over` */
    int memory_fd;   /* of the store's memory, which another process can map; -1: none */
    void *memory;
    size_t memory_bytes;
    net_take_over from; /* the daemon that hands over to this process */
    int from_pid;       /* its process id; 0: there is none */
    bool has_lent;      /* the state file is shared for the hand-over only */
    bool is_lending;    /* a new process is starting */
} take_over;

/* Takes the sockets of the daemon that hands over, if there is one.
 *  ret      the caller has set `log`, `manager` and the members that the configuration decides; the
 *           others are zero.
 *  path     where that daemon listens, or NULL: see net_take_over_begin().
 * Returns WEIR_OK; WEIR_E_IO, with ret_error. */
WEIR_NODISCARD weir_status take_over_open(take_over *ret, const char *path, char *ret_error,
                                          size_t size);

/* Whether a daemon hands over to this process. */
static inline bool take_over_is_on(const take_over *t)
{
    return t->from_pid > 0;
}

/* Opens the store: in the memory of the daemon that hands over, if that daemon has passed it, and
 * if this version and this configuration lay it out in the same way. Otherwise, without a state
 * file and with `has_socket`, opens a new store in memory that can be passed.
 *  options  with `memory_bytes` and `ret_error`, which is written if the result is not WEIR_OK.
 * Returns the status of weir_store_open(). take_over_close_store() accepts a store that was never
 * opened. */
WEIR_NODISCARD weir_status take_over_open_store(take_over *t, const weir_store_options *options);
void take_over_close_store(take_over *t);

/* Call it when the event loops serve: the old daemon then stops, and this process replaces it.
 * Returns false, and logs the reason, if the old daemon goes on serving instead. */
WEIR_NODISCARD bool take_over_end(take_over *t, struct weir_server *server);

/* After a hand-over, takes the state file back for this process alone, once no other uses it. Call
 * it about once a second. */
void take_over_tick(take_over *t);

/* For net_hand_over_options. */
bool take_over_prepare(take_over *t, int *ret_memory, char *ret_error, size_t size);
void take_over_failed(take_over *t);
void take_over_done(take_over *t, int pid);

/* ---- the service manager (manager.c) --------------------------------------------------------- */

/* What systemd, or another manager with the same protocols, has passed to the daemon, and the
 * notifications that the daemon sends to it. The first notification that cannot be sent is logged.
 * Without a manager, the functions do nothing. One thread uses it. */

typedef struct manager {
    const log_target *log;
    net_notifier notifier;
    net_passed passed;
    char serving[512]; /* "resp 127.0.0.1:6380" */
    bool failed;       /* a notification could not be sent */
} manager;

/* Reads the variables of the environment, and takes the sockets that were passed.
 *  log  kept by reference.
 * Returns WEIR_OK; WEIR_E_IO with ret_error. */
WEIR_NODISCARD weir_status manager_open(manager *ret, const log_target *log, char *ret_error,
                                        size_t size);

/* How often to call manager_beat(), which says that the daemon works; 0: never. */
int64_t manager_beat_ns(const manager *m);
void manager_beat(manager *m);

/* The daemon serves this address. Call it for each address, before manager_ready(). */
void manager_add_address(manager *m, const char *protocol, const char *address);

/* The daemon serves this many policies. Call it at the start, and at the end of each reload.
 *  refused  the reload was refused. */
void manager_ready(manager *m, size_t policies, bool refused);

/* A reload begins. */
void manager_reloading(manager *m);

/* The daemon stops, which takes up to stop_ns before it closes its files. */
void manager_stopping(manager *m, int64_t stop_ns);

/* From now on, the process `pid` is the daemon, whose notifications the manager should accept. */
void manager_handed_over(manager *m, int pid);

/* The daemon has not started. */
void manager_failed(manager *m, const char *error);

#endif
