/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The dynamic metadata of responses, as text. */

#include "kit_test.h"

#define PER_DAY(n) .has_limit = true, .requests_per_unit = (n), .unit = WEIR_RLS_DAY
#define TEXT(n, t)                                                                                 \
    {                                                                                              \
        .kind = WEIR_RLS_TEXT, .name = {n, sizeof(n) - 1}, .text = { t, sizeof(t) - 1 }            \
    }
#define MAP(n, f)                                                                                  \
    {                                                                                              \
        .kind = WEIR_RLS_MAP, .name = {n, sizeof(n) - 1}, .first = (f)                             \
    }

static void put(weir_buffer *out, const weir_rls_value *v)
{
    bool map = v->kind == WEIR_RLS_MAP;
    if (v->kind == WEIR_RLS_TEXT)
        weir_buffer_printf(out, "'%.*s'", (int)v->text.len, v->text.at);
    else if (v->kind == WEIR_RLS_NUMBER)
        weir_buffer_printf(out, "%g", v->number);
    else
        weir_buffer_printf(out, map ? "{" : "[");
    for (const weir_rls_value *m = v->first; m; m = m->next) {
        weir_buffer_append(out, " ", m != v->first);
        if (map)
            weir_buffer_printf(out, "%.*s=", (int)m->name.len, m->name.at);
        put(out, m);
    }
    if (map || v->kind == WEIR_RLS_LIST)
        weir_buffer_printf(out, map ? "}" : "]");
}

static void expect(const kit_request *r, const char *expected)
{
    weir_rls_response response = decide(r, now_ns);
    weir_buffer out;
    weir_buffer_init(&out, 1 << 16);
    assert_non_null(response.metadata);
    put(&out, response.metadata);
    weir_buffer_append(&out, "", 1);
    assert_string_equal((const char *)weir_buffer_data(&out), expected);
    weir_buffer_free(&out);
}

static const weir_rls_options options = {.metadata = true};

static void what_was_requested(void **unused)
{
    (void)unused;
    const weir_rls_spec spec = {.key = "k", PER_DAY(9)};
    activate_one(&options, &spec, 1);
    kit_request r;
    add(begin(&r, "d", 0), "k=v|l=");
    expect(&r, "{domain='d' descriptors=[{entries=['k=v' 'l=']}]}");
    begin(&r, "none", 3);
    weir_rls_descriptor *d = add(&r, "k=v");
    d->has_hits = d->has_override = true;
    d->override = (weir_rls_override){5, WEIR_RLS_MINUTE};
    add(&r, "k=w")->has_override = true;
    r.descriptor[1].override.unit = WEIR_RLS_DAY;
    expect(&r, "{domain='none' descriptors=[{entries=['k=v'] limit='requests_per_unit:5 "
               "unit:MINUTE' hitsAddend=0} {entries=['k=w'] limit='unit:DAY'}] hitsAddend=3}");
    activate_one(&(weir_rls_options){.metadata = false}, &spec, 1);
    add(begin(&r, "d", 0), "k=v");
    assert_null(decide(&r, now_ns).metadata);
}

/* Of limits that are not exceeded. Maps are merged; else the first descriptor's value stays. */
static void of_the_limits_that_pass(void **unused)
{
    (void)unused;
    static weir_rls_value inner[] = {TEXT("name", "one"), TEXT("name", "two"), TEXT("zone", "eu")};
    static weir_rls_value two[] = {TEXT("name", "two"), TEXT("zone", "eu")};
    two[0].next = &two[1];
    static weir_rls_value one_service = MAP("service", &inner[0]), text = TEXT("text", "a"),
                          two_service = MAP("service", two), other = MAP("text", &inner[2]);
    one_service.next = &text;
    two_service.next = &other;
    const weir_rls_value one = MAP("", &one_service), all = MAP("", &two_service);
    const weir_rls_spec specs[] = {
        {.key = "a", .metadata = &one, PER_DAY(1)},
        {.key = "b", .metadata = &all, PER_DAY(2)},
        {.key = "shadow", .shadow_mode = true, .metadata = &one, PER_DAY(0)},
        {.key = "free", .has_limit = true, .unlimited = true, .metadata = &one}};
    activate_one(&options, specs, 4);
    kit_request r;
    begin(&r, "d", 0);
    add(&r, "a=");
    add(&r, "b=");
#define REQUESTED "{domain='d' descriptors=[{entries=['a=']} {entries=['b=']}]"
    expect(&r, REQUESTED " metadata={service={name='one' zone='eu'} text='a'}}");
    expect(&r, REQUESTED " metadata={service={name='two' zone='eu'} text={zone='eu'}}}");
    expect(&r, REQUESTED "}");
    add(begin(&r, "d", 0), "shadow=");
    expect(&r, "{domain='d' descriptors=[{entries=['shadow=']}] "
               "metadata={service={name='one'} text='a'}}");
    add(begin(&r, "d", 0), "free=");
    expect(&r, "{domain='d' descriptors=[{entries=['free=']}]}");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, rls_setup, rls_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_requested),
        TEST(of_the_limits_that_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
