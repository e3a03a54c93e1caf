/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the responses of limited requests carry: the directives `weir_headers`, `weir_retry_spread`
 * and `weir_denied_body`, the header filter, and the body of a denial. */

#include "context.h"

#include "codec/answer/fields.h"
#include "port/assert.h"
#include "port/buffer.h"
#include "port/port.h"
#include "service/rules/spread.h"

#include <string.h>

enum { RETRY_AFTER_ERROR_S = 1 }; /* of a denial because of an error */

static const int64_t second_ns = 1000000000;

/* ---- header fields --------------------------------------------------------------------------- */

static ngx_http_output_header_filter_pt next_filter;

/* Adds a header. The name is static; the value is copied. */
static bool add_header(ngx_http_request_t *r, const char *name, weir_slice value)
{
    u_char *at = ngx_pnalloc(r->pool, value.len);
    ngx_table_elt_t *h = at ? ngx_list_push(&r->headers_out.headers) : NULL;
    if (!h)
        return false;
    ngx_memcpy(at, value.at, value.len);
    ngx_memzero(h, sizeof *h);
    h->hash = 1;
    h->key = (ngx_str_t){strlen(name), (u_char *)name};
    h->value = (ngx_str_t){value.len, at};
    return true;
}

static weir_answered answered(const weir_ngx_ctx *ctx, const weir_ngx_outcome *o)
{
    return (weir_answered){.name = {(const char *)o->limit->name.data, o->limit->name.len},
                           .policy = &o->limit->policy,
                           .decision = &o->decision,
                           .unit = o->limit->unit,
                           .resets = !o->decision.never,
                           .next_ns = o->next_ns,
                           .key = o->key,
                           .spread = o->key.at ? ctx->retry_spread : 0};
}

int64_t weir_ngx_retry_after_s(const weir_ngx_ctx *ctx)
{
    const weir_answered a = answered(ctx, &ctx->shown);
    return weir_answer_wait_s(&a, a.decision->retry_after_ns);
}

static bool add_fields(ngx_http_request_t *r, const weir_ngx_ctx *ctx)
{
    weir_answered all[WEIR_TAKE_MANY_MAX];
    weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
    char values[WEIR_ANSWER_ROOM];
    WEIR_ASSERT(ctx->enforced_shown < ctx->enforced_len && ctx->enforced_len <= WEIR_TAKE_MANY_MAX);
    for (size_t i = 0; i < ctx->enforced_len; i++)
        all[i] = answered(ctx, &ctx->enforced[i]);
    size_t n = weir_answer_fields((unsigned)ctx->headers, all, ctx->enforced_len,
                                  ctx->enforced_shown, ctx->now_ns, fields, values);
    for (size_t i = 0; i < n; i++) {
        if (!add_header(r, fields[i].name, fields[i].value))
            return false;
    }
    return true;
}

static bool add_retry_after_error(ngx_http_request_t *r)
{
    char value[WEIR_I64_MAX_LEN];
    return add_header(r, "Retry-After",
                      (weir_slice){value, weir_i64_print(value, RETRY_AFTER_ERROR_S)});
}

static ngx_int_t filter(ngx_http_request_t *r)
{
    const weir_ngx_ctx *ctx = r == r->main ? weir_ngx_ctx_of(r) : NULL;
    bool good = true;
    if (ctx && ctx->by_error && ctx->status == WEIR_NGX_REJECTED)
        good = add_retry_after_error(r);
    else if (ctx && ctx->enforced_len > 0)
        good = add_fields(r, ctx);
    return good ? next_filter(r) : NGX_ERROR;
}

void weir_ngx_add_header_filter(void)
{
    next_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = filter;
}

char *weir_ngx_headers_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    static const struct {
        const char *name;
        unsigned headers;
    } sets[] = {{"off", WEIR_HEADERS_NONE},
                {"on", WEIR_HEADERS_DEFAULT},
                {"both", WEIR_HEADERS_DEFAULT},
                {"legacy", WEIR_HEADERS_X_RATELIMIT}};
    weir_ngx_loc_conf *loc = conf;
    ngx_str_t *args = cf->args->elts;
    unsigned all = 0;
    (void)cmd;
    if (loc->headers != NGX_CONF_UNSET_UINT)
        return "is duplicate";
    for (ngx_uint_t i = 1; i < cf->args->nelts; i++) {
        unsigned one = weir_answer_flavour((const char *)args[i].data, args[i].len);
        for (size_t s = 0; s < sizeof sets / sizeof sets[0] && !one; s++) {
            if (weir_ngx_is(&args[i], sets[s].name))
                one = sets[s].headers;
        }
        if (!one)
            return weir_ngx_refuse(cf,
                                   "bad value \"%V\", expected off, on, legacy, both, none, ietf, "
                                   "ietf-07, ietf-03, x-ratelimit, github or openai",
                                   &args[i]);
        all |= one;
    }
    const char *why = weir_answer_check(all);
    if (why)
        return weir_ngx_refuse(cf, "%s", why);
    loc->headers = all;
    return weir_ngx_note_setting(cf, loc, WEIR_NGX_SETTING_HEADERS, all == WEIR_HEADERS_NONE)
               ? NGX_CONF_OK
               : NGX_CONF_ERROR;
}

char *weir_ngx_retry_spread_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    weir_ngx_loc_conf *loc = conf;
    const ngx_str_t *text = (ngx_str_t *)cf->args->elts + 1;
    int percent = 0;
    (void)cmd;
    if (loc->retry_spread != NGX_CONF_UNSET_UINT)
        return "is duplicate";
    if (!weir_ngx_is_off(cf) &&
        !weir_spread_read((weir_slice){(const char *)text->data, text->len}, &percent))
        return weir_ngx_refuse(cf, "bad value \"%V\", expected off or %s", text,
                               WEIR_SPREAD_EXPECTED);
    loc->retry_spread = (ngx_uint_t)percent;
    return weir_ngx_note_setting(cf, loc, WEIR_NGX_SETTING_SPREAD, percent == 0) ? NGX_CONF_OK
                                                                                 : NGX_CONF_ERROR;
}

/* ---- the body of a denial -------------------------------------------------------------------- */

struct weir_ngx_denied_body {
    ngx_str_t type;
    const char *text; /* a template */
};

/* Replaces the placeholders. A denial because of an error reports an empty quota. */
static bool write_body(const weir_ngx_ctx *ctx, weir_buffer *out)
{
    weir_ngx_outcome by_error = {.limit = ctx->shown.limit, .cost = 1};
    const weir_ngx_outcome *o = &by_error;
    if (ctx->enforced_len > 0)
        o = &ctx->enforced[ctx->enforced_shown];
    by_error.decision.limit = o->limit->policy.layer[0].limit;
    by_error.decision.retry_after_ns = RETRY_AFTER_ERROR_S * second_ns;
    by_error.decision.reset_after_ns = RETRY_AFTER_ERROR_S * second_ns;
    const weir_answered a = answered(ctx, o);
    weir_denial_body_put(out, ctx->denied_body->text, &a, o->cost, ctx->now_ns);
    return !out->failed;
}

static ngx_int_t send_body(ngx_http_request_t *r, const weir_ngx_ctx *ctx, ngx_int_t status,
                           const weir_buffer *body)
{
    ngx_str_t type = ctx->denied_body->type;
    ngx_http_complex_value_t text = {.value = {weir_buffer_len(body), NULL}};
    text.value.data = ngx_pnalloc(r->pool, text.value.len + 1);
    if (!text.value.data)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ngx_memcpy(text.value.data, weir_buffer_data(body), text.value.len);
    return ngx_http_send_response(r, (ngx_uint_t)status, &type, &text);
}

ngx_int_t weir_ngx_deny(ngx_http_request_t *r, const weir_ngx_ctx *ctx, ngx_int_t status)
{
    if (!ctx->denied_body || status == NGX_HTTP_CLOSE || status == NGX_HTTP_CLIENT_CLOSED_REQUEST)
        return status;
    weir_buffer body;
    weir_buffer_init(&body, WEIR_DENIAL_BODY_ROOM);
    ngx_int_t rc = write_body(ctx, &body) ? send_body(r, ctx, status, &body) : status;
    weir_buffer_free(&body);
    return rc;
}

/* ---- the directive weir_denied_body ---------------------------------------------------------- */

/* Reads a file whose path is relative to the directory of the configuration. */
static bool read_file(ngx_conf_t *cf, ngx_str_t *path, ngx_str_t *ret)
{
    ngx_file_t file = {.log = cf->log};
    ngx_file_info_t info;
    if (ngx_conf_full_name(cf->cycle, path, 1) != NGX_OK)
        return false;
    file.name = *path;
    file.fd = ngx_open_file(path->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (file.fd == NGX_INVALID_FILE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, ngx_errno, "cannot open \"%V\"", path);
        return false;
    }
    bool good = ngx_fd_info(file.fd, &info) != NGX_FILE_ERROR && ngx_is_file(&info);
    if (!good || ngx_file_size(&info) > WEIR_DENIAL_BODY_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "\"%V\" is no file of at most %d bytes", path,
                           WEIR_DENIAL_BODY_MAX);
        good = false;
    } else {
        *ret = (ngx_str_t){(size_t)ngx_file_size(&info), NULL};
        ret->data = ngx_pnalloc(cf->pool, ret->len + 1);
        good = ret->data && ngx_read_file(&file, ret->data, ret->len, 0) == (ssize_t)ret->len;
    }
    ngx_close_file(file.fd);
    return good;
}

/* Whether a text can be the value of Content-Type. */
static bool is_type(const ngx_str_t *text)
{
    bool slash = false;
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] < 0x20 || text->data[i] > 0x7e)
            return false;
        slash = slash || (text->data[i] == '/' && i > 0);
    }
    return slash;
}

/* Checks a template, and ends it with a NUL. */
static bool read_template(ngx_conf_t *cf, const ngx_str_t *text, const char **ret)
{
    size_t at = 0;
    const char *why = weir_denial_body_check((const char *)text->data, text->len, &at);
    u_char *copy = ngx_pnalloc(cf->pool, text->len + 1);
    if (!copy)
        return false;
    if (why) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, "byte %uz of the body: %s", at + 1, why);
        return false;
    }
    *ngx_cpymem(copy, text->data, text->len) = '\0';
    *ret = (const char *)copy;
    return true;
}

static bool read_denied_body(ngx_conf_t *cf, struct weir_ngx_denied_body *ret)
{
    ngx_str_t *args = cf->args->elts, text = args[1], path, type;
    ret->type = (ngx_str_t)ngx_string("text/plain; charset=utf-8");
    if (cf->args->nelts == 3) {
        if (!weir_ngx_is_parameter(&args[2], "type=", &type) || !is_type(&type)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "bad parameter \"%V\", expected type= such as type=text/html",
                               &args[2]);
            return false;
        }
        ret->type = type;
    }
    if (weir_ngx_is_parameter(&text, "file=", &path) && !read_file(cf, &path, &text))
        return false;
    return read_template(cf, &text, &ret->text);
}

char *weir_ngx_denied_body_conf(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    weir_ngx_loc_conf *loc = conf;
    ngx_str_t *args = cf->args->elts;
    (void)cmd;
    if (loc->denied_body != NGX_CONF_UNSET_PTR)
        return "is duplicate";
    bool off = weir_ngx_is(&args[1], "off");
    if (off && cf->args->nelts > 2)
        return "has no type= with off";
    if (!weir_ngx_note_setting(cf, loc, WEIR_NGX_SETTING_BODY, off))
        return NGX_CONF_ERROR;
    loc->denied_body = off ? NULL : ngx_pcalloc(cf->pool, sizeof *loc->denied_body);
    if (!off && (!loc->denied_body || !read_denied_body(cf, loc->denied_body)))
        return NGX_CONF_ERROR;
    return NGX_CONF_OK;
}
