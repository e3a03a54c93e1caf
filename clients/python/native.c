/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* weir._native: a store in a file and the policies that it decides, for weir._file; and header
 * fields and addresses for the middleware. It uses the limited API of Python 3.9. A method raises
 * Error(status, text), which weir._file turns into the exceptions of the package.
 *
 * A child of fork() must not use the store of its parent, so the first call in a child opens the
 * file again. The parent's store is never closed in the child. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include "weir.h"

#include <pthread.h>
#include <string.h>

enum { V6_BITS = 64 }; /* of an IPv6 address in a key, as the daemon's default */

static PyObject *error_type;
static PyTypeObject *store_type, *policy_type;
static unsigned forks; /* how many times fork() made this process, from the first process on */

static void count_fork(void)
{
    forks++;
}

/* Raises Error. A text that quotes a part of a policy may end within a character. */
static PyObject *fail(weir_status st, const char *text)
{
    PyObject *decoded = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    PyObject *args = decoded ? Py_BuildValue("(iN)", (int)st, decoded) : NULL;
    if (args)
        PyErr_SetObject(error_type, args);
    Py_XDECREF(args);
    return NULL;
}

/* A copy of a text with its zero byte; NULL with an exception set. */
static char *copy_of(const char *text, Py_ssize_t len)
{
    char *copy = PyMem_Malloc((size_t)len + 1);
    if (!copy)
        return (char *)PyErr_NoMemory();
    memcpy(copy, text, (size_t)len + 1);
    return copy;
}

/* ---- the store ------------------------------------------------------------------------------- */

typedef struct store_object {
    PyObject_HEAD weir_store *store;
    unsigned forks; /* when it was opened */
    char *path;
    size_t size; /* 0: that of the file, or the library's default */
    weir_sync sync;
    weir_when_full when_full;
} store_object;

/* Opens the file. Returns false with an exception set. */
static bool open_file(store_object *self)
{
    weir_store_error error = {""};
    weir_zones zones = weir_client_zones();
    const weir_store_options options = {.memory_bytes = self->size,
                                        .file = self->path,
                                        .sync = self->sync,
                                        .when_full = self->when_full,
                                        .shared = true,
                                        .keep_size = self->size == 0,
                                        .zones = &zones,
                                        .ret_error = &error};
    weir_store *store;
    weir_status st = weir_store_open(&store, &options);
    if (st != WEIR_OK) {
        fail(st, error.text[0] ? error.text : weir_status_str(st));
        return false;
    }
    self->store = store;
    self->forks = forks;
    return true;
}

/* The store of this process; NULL with an exception set. */
static weir_store *store_of(store_object *self)
{
    if (self->forks != forks && !open_file(self))
        return NULL;
    return self->store;
}

static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    const char *path;
    Py_ssize_t len, size;
    int sync, when_full;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "s#nii", &path, &len, &size, &sync, &when_full))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    store_object *self = (store_object *)alloc(type, 0);
    if (!self)
        return NULL;
    self->path = copy_of(path, len);
    if (!self->path) {
        Py_DECREF(self);
        return NULL;
    }
    self->size = (size_t)size;
    self->sync = (weir_sync)sync;
    self->when_full = (weir_when_full)when_full;
    if (!open_file(self)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void store_dealloc(store_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    if (self->store && self->forks == forks)
        weir_store_close(self->store);
    PyMem_Free(self->path);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *store_now(store_object *self, PyObject *unused)
{
    weir_store *s = store_of(self);
    (void)unused;
    return s ? PyLong_FromLongLong(weir_store_now(s)) : NULL;
}

static PyObject *store_stats(store_object *self, PyObject *unused)
{
    weir_store *s = store_of(self);
    (void)unused;
    if (!s)
        return NULL;
    weir_store_stats of = weir_store_stats_get(s);
    return Py_BuildValue("{sKsKsKsKsKsK}", "keys", of.keys, "memory_bytes", of.memory_bytes,
                         "memory_max", of.memory_max, "evicted", of.evicted, "refused", of.refused,
                         "reserved", of.reserved);
}

/* Whether the file is still at its path; 0 is WEIR_FILE_IN_PLACE. */
static PyObject *store_watch(store_object *self, PyObject *unused)
{
    weir_store *s = store_of(self);
    (void)unused;
    return s ? PyLong_FromLong((long)weir_store_watch(s)) : NULL;
}

/* ---- a policy in a store --------------------------------------------------------------------- */

typedef struct policy_object {
    PyObject_HEAD store_object *store;
    weir_policy policy;
    char *name; /* of the policy, or empty */
    size_t name_len;
    unsigned forks; /* when `ids` were found */
    weir_client_ids ids;
    uint64_t group; /* policies that are reset together have one number; 0: ids.group */
} policy_object;

static bool parse(weir_policy *ret, const char *text, Py_ssize_t len)
{
    weir_policy_error error = {0};
    char message[sizeof error.text + 32];
    weir_zones zones = weir_client_zones();
    weir_status st = weir_policy_parse(ret, text, (size_t)len, &zones, &error);
    if (st != WEIR_OK) {
        PyOS_snprintf(message, sizeof message, "column %u: %s", (unsigned)error.column, error.text);
        fail(st, message);
    }
    return st == WEIR_OK;
}

/* The store of this process, with the ids of the policy in it; NULL with an exception set. */
static weir_store *store_of_policy(policy_object *self)
{
    weir_store *s = store_of(self->store);
    if (!s || self->forks == forks)
        return s;
    weir_status st = weir_client_ids_of(s, &self->policy, self->name, self->name_len, &self->ids);
    if (st != WEIR_OK) {
        fail(st, st == WEIR_E_SYNTAX ? WEIR_CLIENT_NAME_EXPECTED : weir_status_str(st));
        return NULL;
    }
    if (self->group)
        self->ids.group = self->group;
    self->forks = forks;
    return s;
}

static PyObject *policy_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    store_object *store;
    const char *text, *name;
    Py_ssize_t len, name_len;
    unsigned long long group;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "O!s#s#K", store_type, &store, &text, &len, &name, &name_len,
                          &group))
        return NULL;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    policy_object *self = (policy_object *)alloc(type, 0);
    if (!self)
        return NULL;
    Py_INCREF(store);
    self->store = store;
    self->name = copy_of(name, name_len);
    self->name_len = (size_t)name_len;
    self->group = group;
    self->forks = ~forks;
    if (!self->name || !parse(&self->policy, text, len) || !store_of_policy(self)) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static void policy_dealloc(policy_object *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    Py_XDECREF((PyObject *)self->store);
    PyMem_Free(self->name);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* The arguments of a decision, and what it needs of the policy. */
typedef struct call {
    weir_store *s;
    const weir_policy *p;
    uint64_t id;
    const char *key; /* without one, key_len is 0 */
    Py_ssize_t key_len;
    long long cost, keep, now_ns, ttl_ns;
    char network[WEIR_CLIENT_KEY_MAX];
} call;

/* Counts an IPv6 address as its network, as the daemon does. */
static void read_address(call *c)
{
    size_t len = 0;
    if (c->key_len > 0 && memchr(c->key, ':', (size_t)c->key_len))
        len = weir_client_key(c->key, (size_t)c->key_len, V6_BITS, c->network);
    if (len == 0)
        return;
    c->key = c->network;
    c->key_len = (Py_ssize_t)len;
}

/* Completes a call after its arguments were read. A negative now_ns stands for the store's clock.
 * Returns false with an exception set. */
static bool begin(policy_object *self, call *c)
{
    c->s = store_of_policy(self);
    if (!c->s)
        return false;
    c->p = &self->policy;
    c->id = weir_store_current_id(c->s, self->ids.id, self->ids.group);
    if (c->now_ns < 0)
        c->now_ns = weir_store_now(c->s);
    read_address(c);
    return true;
}

/* Runs a call of the store. With sync: always, it may wait for the disk, so it gives up the GIL. */
#define RUN(self, st, expression)                                                                  \
    do {                                                                                           \
        if ((self)->store->sync == WEIR_SYNC_ALWAYS) {                                             \
            Py_BEGIN_ALLOW_THREADS st = (expression);                                              \
            Py_END_ALLOW_THREADS                                                                   \
        } else {                                                                                   \
            st = (expression);                                                                     \
        }                                                                                          \
    } while (0)

/* The fields of a Decision. A wait that never ends is None. */
static PyObject *decision(weir_status st, const weir_decision *d, long long over, PyObject *next)
{
    if (st != WEIR_OK)
        return fail(st, weir_status_str(st));
    PyObject *wait;
    if (d->retry_after_ns == INT64_MAX) {
        wait = Py_None;
        Py_INCREF(wait);
    } else {
        wait = PyLong_FromLongLong(d->retry_after_ns);
    }
    return Py_BuildValue("(OLLNLLIOL)", d->allowed ? Py_True : Py_False, (long long)d->limit,
                         (long long)d->remaining, wait, (long long)d->reset_after_ns,
                         (long long)d->delay_ns, (unsigned)d->layer, next, over);
}

/* As decision(), with the time until a cost of 1 is allowed: 0 if that is now. */
static PyObject *with_next(const call *c, weir_status st, const weir_decision *d)
{
    weir_decision one = *d;
    if (st != WEIR_OK)
        return fail(st, weir_status_str(st));
    if (d->remaining == 0 || (!d->allowed && c->p->layers > 1))
        st = weir_store_peek_keep(c->s, c->p, c->id, c->key, (size_t)c->key_len, c->now_ns, 1,
                                  c->keep, &one);
    else
        one.retry_after_ns = 0;
    PyObject *next = Py_None;
    if (st == WEIR_OK)
        next = PyLong_FromLongLong(one.retry_after_ns == INT64_MAX ? -1 : one.retry_after_ns);
    else
        Py_INCREF(next);
    PyObject *ret = decision(WEIR_OK, d, 0, next);
    Py_DECREF(next);
    return ret;
}

/* check(key, cost, keep, next, now_ns) */
static PyObject *policy_check(policy_object *self, PyObject *args)
{
    call c;
    int next;
    weir_decision d;
    weir_status st;
    if (!PyArg_ParseTuple(args, "s#LLpL", &c.key, &c.key_len, &c.cost, &c.keep, &next, &c.now_ns) ||
        !begin(self, &c))
        return NULL;
    RUN(self, st,
        weir_store_check_keep(c.s, c.p, c.id, c.key, (size_t)c.key_len, c.now_ns, c.cost, c.keep,
                              &d));
    return next ? with_next(&c, st, &d) : decision(st, &d, 0, Py_None);
}

/* peek(key, cost, keep, now_ns) */
static PyObject *policy_peek(policy_object *self, PyObject *args)
{
    call c;
    weir_decision d;
    if (!PyArg_ParseTuple(args, "s#LLL", &c.key, &c.key_len, &c.cost, &c.keep, &c.now_ns) ||
        !begin(self, &c))
        return NULL;
    return with_next(&c,
                     weir_store_peek_keep(c.s, c.p, c.id, c.key, (size_t)c.key_len, c.now_ns,
                                          c.cost, c.keep, &d),
                     &d);
}

/* refund(key, cost, now_ns) */
static PyObject *policy_refund(policy_object *self, PyObject *args)
{
    call c;
    weir_decision d;
    weir_status st;
    if (!PyArg_ParseTuple(args, "s#LL", &c.key, &c.key_len, &c.cost, &c.now_ns) || !begin(self, &c))
        return NULL;
    RUN(self, st,
        weir_store_refund(c.s, c.p, c.id, c.key, (size_t)c.key_len, c.now_ns, c.cost, &d));
    return decision(st, &d, 0, Py_None);
}

/* charge(key, cost, now_ns) */
static PyObject *policy_charge(policy_object *self, PyObject *args)
{
    call c;
    weir_decision d;
    weir_status st;
    int64_t over = 0;
    if (!PyArg_ParseTuple(args, "s#LL", &c.key, &c.key_len, &c.cost, &c.now_ns) || !begin(self, &c))
        return NULL;
    RUN(self, st,
        weir_store_charge(c.s, c.p, c.id, c.key, (size_t)c.key_len, c.now_ns, c.cost, &d, &over));
    return decision(st, &d, over, Py_None);
}

/* reserve(key, cost, ttl_ns, now_ns) -> (decision, id) */
static PyObject *policy_reserve(policy_object *self, PyObject *args)
{
    call c;
    weir_decision d;
    weir_status st;
    uint64_t id = 0;
    if (!PyArg_ParseTuple(args, "s#LLL", &c.key, &c.key_len, &c.cost, &c.ttl_ns, &c.now_ns) ||
        !begin(self, &c))
        return NULL;
    RUN(self, st,
        weir_store_reserve(c.s, c.p, c.id, c.key, (size_t)c.key_len, c.now_ns, c.cost, c.ttl_ns, &d,
                           &id));
    PyObject *of = decision(st, &d, 0, Py_None);
    return of ? Py_BuildValue("(NK)", of, (unsigned long long)id) : NULL;
}

/* commit(id, actual, now_ns) */
static PyObject *policy_commit(policy_object *self, PyObject *args)
{
    call c = {.key_len = 0};
    weir_decision d;
    weir_status st;
    unsigned long long id;
    int64_t over = 0;
    if (!PyArg_ParseTuple(args, "KLL", &id, &c.cost, &c.now_ns) || !begin(self, &c))
        return NULL;
    RUN(self, st, weir_store_commit(c.s, id, c.now_ns, c.cost, &d, &over));
    return decision(st, &d, over, Py_None);
}

/* renew(id, ttl_ns, now_ns) */
static PyObject *policy_renew(policy_object *self, PyObject *args)
{
    call c = {.key_len = 0};
    weir_decision d;
    weir_status st;
    unsigned long long id;
    if (!PyArg_ParseTuple(args, "KLL", &id, &c.ttl_ns, &c.now_ns) || !begin(self, &c))
        return NULL;
    RUN(self, st, weir_store_renew(c.s, id, c.now_ns, c.ttl_ns, &d));
    return decision(st, &d, 0, Py_None);
}

/* reset(key) */
static PyObject *policy_reset(policy_object *self, PyObject *args)
{
    call c = {.now_ns = 0};
    weir_status st;
    if (!PyArg_ParseTuple(args, "s#", &c.key, &c.key_len) || !begin(self, &c))
        return NULL;
    RUN(self, st, weir_store_reset(c.s, c.id, c.key, (size_t)c.key_len));
    if (st != WEIR_OK)
        return fail(st, weir_status_str(st));
    Py_RETURN_NONE;
}

static PyObject *policy_reset_all(policy_object *self, PyObject *unused)
{
    weir_store *s = store_of_policy(self);
    weir_status st;
    (void)unused;
    if (!s)
        return NULL;
    RUN(self, st, weir_store_reset_policy(s, self->ids.group));
    if (st != WEIR_OK)
        return fail(st, weir_status_str(st));
    Py_RETURN_NONE;
}

/* figures(key, now_ns) -> (count, previous, window_start_ns) of the first layer; -1: none */
static PyObject *policy_figures(policy_object *self, PyObject *args)
{
    call c;
    int64_t figures[3];
    if (!PyArg_ParseTuple(args, "s#L", &c.key, &c.key_len, &c.now_ns) || !begin(self, &c))
        return NULL;
    weir_status st =
        weir_client_figures(c.s, c.p, c.id, c.key, (size_t)c.key_len, c.now_ns, 0, figures);
    if (st != WEIR_OK)
        return fail(st, weir_status_str(st));
    return Py_BuildValue("(LLL)", (long long)figures[0], (long long)figures[1],
                         (long long)figures[2]);
}

/* ---- functions ------------------------------------------------------------------------------- */

/* canonical(text): the canonical text of a policy */
static PyObject *canonical(PyObject *module, PyObject *args)
{
    const char *text;
    Py_ssize_t len;
    weir_policy p;
    char buf[WEIR_POLICY_TEXT_MAX];
    (void)module;
    if (!PyArg_ParseTuple(args, "s#", &text, &len) || !parse(&p, text, len))
        return NULL;
    return PyUnicode_FromStringAndSize(buf, (Py_ssize_t)weir_policy_print(&p, buf, sizeof buf));
}

/* flavours(names): the set of header flavours */
static PyObject *flavours(PyObject *module, PyObject *args)
{
    const char *names, *error;
    Py_ssize_t len;
    (void)module;
    if (!PyArg_ParseTuple(args, "s#", &names, &len))
        return NULL;
    unsigned set = weir_client_headers(names, (size_t)len, &error);
    return set ? PyLong_FromUnsignedLong(set) : fail(WEIR_E_SYNTAX, error);
}

/* lines(flavours, name, policy text or None, allowed, limit, remaining, retry_after_ns,
 * reset_after_ns, layer, next_ns, now_ns): the header fields, as lines. A negative retry_after_ns
 * stands for never, and a negative layer for one that is not known. */
static PyObject *lines(PyObject *module, PyObject *args)
{
    unsigned set;
    const char *name, *text;
    Py_ssize_t name_len, text_len;
    int allowed, layer;
    long long limit, remaining, retry_ns, reset_ns, next_ns, now_ns;
    weir_policy p;
    char buf[WEIR_CLIENT_LINES_MAX];
    (void)module;
    if (!PyArg_ParseTuple(args, "Is#z#pLLLLiLL", &set, &name, &name_len, &text, &text_len, &allowed,
                          &limit, &remaining, &retry_ns, &reset_ns, &layer, &next_ns, &now_ns) ||
        (text && !parse(&p, text, text_len)))
        return NULL;
    const weir_decision d = {.limit = limit,
                             .remaining = remaining,
                             .retry_after_ns = retry_ns < 0 ? INT64_MAX : retry_ns,
                             .reset_after_ns = reset_ns,
                             .layer = layer >= 0 ? (uint32_t)layer
                                      : text     ? p.layers - 1 + (p.layers > 1)
                                                 : 0,
                             .allowed = allowed,
                             .never = retry_ns < 0};
    size_t len =
        weir_client_lines(set, name, (size_t)name_len, text ? &p : NULL, &d, next_ns, now_ns, buf);
    return PyUnicode_FromStringAndSize(buf, (Py_ssize_t)len);
}

/* address_key(text, bits): the network of an IP address, in a form that read_address() does not
 * take for an address; or the text itself */
static PyObject *address_key(PyObject *module, PyObject *args)
{
    const char *text;
    Py_ssize_t len;
    unsigned bits;
    char buf[WEIR_CLIENT_KEY_MAX + sizeof "/128"];
    (void)module;
    if (!PyArg_ParseTuple(args, "s#I", &text, &len, &bits))
        return NULL;
    if (bits < 1 || bits > 128)
        return fail(WEIR_E_RANGE, "expected 1 to 128 bits of an IPv6 address");
    size_t n = weir_client_key(text, (size_t)len, bits, buf);
    if (bits == 128 && memchr(buf, ':', n))
        n += (size_t)PyOS_snprintf(buf + n, sizeof buf - n, "/128");
    return n ? PyUnicode_FromStringAndSize(buf, (Py_ssize_t)n)
             : PyUnicode_FromStringAndSize(text, len);
}

/* ---- the module ------------------------------------------------------------------------------ */

#define METHOD(name, function, flags)                                                              \
    {                                                                                              \
        name, (PyCFunction)(void (*)(void))(function), flags, NULL                                 \
    }

static PyMethodDef store_methods[] = {
    METHOD("now", store_now, METH_NOARGS),
    METHOD("stats", store_stats, METH_NOARGS),
    METHOD("watch", store_watch, METH_NOARGS),
    {NULL, NULL, 0, NULL},
};

static PyMethodDef policy_methods[] = {
    METHOD("check", policy_check, METH_VARARGS),
    METHOD("peek", policy_peek, METH_VARARGS),
    METHOD("refund", policy_refund, METH_VARARGS),
    METHOD("charge", policy_charge, METH_VARARGS),
    METHOD("reserve", policy_reserve, METH_VARARGS),
    METHOD("commit", policy_commit, METH_VARARGS),
    METHOD("renew", policy_renew, METH_VARARGS),
    METHOD("reset", policy_reset, METH_VARARGS),
    METHOD("reset_all", policy_reset_all, METH_NOARGS),
    METHOD("figures", policy_figures, METH_VARARGS),
    {NULL, NULL, 0, NULL},
};

static PyMethodDef functions[] = {
    METHOD("canonical", canonical, METH_VARARGS),
    METHOD("flavours", flavours, METH_VARARGS),
    METHOD("lines", lines, METH_VARARGS),
    METHOD("address_key", address_key, METH_VARARGS),
    {NULL, NULL, 0, NULL},
};

static PyType_Slot store_slots[] = {
    {Py_tp_new, (void *)store_new},
    {Py_tp_dealloc, (void *)store_dealloc},
    {Py_tp_methods, store_methods},
    {0, NULL},
};
static PyType_Spec store_spec = {"weir._native.Store", sizeof(store_object), 0, Py_TPFLAGS_DEFAULT,
                                 store_slots};

static PyType_Slot policy_slots[] = {
    {Py_tp_new, (void *)policy_new},
    {Py_tp_dealloc, (void *)policy_dealloc},
    {Py_tp_methods, policy_methods},
    {0, NULL},
};
static PyType_Spec policy_spec = {"weir._native.Policy", sizeof(policy_object), 0,
                                  Py_TPFLAGS_DEFAULT, policy_slots};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "weir._native", NULL, -1, functions, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (!module)
        return NULL;
    error_type = PyErr_NewException("weir._native.Error", NULL, NULL);
    store_type = (PyTypeObject *)PyType_FromSpec(&store_spec);
    policy_type = (PyTypeObject *)PyType_FromSpec(&policy_spec);
    if (!error_type || !store_type || !policy_type ||
        PyModule_AddObject(module, "Error", error_type) < 0 ||
        PyModule_AddObject(module, "Store", (PyObject *)store_type) < 0 ||
        PyModule_AddObject(module, "Policy", (PyObject *)policy_type) < 0 ||
        PyModule_AddStringConstant(module, "VERSION", WEIR_VERSION) < 0 ||
        pthread_atfork(NULL, NULL, count_fork) != 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
