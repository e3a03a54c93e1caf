/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a valid section `limitador` stores, and how many limits there may be. */

#include "cmd/config/kit_test.h"
#include "cmd/kit/commands.h"
#include "limitador/daemon/guest.h"
#include "rls/daemon/guest.h"

#include <sys/stat.h>
#include <unistd.h>

/* Limits have the default engine, unless their section has another. */
static void check_engines(void **unused)
{
    (void)unused;
    static const struct {
        const char *rest;
        weir_engine_kind envoy, limitador;
    } rows[] = {
        {"", WEIR_ENGINE_LOCAL, WEIR_ENGINE_LOCAL},
        {"engine: redis\n", WEIR_ENGINE_REDIS, WEIR_ENGINE_LOCAL},
        {"engine: redis\nenvoy: {shadow_mode: true}\nlimitador: {limits: x}\n", WEIR_ENGINE_REDIS,
         WEIR_ENGINE_REDIS},
        {"engine: redis\nenvoy: {engine: local}\nlimitador: {limits: x, engine: hybrid}\n",
         WEIR_ENGINE_LOCAL, WEIR_ENGINE_HYBRID},
        {"envoy: {engine: hybrid, on_error: closed}\n"
         "limitador: {limits: x, engine: redis, on_error: open}\n",
         WEIR_ENGINE_HYBRID, WEIR_ENGINE_REDIS},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        char yaml[300];
        snprintf(yaml, sizeof yaml, "redis: {url: redis://h}\n" API "%s", rows[i].rest);
        weir_config *c = valid(yaml);
        assert_int_equal(envoy_settings_of(c)->options.engine, rows[i].envoy);
        assert_int_equal(limitador_settings_of(c)->options.engine, rows[i].limitador);
        config_free(c);
    }
}

/* weir serve --redis replaces the engine local, and no other. */
static void check_command_line(void **unused)
{
    (void)unused;
    static const struct {
        weir_engine_kind before, after;
    } rows[] = {{WEIR_ENGINE_LOCAL, WEIR_ENGINE_REDIS},
                {WEIR_ENGINE_REDIS, WEIR_ENGINE_REDIS},
                {WEIR_ENGINE_HYBRID, WEIR_ENGINE_HYBRID}};
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        weir_redis_error error;
        weir_config *c = valid("redis: {url: redis://h}\n");
        assert_null(limitador_settings_of(c)->limits);
        limitador_settings_of(c)->options.engine = rows[i].before;
        assert_true(config_use_redis(c, "redis://h:1", &error));
        assert_int_equal(limitador_settings_of(c)->options.engine, rows[i].after);
        config_free(c);
    }
}

/* Policies, limits of envoy.config and limits of limitador are at most WEIR_RULES_MAX rules. */
static void check_rules_max(void **unused)
{
    (void)unused;
    static const char limit[] = "- {namespace: n, max_value: 1, seconds: %zu1, conditions: [], "
                                "variables: []}\n";
    static const struct {
        size_t policies, descriptors, limits;
        const char *error;
    } rows[] = {
        {WEIR_RULES_MAX - 3, 2, 1, NULL},
        {WEIR_RULES_MAX - 2, 2, 1,
         "limitador.limits: 8190 policies, 2 limits of envoy.config and 1 limits here, expected at "
         "most 8192 of all"},
    };
    assert_int_equal(mkdir("limits", 0700), 0);
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        weir_config *c = NULL;
        write_many("limits/a.yaml", "domain: d\ndescriptors:\n",
                   "  - {key: k%zu, rate_limit: {unit: day, requests_per_unit: 5}}\n",
                   rows[i].descriptors);
        write_many("limits.yaml", "", limit, rows[i].limits);
        char *yaml = repeated("envoy: {config: limits}\nlimitador: {limits: limits.yaml}\n"
                              "policies:\n",
                              "  p%zu: gcra 1/s\n", rows[i].policies, "");
        weir_status st = parse(yaml, "t.yaml", true, &c);
        free(yaml);
        assert_int_equal(st, rows[i].error ? WEIR_E_SYNTAX : WEIR_OK);
        if (rows[i].error ? !strstr(errors, rows[i].error) : errors[0] != '\0')
            fail_msg("row %zu: %s", i, errors);
        config_free(c);
    }
    (void)unlink("limits/a.yaml");
    (void)unlink("limits.yaml");
    (void)rmdir("limits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_engines),
        cmocka_unit_test(check_command_line),
        cmocka_unit_test(check_rules_max),
    };
    weir_use_guests();
    int failed = cmocka_run_group_tests_name("limitador-section", tests, make_dir, remove_dir);
    free(errors);
    return failed;
}
