/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_NGX_CORE_H
#define WEIR_TESTS_NGX_CORE_H
/* A small fake of the API of nginx, with the parts that the module uses, for its unit tests. The
 * time, the events and the socket belong to the test. Structures have only the members that the
 * module uses, and functions do only what it needs of them; fake.h has the test's side. */

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

typedef intptr_t ngx_int_t, ngx_msec_int_t;
typedef uintptr_t ngx_uint_t, ngx_msec_t;
typedef unsigned long ngx_atomic_uint_t;
typedef volatile ngx_atomic_uint_t ngx_atomic_t;
typedef int ngx_err_t, ngx_socket_t, ngx_fd_t;

enum {
    NGX_OK = 0,
    NGX_ERROR = -1,
    NGX_AGAIN = -2,
    NGX_DONE = -4,
    NGX_DECLINED = -5,
    NGX_FILE_ERROR = -1,
    NGX_INVALID_FILE = -1
};
#define NGX_CONF_OK         NULL
#define NGX_CONF_ERROR      ((void *)-1)
#define NGX_CONF_UNSET_PTR  ((void *)-1)
#define NGX_CONF_UNSET_UINT ((ngx_uint_t)-1)
#define NGX_MAX_PATH        4096
#define NGX_SIZE_T_LEN      20
#define NGX_INT64_LEN       20
#define NGX_HAVE_INET6      1
#define NGX_ENOENT          ENOENT
#define NGX_ENOMEM          ENOMEM
#define NGX_ETIMEDOUT       ETIMEDOUT

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct ngx_str_s {
    size_t len;
    u_char *data;
} ngx_str_t;

#define ngx_string(text)                                                                           \
    {                                                                                              \
        sizeof(text) - 1, (u_char *)(text)                                                         \
    }
#define ngx_null_string                                                                            \
    {                                                                                              \
        0, NULL                                                                                    \
    }
#define ngx_memcmp(a, b, n)      memcmp(a, b, n)
#define ngx_memcpy(to, from, n)  ((void)memcpy(to, from, n))
#define ngx_cpymem(to, from, n)  ((u_char *)memcpy(to, from, n) + (n))
#define ngx_memmove(to, from, n) ((void)memmove(to, from, n))
#define ngx_memzero(at, n)       ((void)memset(at, 0, n))
#define ngx_strcmp(a, b)         strcmp((const char *)(a), (const char *)(b))
#define ngx_strncmp(a, b, n)     strncmp((const char *)(a), (const char *)(b), n)
#define ngx_strncasecmp(a, b, n) strncasecmp((const char *)(a), (const char *)(b), n)
#define ngx_min(a, b)            ((a) < (b) ? (a) : (b))
#define ngx_max(a, b)            ((a) > (b) ? (a) : (b))
#define ngx_align(n, to)         (((n) + ((to)-1)) & ~((to)-1))
ngx_int_t ngx_memn2cmp(const u_char *a, const u_char *b, size_t a_len, size_t b_len);
u_char *ngx_sprintf(u_char *to, const char *format, ...);
u_char *ngx_snprintf(u_char *to, size_t max, const char *format, ...);
ngx_int_t ngx_atoi(u_char *text, size_t len);
ngx_int_t ngx_parse_time(ngx_str_t *text, ngx_uint_t is_sec);
off_t ngx_parse_offset(ngx_str_t *text);

/* ---- the log --------------------------------------------------------------------------------- */

enum {
    NGX_LOG_EMERG = 1,
    NGX_LOG_ALERT = 2,
    NGX_LOG_ERR = 4,
    NGX_LOG_WARN = 5,
    NGX_LOG_NOTICE = 6,
    NGX_LOG_INFO = 7
};
typedef struct ngx_log_s {
    ngx_uint_t log_level;
} ngx_log_t;
void fake_log(ngx_uint_t level, const char *format, ...);
#define ngx_log_error(level, log, err, ...)                                                        \
    ((log)->log_level >= (level) ? (void)(err), fake_log(level, __VA_ARGS__) : (void)0)
#define ngx_conf_log_error(level, cf, err, ...) ngx_log_error(level, (cf)->log, err, __VA_ARGS__)
#define ngx_log_debug3(level, log, err, format, a, b, c)                                           \
    ((void)(log), (void)(a), (void)(b), (void)(c))

/* ---- memory ---------------------------------------------------------------------------------- */

typedef struct ngx_pool_cleanup_s {
    void (*handler)(void *data);
    void *data;
    struct ngx_pool_cleanup_s *next;
} ngx_pool_cleanup_t;
typedef struct ngx_pool_s {
    ngx_pool_cleanup_t *cleanup;
    struct fake_block *blocks;
} ngx_pool_t;
void *ngx_palloc(ngx_pool_t *pool, size_t n);
void *ngx_pcalloc(ngx_pool_t *pool, size_t n);
#define ngx_pnalloc ngx_palloc
ngx_pool_cleanup_t *ngx_pool_cleanup_add(ngx_pool_t *pool, size_t n);
void *ngx_alloc(size_t n, ngx_log_t *log);
void ngx_free(void *at);

typedef struct ngx_array_s {
    void *elts;
    ngx_uint_t nelts;
    size_t size;
    ngx_uint_t nalloc;
    ngx_pool_t *pool;
} ngx_array_t;
ngx_int_t ngx_array_init(ngx_array_t *a, ngx_pool_t *pool, ngx_uint_t n, size_t size);
ngx_array_t *ngx_array_create(ngx_pool_t *pool, ngx_uint_t n, size_t size);
void *ngx_array_push(ngx_array_t *a);

typedef struct ngx_list_part_s {
    void *elts;
    ngx_uint_t nelts;
    struct ngx_list_part_s *next;
} ngx_list_part_t;
enum { FAKE_LIST_MAX = 16 };
typedef struct ngx_list_s { /* one part of FAKE_LIST_MAX */
    ngx_list_part_t part;
    size_t size;
} ngx_list_t;
void *ngx_list_push(ngx_list_t *l);

typedef struct ngx_queue_s {
    struct ngx_queue_s *prev, *next;
} ngx_queue_t;
#define ngx_queue_init(q)               ((q)->prev = (q)->next = (q))
#define ngx_queue_empty(q)              ((q)->next == (q))
#define ngx_queue_head(q)               ((q)->next)
#define ngx_queue_data(q, type, member) ((type *)((char *)(q)-offsetof(type, member)))
#define ngx_queue_insert_tail(h, q)                                                                \
    ((q)->prev = (h)->prev, (q)->prev->next = (q), (q)->next = (h), (h)->prev = (q))
#define ngx_queue_remove(q)         ((q)->next->prev = (q)->prev, (q)->prev->next = (q)->next)
#define ngx_atomic_fetch_add(at, n) __sync_fetch_and_add(at, n)

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct ngx_file_s {
    ngx_fd_t fd;
    ngx_str_t name;
    ngx_log_t *log;
} ngx_file_t;
typedef struct stat ngx_file_info_t;
#define NGX_FILE_RDONLY                        O_RDONLY
#define NGX_FILE_OPEN                          0
#define ngx_errno                              errno
#define ngx_open_file(name, mode, how, access) open((const char *)(name), (mode) | (how), access)
#define ngx_close_file                         close
#define ngx_fd_info                            fstat
#define ngx_file_info(name, info)              stat((const char *)(name), info)
#define ngx_file_size(info)                    ((info)->st_size)
#define ngx_is_file(info)                      S_ISREG((info)->st_mode)
ssize_t ngx_read_file(ngx_file_t *file, u_char *to, size_t n, off_t from);

/* ---- the process ----------------------------------------------------------------------------- */

typedef struct ngx_shm_s {
    u_char *addr;
    size_t size;
    ngx_str_t name;
    ngx_log_t *log;
    ngx_uint_t exists;
} ngx_shm_t;
typedef struct ngx_shm_zone_s ngx_shm_zone_t;
struct ngx_shm_zone_s {
    void *data;
    ngx_shm_t shm;
    ngx_int_t (*init)(ngx_shm_zone_t *zone, void *data);
    void *tag;
};
typedef struct ngx_slab_pool_s {
    void *data;
} ngx_slab_pool_t;
void *ngx_slab_alloc(ngx_slab_pool_t *pool, size_t n);
void *ngx_slab_calloc(ngx_slab_pool_t *pool, size_t n);

typedef struct ngx_cycle_s ngx_cycle_t;
struct ngx_cycle_s {
    void *conf_ctx;
    ngx_log_t *log;
    ngx_list_t shared_memory;
    ngx_cycle_t *old_cycle;
    void **main_conf; /* of the HTTP modules */
};
extern ngx_cycle_t *ngx_cycle;
extern ngx_uint_t ngx_pagesize, ngx_exiting, ngx_process, ngx_test_config;
extern ngx_msec_t ngx_current_msec;
time_t ngx_time(void);
enum { NGX_PROCESS_SINGLE = 0, NGX_PROCESS_MASTER = 1, NGX_PROCESS_WORKER = 3 };
#define ngx_is_init_cycle(cycle) ((cycle)->conf_ctx == NULL)

typedef struct ngx_module_s {
    ngx_uint_t ctx_index;
    void *ctx;
    struct ngx_command_s *commands;
    ngx_uint_t type;
    ngx_int_t (*init_process)(ngx_cycle_t *cycle);
    void (*exit_process)(ngx_cycle_t *cycle);
    uintptr_t padding;
} ngx_module_t;
#define NGX_MODULE_V1         .ctx_index = 1 /* that of the core module is 0 */
#define NGX_MODULE_V1_PADDING .padding = 0
typedef struct ngx_core_conf_s {
    uid_t user;
} ngx_core_conf_t;
extern ngx_module_t ngx_core_module;
#define ngx_get_conf(ctx, module) (ctx)

/* ---- the configuration ----------------------------------------------------------------------- */

typedef struct ngx_conf_file_s {
    ngx_file_t file;
    ngx_uint_t line;
} ngx_conf_file_t;
typedef struct ngx_conf_s {
    ngx_array_t *args;
    ngx_cycle_t *cycle;
    ngx_pool_t *pool;
    ngx_log_t *log;
    ngx_conf_file_t *conf_file;
    void **main_conf, **loc_conf;
} ngx_conf_t;
typedef struct ngx_command_s {
    ngx_str_t name;
    ngx_uint_t type;
    char *(*set)(ngx_conf_t *cf, struct ngx_command_s *cmd, void *conf);
    ngx_uint_t conf;
    ngx_uint_t offset;
    void *post;
} ngx_command_t;
enum {
    NGX_CONF_NOARGS = 1,
    NGX_CONF_TAKE1 = 2,
    NGX_CONF_TAKE12 = 4,
    NGX_CONF_TAKE3 = 8,
    NGX_CONF_1MORE = 16,
    NGX_CONF_2MORE = 32,
    NGX_HTTP_MAIN_CONF = 64,
    NGX_HTTP_SRV_CONF = 128,
    NGX_HTTP_LOC_CONF = 256
};
enum { NGX_HTTP_MAIN_CONF_OFFSET = 0, NGX_HTTP_LOC_CONF_OFFSET = 1 };
#define ngx_null_command                                                                           \
    {                                                                                              \
        .type = 0                                                                                  \
    }
#define ngx_conf_merge_ptr_value(conf, before, none)                                               \
    ((conf) = (conf) != NGX_CONF_UNSET_PTR     ? (conf)                                            \
              : (before) != NGX_CONF_UNSET_PTR ? (before)                                          \
                                               : (none))
#define ngx_conf_merge_uint_value(conf, before, none)                                              \
    ((conf) = (conf) != NGX_CONF_UNSET_UINT     ? (conf)                                           \
              : (before) != NGX_CONF_UNSET_UINT ? (before)                                         \
                                                : (none))
ngx_int_t ngx_conf_full_name(ngx_cycle_t *cycle, ngx_str_t *name, ngx_uint_t prefix);
ngx_shm_zone_t *ngx_shared_memory_add(ngx_conf_t *cf, ngx_str_t *name, size_t size, void *tag);

/* ---- events and connections ------------------------------------------------------------------ */

typedef struct ngx_event_s ngx_event_t;
typedef void (*ngx_event_handler_pt)(ngx_event_t *event);
struct ngx_event_s {
    void *data;
    ngx_event_handler_pt handler;
    ngx_log_t *log;
    struct {
        ngx_msec_t key;
    } timer;
    unsigned timer_set : 1, posted : 1, cancelable : 1, ready : 1;
};
void ngx_add_timer(ngx_event_t *event, ngx_msec_t ms);
void ngx_del_timer(ngx_event_t *event);
void fake_post(ngx_event_t *event);
void ngx_delete_posted_event(ngx_event_t *event);
extern ngx_queue_t ngx_posted_events;
#define ngx_post_event(event, queue) ((void)(queue), fake_post(event))

typedef struct ngx_connection_s ngx_connection_t;
struct ngx_connection_s {
    void *data;
    ngx_event_t *read, *write;
    ngx_socket_t fd;
    ssize_t (*recv)(ngx_connection_t *c, u_char *to, size_t max);
    ssize_t (*send)(ngx_connection_t *c, u_char *from, size_t n);
    ngx_log_t *log;
    unsigned idle : 1, close : 1;
};
typedef struct ngx_addr_s {
    struct sockaddr *sockaddr;
    socklen_t socklen;
    ngx_str_t name;
} ngx_addr_t;
typedef struct ngx_peer_connection_s {
    ngx_connection_t *connection;
    struct sockaddr *sockaddr;
    socklen_t socklen;
    ngx_str_t *name;
    ngx_int_t (*get)(struct ngx_peer_connection_s *pc, void *data);
    ngx_log_t *log;
    unsigned log_error;
} ngx_peer_connection_t;
enum { NGX_ERROR_INFO = 1 };
typedef struct ngx_url_s {
    ngx_str_t url, uri;
    in_port_t default_port;
    ngx_addr_t *addrs;
    ngx_uint_t naddrs;
    const char *err;
} ngx_url_t;
ngx_int_t ngx_parse_url(ngx_pool_t *pool, ngx_url_t *url);
ngx_int_t ngx_parse_addr(ngx_pool_t *pool, ngx_addr_t *addr, u_char *text, size_t len);
ngx_int_t ngx_event_connect_peer(ngx_peer_connection_t *pc);
ngx_int_t ngx_event_get_peer(ngx_peer_connection_t *pc, void *data);
void ngx_close_connection(ngx_connection_t *c);
ngx_int_t ngx_handle_read_event(ngx_event_t *event, ngx_uint_t flags);
ngx_int_t ngx_handle_write_event(ngx_event_t *event, size_t lowat);
#define ngx_tcp_nodelay(c)         ((void)(c), NGX_OK)
#define ngx_socket_errno           errno
#define ngx_set_socket_errno(code) (errno = (code))

/* ---- HTTP ------------------------------------------------------------------------------------ */

enum {
    NGX_HTTP_OK = 200,
    NGX_HTTP_BAD_REQUEST = 400,
    NGX_HTTP_NOT_ALLOWED = 405,
    NGX_HTTP_TOO_MANY_REQUESTS = 429,
    NGX_HTTP_CLOSE = 444,
    NGX_HTTP_CLIENT_CLOSED_REQUEST = 499,
    NGX_HTTP_INTERNAL_SERVER_ERROR = 500
};
enum { NGX_HTTP_GET = 2, NGX_HTTP_HEAD = 4, NGX_HTTP_POST = 8, NGX_HTTP_DELETE = 32 };
enum { NGX_HTTP_MODULE = 1, NGX_HTTP_PREACCESS_PHASE = 0, NGX_HTTP_VAR_NOCACHEABLE = 2 };

typedef struct ngx_http_request_s ngx_http_request_t;
typedef ngx_int_t (*ngx_http_handler_pt)(ngx_http_request_t *r);
typedef void (*ngx_http_event_handler_pt)(ngx_http_request_t *r);
typedef ngx_int_t (*ngx_http_output_header_filter_pt)(ngx_http_request_t *r);
typedef struct ngx_table_elt_s {
    ngx_uint_t hash;
    ngx_str_t key, value;
} ngx_table_elt_t;
typedef struct ngx_buf_s {
    u_char *pos, *last;
    unsigned last_buf : 1, last_in_chain : 1;
} ngx_buf_t;
typedef struct ngx_chain_s {
    ngx_buf_t *buf;
    struct ngx_chain_s *next;
} ngx_chain_t;
ngx_buf_t *ngx_create_temp_buf(ngx_pool_t *pool, size_t n);

struct ngx_http_request_s {
    void **ctx, **main_conf, **loc_conf;
    ngx_pool_t *pool;
    ngx_connection_t *connection;
    ngx_http_request_t *main;
    ngx_uint_t method;
    ngx_http_event_handler_pt read_event_handler, write_event_handler;
    unsigned internal : 1, filter_finalize : 1, header_only : 1;
    struct {
        ngx_uint_t status;
        off_t content_length_n;
        ngx_str_t content_type;
        size_t content_type_len;
        ngx_list_t headers; /* of ngx_table_elt_t */
    } headers_out;
};
#define ngx_http_get_module_ctx(r, module)             (r)->ctx[(module).ctx_index]
#define ngx_http_set_ctx(r, c, module)                 ((r)->ctx[(module).ctx_index] = (c))
#define ngx_http_get_module_main_conf(r, module)       (r)->main_conf[(module).ctx_index]
#define ngx_http_get_module_loc_conf(r, module)        (r)->loc_conf[(module).ctx_index]
#define ngx_http_conf_get_module_main_conf(cf, module) (cf)->main_conf[(module).ctx_index]
#define ngx_http_conf_get_module_loc_conf(cf, module)  (cf)->loc_conf[(module).ctx_index]
#define ngx_http_cycle_get_module_main_conf(cycle, module)                                         \
    ((cycle)->main_conf ? (cycle)->main_conf[(module).ctx_index] : NULL)

typedef struct ngx_hash_key_s {
    ngx_str_t key;
} ngx_hash_key_t;
typedef struct ngx_hash_keys_arrays_s {
    ngx_array_t keys; /* of ngx_hash_key_t */
} ngx_hash_keys_arrays_t;
typedef struct ngx_http_core_main_conf_s {
    struct {
        ngx_array_t handlers; /* of ngx_http_handler_pt */
    } phases[1];
    ngx_hash_keys_arrays_t *variables_keys;
} ngx_http_core_main_conf_t;
typedef struct ngx_http_core_loc_conf_s {
    ngx_http_handler_pt handler;
    ngx_log_t *error_log;
} ngx_http_core_loc_conf_t;
typedef struct ngx_http_module_s {
    ngx_int_t (*preconfiguration)(ngx_conf_t *cf);
    ngx_int_t (*postconfiguration)(ngx_conf_t *cf);
    void *(*create_main_conf)(ngx_conf_t *cf);
    void *(*create_loc_conf)(ngx_conf_t *cf);
    char *(*merge_loc_conf)(ngx_conf_t *cf, void *before, void *conf);
} ngx_http_module_t;
extern ngx_module_t ngx_http_core_module;
extern ngx_http_output_header_filter_pt ngx_http_top_header_filter;

/* A text with a '$' is a variable: its value is fake.variable. */
typedef struct ngx_http_complex_value_s {
    ngx_str_t value;
    void *lengths; /* NULL: the value is constant */
} ngx_http_complex_value_t;
typedef struct ngx_http_compile_complex_value_s {
    ngx_conf_t *cf;
    ngx_str_t *value;
    ngx_http_complex_value_t *complex_value;
} ngx_http_compile_complex_value_t;
ngx_int_t ngx_http_compile_complex_value(ngx_http_compile_complex_value_t *compile);
ngx_int_t ngx_http_complex_value(ngx_http_request_t *r, ngx_http_complex_value_t *v,
                                 ngx_str_t *ret);

typedef struct ngx_http_variable_value_s {
    unsigned len : 28, valid : 1, no_cacheable : 1, not_found : 1;
    u_char *data;
} ngx_http_variable_value_t;
typedef struct ngx_http_variable_s {
    ngx_str_t name;
    ngx_int_t (*get_handler)(ngx_http_request_t *r, ngx_http_variable_value_t *ret, uintptr_t data);
    uintptr_t data;
} ngx_http_variable_t;
ngx_http_variable_t *ngx_http_add_variable(ngx_conf_t *cf, ngx_str_t *name, ngx_uint_t flags);

ngx_int_t ngx_http_send_header(ngx_http_request_t *r);
ngx_int_t ngx_http_output_filter(ngx_http_request_t *r, ngx_chain_t *out);
ngx_int_t ngx_http_send_response(ngx_http_request_t *r, ngx_uint_t status, ngx_str_t *type,
                                 ngx_http_complex_value_t *body);
ngx_int_t ngx_http_discard_request_body(ngx_http_request_t *r);
void ngx_http_finalize_request(ngx_http_request_t *r, ngx_int_t rc);
void ngx_http_core_run_phases(ngx_http_request_t *r);
void ngx_http_run_posted_requests(ngx_connection_t *c);
void ngx_http_test_reading(ngx_http_request_t *r);
void ngx_http_block_reading(ngx_http_request_t *r);
void ngx_http_request_empty_handler(ngx_http_request_t *r);
#define ngx_http_set_log_request(log, r) ((void)(log), (void)(r))

#endif
