/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The fake nginx: see ngx_core.h and fake.h. */

#include "fake.h"

#include <stdarg.h>

enum { ZONES_MAX = FAKE_LIST_MAX, VARIABLES_MAX = 16, WORDS_MAX = 24 };

typedef struct fake_block {
    struct fake_block *next;
    _Alignas(16) char bytes[];
} fake_block;

fake_nginx fake;

static ngx_log_t log_all = {NGX_LOG_INFO};
static ngx_cycle_t cycles[2]; /* the running one, and the one before a reload */
static ngx_pool_t pools[2];
static int current;
static ngx_http_variable_t variables[VARIABLES_MAX];
static size_t variables_len;
static void *main_confs[2], *loc_confs[2], *request_ctx[2];
static ngx_http_core_main_conf_t core_main;
static ngx_hash_keys_arrays_t known;
static ngx_core_conf_t core_conf;

ngx_cycle_t *ngx_cycle;
ngx_uint_t ngx_pagesize = 4096, ngx_exiting, ngx_process, ngx_test_config;
ngx_module_t ngx_core_module, ngx_http_core_module;
ngx_http_output_header_filter_pt ngx_http_top_header_filter;

/* ---- texts ----------------------------------------------------------------------------------- */

/* The conversions of nginx that the module uses: V s Z % and, with width, 0, u and *, d i z D L. */
static size_t format_into(char *to, size_t max, const char *format, va_list args)
{
    size_t len = 0;
    for (const char *f = format; *f && len + 1 < max; f++) {
        if (*f != '%') {
            to[len++] = *f;
            continue;
        }
        bool zero = f[1] == '0', is_unsigned = false;
        int width = 0;
        size_t text_len = SIZE_MAX;
        for (f++; *f >= '0' && *f <= '9'; f++)
            width = 10 * width + *f - '0';
        for (; *f == 'u' || *f == '*'; f++) {
            if (*f == '*')
                text_len = va_arg(args, size_t);
            else
                is_unsigned = true;
        }
        char number[32];
        const char *text = number;
        int64_t v = 0;
        switch (*f) {
        case 'V': {
            const ngx_str_t *s = va_arg(args, ngx_str_t *);
            text = (const char *)s->data;
            text_len = s->len;
            break;
        }
        case 's':
            text = va_arg(args, const char *);
            text_len = text_len == SIZE_MAX ? strlen(text) : text_len;
            break;
        case 'd':
        case 'D':
            v = va_arg(args, int);
            break;
        case 'i':
        case 'z':
        case 'L':
            v = va_arg(args, int64_t);
            break;
        case 'Z':
            to[len++] = '\0';
            continue;
        default:
            to[len++] = *f;
            continue;
        }
        if (text == number)
            text_len =
                (size_t)(is_unsigned ? snprintf(number, sizeof number, "%ju", (uintmax_t)v)
                         : zero      ? snprintf(number, sizeof number, "%0*jd", width, (intmax_t)v)
                                     : snprintf(number, sizeof number, "%jd", (intmax_t)v));
        text_len = text_len < max - 1 - len ? text_len : max - 1 - len;
        memcpy(to + len, text, text_len);
        len += text_len;
    }
    return len;
}

u_char *ngx_snprintf(u_char *to, size_t max, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t len = format_into((char *)to, max, format, args);
    va_end(args);
    return to + len;
}

ngx_int_t ngx_memn2cmp(const u_char *a, const u_char *b, size_t a_len, size_t b_len)
{
    int order = memcmp(a, b, ngx_min(a_len, b_len));
    return order != 0 ? order : (ngx_int_t)a_len - (ngx_int_t)b_len;
}

u_char *ngx_sprintf(u_char *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t len = format_into((char *)to, FAKE_TEXT_MAX, format, args);
    va_end(args);
    return to + len;
}

void fake_log(ngx_uint_t level, const char *format, ...)
{
    static const char *const levels[] = {
        [NGX_LOG_EMERG] = "emerg", [NGX_LOG_ALERT] = "alert",   [NGX_LOG_ERR] = "error",
        [NGX_LOG_WARN] = "warn",   [NGX_LOG_NOTICE] = "notice", [NGX_LOG_INFO] = "info"};
    va_list args;
    size_t left = sizeof fake.log - fake.log_len;
    fake.log_len += (size_t)snprintf(fake.log + fake.log_len, left, "%s ", levels[level]);
    va_start(args, format);
    fake.log_len +=
        format_into(fake.log + fake.log_len, sizeof fake.log - fake.log_len - 2, format, args);
    va_end(args);
    fake.log[fake.log_len++] = '\n';
    fake.log[fake.log_len] = '\0';
}

const char *fake_logged(void)
{
    static char text[FAKE_TEXT_MAX];
    memcpy(text, fake.log, fake.log_len + 1);
    fake.log[fake.log_len = 0] = '\0';
    return text;
}

ngx_int_t ngx_atoi(u_char *text, size_t len)
{
    ngx_int_t n = 0;
    if (len == 0)
        return NGX_ERROR;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || n > INT32_MAX)
            return NGX_ERROR;
        n = 10 * n + text[i] - '0';
    }
    return n;
}

static ngx_int_t with_unit(const ngx_str_t *text, const char *units, const int64_t *scales)
{
    size_t digits = 0;
    while (digits < text->len && text->data[digits] >= '0' && text->data[digits] <= '9')
        digits++;
    ngx_int_t n = ngx_atoi(text->data, digits);
    const char *unit = digits + 1 == text->len ? strchr(units, text->data[digits]) : NULL;
    if (n == NGX_ERROR || (digits < text->len && !unit))
        return NGX_ERROR;
    return unit ? n * scales[unit - units] : n;
}

ngx_int_t ngx_parse_time(ngx_str_t *text, ngx_uint_t is_sec)
{
    assert_int_equal(is_sec, 0);
    if (text->len > 2 && memcmp(text->data + text->len - 2, "ms", 2) == 0)
        return ngx_atoi(text->data, text->len - 2);
    ngx_int_t n = with_unit(text, "sm", (const int64_t[]){1000, 60000});
    return n != NGX_ERROR && text->data[text->len - 1] <= '9' ? n * 1000 : n;
}

off_t ngx_parse_offset(ngx_str_t *text)
{
    return with_unit(text, "kmg", (const int64_t[]){1 << 10, 1 << 20, 1 << 30});
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool has_memory(void)
{
    return fake.allocations < 0 || fake.allocations-- > 0;
}

void *ngx_pcalloc(ngx_pool_t *pool, size_t n)
{
    fake_block *b = has_memory() ? calloc(1, sizeof *b + n) : NULL;
    if (!b)
        return NULL;
    b->next = pool->blocks;
    pool->blocks = b;
    return b->bytes;
}

void *ngx_palloc(ngx_pool_t *pool, size_t n)
{
    void *at = ngx_pcalloc(pool, n);
    if (at)
        memset(at, 0xa5, n);
    return at;
}

ngx_pool_cleanup_t *ngx_pool_cleanup_add(ngx_pool_t *pool, size_t n)
{
    ngx_pool_cleanup_t *c = ngx_pcalloc(pool, sizeof *c + n);
    if (!c)
        return NULL;
    c->data = n > 0 ? c + 1 : NULL;
    c->next = pool->cleanup;
    pool->cleanup = c;
    return c;
}

static void run_cleanups(ngx_pool_t *pool)
{
    for (ngx_pool_cleanup_t *c = pool->cleanup; c; c = c->next) {
        if (c->handler)
            c->handler(c->data);
    }
    pool->cleanup = NULL;
}

static void free_pool(ngx_pool_t *pool)
{
    run_cleanups(pool);
    for (fake_block *b = pool->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    *pool = (ngx_pool_t){0};
}

void *ngx_alloc(size_t n, ngx_log_t *log)
{
    (void)log;
    return has_memory() ? malloc(n) : NULL;
}

void ngx_free(void *at)
{
    free(at);
}

ngx_int_t ngx_array_init(ngx_array_t *a, ngx_pool_t *pool, ngx_uint_t n, size_t size)
{
    *a = (ngx_array_t){ngx_pcalloc(pool, n * size), 0, size, n, pool};
    return a->elts ? NGX_OK : NGX_ERROR;
}

ngx_array_t *ngx_array_create(ngx_pool_t *pool, ngx_uint_t n, size_t size)
{
    ngx_array_t *a = ngx_pcalloc(pool, sizeof *a);
    return a && ngx_array_init(a, pool, n, size) == NGX_OK ? a : NULL;
}

void *ngx_array_push(ngx_array_t *a)
{
    if (a->nelts == a->nalloc) {
        void *more = ngx_pcalloc(a->pool, 2 * a->nalloc * a->size);
        if (!more)
            return NULL;
        memcpy(more, a->elts, a->nelts * a->size);
        a->elts = more;
        a->nalloc *= 2;
    }
    return (char *)a->elts + a->size * a->nelts++;
}

void *ngx_list_push(ngx_list_t *l)
{
    assert_true(l->part.nelts < FAKE_LIST_MAX);
    return has_memory() ? (char *)l->part.elts + l->size * l->part.nelts++ : NULL;
}

ssize_t ngx_read_file(ngx_file_t *file, u_char *to, size_t n, off_t from)
{
    return pread(file->fd, to, n, from);
}

void *ngx_slab_alloc(ngx_slab_pool_t *pool, size_t n)
{
    (void)pool;
    void *at = has_memory() ? aligned_alloc(4096, (n + 4095) / 4096 * 4096) : NULL;
    if (at)
        memset(at, 0, n);
    return at;
}

void *ngx_slab_calloc(ngx_slab_pool_t *pool, size_t n)
{
    return ngx_slab_alloc(pool, n);
}

/* ---- the configuration ----------------------------------------------------------------------- */

ngx_int_t ngx_conf_full_name(ngx_cycle_t *cycle, ngx_str_t *name, ngx_uint_t prefix)
{
    (void)cycle;
    (void)name;
    (void)prefix;
    return NGX_OK;
}

ngx_shm_zone_t *ngx_shared_memory_add(ngx_conf_t *cf, ngx_str_t *name, size_t size, void *tag)
{
    ngx_list_t *all = &cf->cycle->shared_memory;
    ngx_shm_zone_t *z = ngx_list_push(all);
    if (z)
        *z = (ngx_shm_zone_t){.tag = tag, .shm = {.size = size, .name = *name, .log = cf->log}};
    return z;
}

ngx_http_variable_t *ngx_http_add_variable(ngx_conf_t *cf, ngx_str_t *name, ngx_uint_t flags)
{
    (void)cf;
    (void)flags;
    assert_true(variables_len < VARIABLES_MAX);
    ngx_http_variable_t *v = &variables[variables_len];
    if (!has_memory())
        return NULL;
    variables_len++;
    *v = (ngx_http_variable_t){.name = *name};
    return v;
}

ngx_int_t ngx_http_compile_complex_value(ngx_http_compile_complex_value_t *compile)
{
    bool varies = memchr(compile->value->data, '$', compile->value->len);
    if (!has_memory())
        return NGX_ERROR;
    *compile->complex_value =
        (ngx_http_complex_value_t){*compile->value, varies ? (void *)compile->cf : NULL};
    return NGX_OK;
}

static const ngx_http_module_t *http_module(void)
{
    return ngx_http_weir_module.ctx;
}

void fake_next_location(void)
{
    fake.loc = http_module()->create_loc_conf(&fake.cf);
    assert_non_null(fake.loc);
    fake.core_loc = (ngx_http_core_loc_conf_t){.error_log = &log_all};
    loc_confs[0] = &fake.core_loc;
    loc_confs[1] = fake.loc;
}

static void begin_configuration(void)
{
    static ngx_conf_file_t file = {.file = {.name = ngx_string("nginx.conf")}, .line = 7};
    static ngx_shm_zone_t zones[2][ZONES_MAX];
    ngx_cycle_t *cycle = &cycles[current];
    *cycle = (ngx_cycle_t){
        .conf_ctx = &core_conf,
        .log = &log_all,
        .shared_memory = {.part = {.elts = zones[current]}, .size = sizeof zones[0][0]},
        .old_cycle = cycles[!current].log ? &cycles[!current] : NULL,
        .main_conf = main_confs};
    ngx_cycle = cycle;
    core_conf.user = geteuid();
    fake.cf = (ngx_conf_t){.cycle = cycle,
                           .pool = &pools[current],
                           .log = &log_all,
                           .conf_file = &file,
                           .main_conf = main_confs,
                           .loc_conf = loc_confs};
    variables_len = 0;
    ngx_array_init(&core_main.phases[0].handlers, fake.cf.pool, 4, sizeof(ngx_http_handler_pt));
    ngx_array_init(&known.keys, fake.cf.pool, 4, sizeof(ngx_hash_key_t));
    *(ngx_hash_key_t *)ngx_array_push(&known.keys) =
        (ngx_hash_key_t){ngx_string("binary_remote_addr")};
    core_main.variables_keys = &known;
    main_confs[0] = &core_main;
    fake.conf = main_confs[1] = http_module()->create_main_conf(&fake.cf);
    assert_non_null(fake.conf);
    assert_int_equal(http_module()->preconfiguration(&fake.cf), NGX_OK);
    fake_next_location();
}

int fake_open(void **unused)
{
    (void)unused;
    memset(&fake, 0, sizeof fake);
    memset(cycles, 0, sizeof cycles);
    fake.allocations = -1;
    fake.now_s = 1767225600;
    fake.finalized = NGX_AGAIN;
    fake.connect_rc = NGX_AGAIN;
    ngx_exiting = ngx_test_config = 0;
    ngx_process = NGX_PROCESS_WORKER;
    ngx_current_msec = 1000;
    current = 0;
    begin_configuration();
    return 0;
}

static void free_shared(ngx_cycle_t *cycle, const ngx_cycle_t *kept)
{
    ngx_shm_zone_t *zones = cycle->shared_memory.part.elts;
    for (ngx_uint_t i = 0; i < cycle->shared_memory.part.nelts; i++) {
        weir_ngx_zone *zone = zones[i].data;
        bool reused = false;
        const ngx_shm_zone_t *others = kept ? kept->shared_memory.part.elts : NULL;
        for (ngx_uint_t k = 0; kept && k < kept->shared_memory.part.nelts; k++)
            reused = reused || others[k].shm.addr == zones[i].shm.addr;
        if (reused || !zone || !zones[i].shm.addr)
            continue;
        if (zone->shared)
            free(zone->shared->memory);
        free(zone->shared);
        free(zones[i].shm.addr);
    }
}

/* Frees the configuration `which`, as nginx does once its last worker has ended. */
static void free_configuration(int which, const ngx_cycle_t *kept)
{
    ngx_cycle_t *cycle = &cycles[which];
    run_cleanups(&pools[which]);
    free_shared(cycle, kept);
    free_pool(&pools[which]);
    *cycle = (ngx_cycle_t){0};
}

void fake_reload(void)
{
    current = !current;
    if (cycles[current].log)
        free_configuration(current, &cycles[!current]);
    begin_configuration();
}

int fake_close(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        if (cycles[current].log)
            free_configuration(current, cycles[!current].log ? &cycles[!current] : NULL);
        current = !current;
    }
    free_pool(&fake.pool);
    fake_forget_events();
    return 0;
}

/* Splits a directive into words, in memory of the configuration. */
static ngx_array_t *words_of(const char *directive)
{
    ngx_array_t *words = ngx_array_create(fake.cf.pool, WORDS_MAX, sizeof(ngx_str_t));
    for (const char *at = directive; *at;) {
        char end = *at == '"' ? '"' : ' ';
        at += end == '"';
        size_t len = strcspn(at, (const char[]){end, '\0'});
        u_char *copy = ngx_pcalloc(fake.cf.pool, len + 1);
        memcpy(copy, at, len);
        *(ngx_str_t *)ngx_array_push(words) = (ngx_str_t){len, copy};
        at += len + (end == '"' && at[len] == '"');
        at += strspn(at, " ");
    }
    return words;
}

const char *fake_conf(const char *directive)
{
    long allocations = fake.allocations;
    fake.allocations = -1;
    fake.cf.args = words_of(directive);
    fake.allocations = allocations;
    const ngx_str_t *name = fake.cf.args->elts;
    for (ngx_command_t *cmd = ngx_http_weir_module.commands; cmd->set; cmd++) {
        if (cmd->name.len != name->len || memcmp(cmd->name.data, name->data, name->len) != 0)
            continue;
        const char *error = cmd->set(
            &fake.cf, cmd, cmd->conf == NGX_HTTP_LOC_CONF_OFFSET ? loc_confs[1] : main_confs[1]);
        return error == NGX_CONF_ERROR ? "" : error;
    }
    fail_msg("no directive: %s", directive);
    return NULL;
}

void fake_expect_conf(const char *directive, const char *error, const char *log)
{
    const char *found = fake_conf(directive), *logged = fake_logged();
    if ((found == NULL) != (error == NULL) || (error && strcmp(found, error) != 0) ||
        strcmp(logged, log ? log : "") != 0)
        fail_msg("%s\nexpected %s: %s\nfound %s: %s", directive, error ? error : "no error",
                 log ? log : "", found ? found : "no error", logged);
}

void fake_configure(const char *directives)
{
    char text[1024];
    assert_null(fake_conf("weir_zone z 1m"));
    snprintf(text, sizeof text, "%s", directives);
    for (char *at = strtok(text, ";"); at; at = strtok(NULL, ";"))
        assert_null(fake_conf(at));
}

/* The memory of a zone: that of the configuration before if it has the same name and size. */
static void *same_memory(const ngx_shm_zone_t *z)
{
    const ngx_cycle_t *old = cycles[current].old_cycle;
    const ngx_shm_zone_t *zones = old ? old->shared_memory.part.elts : NULL;
    for (ngx_uint_t i = 0; old && i < old->shared_memory.part.nelts; i++) {
        if (zones[i].shm.size == z->shm.size && zones[i].shm.name.len == z->shm.name.len &&
            memcmp(zones[i].shm.name.data, z->shm.name.data, z->shm.name.len) == 0)
            return (void *)(uintptr_t)&zones[i];
    }
    return NULL;
}

bool fake_start(void)
{
    const ngx_http_module_t *m = http_module();
    void *before = m->create_loc_conf(&fake.cf);
    if (m->merge_loc_conf(&fake.cf, before, fake.loc) != NGX_CONF_OK ||
        m->postconfiguration(&fake.cf) != NGX_OK)
        return false;
    ngx_shm_zone_t *zones = cycles[current].shared_memory.part.elts;
    for (ngx_uint_t i = 0; i < cycles[current].shared_memory.part.nelts; i++) {
        const ngx_shm_zone_t *old = same_memory(&zones[i]);
        zones[i].shm.addr = old ? old->shm.addr : calloc(1, sizeof(ngx_slab_pool_t));
        if (zones[i].init(&zones[i], old ? old->data : NULL) != NGX_OK)
            return false;
    }
    return ngx_http_weir_module.init_process(ngx_cycle) == NGX_OK;
}

/* ---- requests -------------------------------------------------------------------------------- */

ngx_http_request_t *fake_request(void)
{
    static ngx_table_elt_t headers[FAKE_LIST_MAX];
    static ngx_connection_t client;
    static ngx_event_t read;
    free_pool(&fake.pool);
    client = (ngx_connection_t){.read = &read, .log = &log_all, .fd = -1};
    request_ctx[1] = NULL;
    fake.r = (ngx_http_request_t){
        .ctx = request_ctx,
        .main_conf = main_confs,
        .loc_conf = loc_confs,
        .pool = &fake.pool,
        .connection = &client,
        .main = &fake.r,
        .method = NGX_HTTP_GET,
        .headers_out = {.headers = {.part = {.elts = headers}, .size = sizeof headers[0]}}};
    fake.finalized = NGX_AGAIN;
    fake.phases = 0;
    fake.body[0] = '\0';
    return &fake.r;
}

const char *fake_header(const char *name)
{
    static char text[256];
    const ngx_table_elt_t *h = fake.r.headers_out.headers.part.elts;
    for (ngx_uint_t i = 0; i < fake.r.headers_out.headers.part.nelts; i++) {
        if (h[i].key.len != strlen(name) || memcmp(h[i].key.data, name, h[i].key.len) != 0)
            continue;
        snprintf(text, sizeof text, "%.*s", (int)h[i].value.len, h[i].value.data);
        return text;
    }
    return NULL;
}

const char *fake_variable(const char *name)
{
    static char text[256];
    for (size_t i = 0; i < variables_len; i++) {
        ngx_http_variable_value_t v = {0};
        if (variables[i].name.len != strlen(name) ||
            memcmp(variables[i].name.data, name, variables[i].name.len) != 0)
            continue;
        assert_int_equal(variables[i].get_handler(&fake.r, &v, variables[i].data), NGX_OK);
        assert_true(v.valid != v.not_found);
        snprintf(text, sizeof text, "%.*s", (int)v.len, v.data);
        return v.valid ? text : NULL;
    }
    fail_msg("no variable: %s", name);
    return NULL;
}

ngx_int_t ngx_http_complex_value(ngx_http_request_t *r, ngx_http_complex_value_t *v, ngx_str_t *ret)
{
    (void)r;
    *ret = v->lengths ? fake.variable : v->value;
    return has_memory() ? NGX_OK : NGX_ERROR;
}

ngx_buf_t *ngx_create_temp_buf(ngx_pool_t *pool, size_t n)
{
    ngx_buf_t *b = ngx_pcalloc(pool, sizeof *b);
    u_char *at = b ? ngx_pcalloc(pool, n) : NULL;
    if (!at)
        return NULL;
    *b = (ngx_buf_t){.pos = at, .last = at};
    return b;
}

ngx_int_t ngx_http_send_header(ngx_http_request_t *r)
{
    (void)r;
    return NGX_OK;
}

ngx_int_t ngx_http_output_filter(ngx_http_request_t *r, ngx_chain_t *out)
{
    (void)r;
    snprintf(fake.body, sizeof fake.body, "%.*s", (int)(out->buf->last - out->buf->pos),
             out->buf->pos);
    return NGX_OK;
}

ngx_int_t ngx_http_send_response(ngx_http_request_t *r, ngx_uint_t status, ngx_str_t *type,
                                 ngx_http_complex_value_t *body)
{
    r->headers_out.status = status;
    r->headers_out.content_type = *type;
    snprintf(fake.body, sizeof fake.body, "%.*s", (int)body->value.len, body->value.data);
    return NGX_OK;
}

ngx_int_t ngx_http_discard_request_body(ngx_http_request_t *r)
{
    (void)r;
    return NGX_OK;
}

void ngx_http_finalize_request(ngx_http_request_t *r, ngx_int_t rc)
{
    assert_true(r == &fake.r && fake.finalized == NGX_AGAIN);
    fake.finalized = rc;
}

void ngx_http_core_run_phases(ngx_http_request_t *r)
{
    assert_true(r == &fake.r);
    fake.phases++;
}

void ngx_http_run_posted_requests(ngx_connection_t *c)
{
    (void)c;
}

void ngx_http_test_reading(ngx_http_request_t *r)
{
    (void)r;
}

void ngx_http_block_reading(ngx_http_request_t *r)
{
    (void)r;
}

void ngx_http_request_empty_handler(ngx_http_request_t *r)
{
    (void)r;
}
