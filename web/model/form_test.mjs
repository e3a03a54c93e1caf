// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Tests form.mjs: a policy survives its form, and every form makes a valid text.
//
//     node web/model/form_test.mjs WASM

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { ALGORITHMS, fieldsOf, formOf, textOf, usualForm, withAlgorithm, withUnit } from "./form.mjs";
import { checkPolicy } from "./lane.mjs";
import { POLICIES, runTests, zones } from "./model_test_kit.mjs";
import { presets } from "./presets.mjs";

const VECTORS = new URL("../../tests/vectors/", import.meta.url);

/** Returns the policies of all shared vectors. */
function vectorPolicies() {
    const texts = new Set();
    for (const file of readdirSync(VECTORS).filter((name) => name.endsWith(".json") && name !== "keys.json"))
        JSON.parse(readFileSync(new URL(file, VECTORS))).cases.forEach(({ policy }) => texts.add(policy));
    return [...texts];
}

const presetPolicies = presets.flatMap(({ scene }) => scene.lanes);
const EXTREMES = [
    "gcra 1099511627776/s burst 2147483647", "gcra 1/1152921504606846975ns",
    "leaky-queue 10/s depth 2147483646", "leaky-queue 10/s depth 20 nodelay 20",
    "leaky-queue 10/s depth 0", "sliding-slices 100/155382367ns slices 7", "fixed-window 1/36w",
    "sliding-counter 5/1000000001ns", "token-bucket 5 refill 7 every 90m",
    "fixed-window 9/year tz Asia/Tokyo", "fixed-window 9/month from 31 tz Asia/Tokyo count-denied",
    "fixed-window 9/day from 06:00", "fixed-window 9/week from sunday", "fixed-window 9/year from 02-29",
    "fixed-window 5/h from-first count-denied", "fixed-window 5/month count-denied", "sliding-log 1/13000d",
];

const check = (weir, text) => checkPolicy(weir, text, zones);

const tests = {
    survives_its_form(weir) {
        const policies = [...presetPolicies, ...POLICIES, ...EXTREMES, ...vectorPolicies()];
        let shown = 0;
        for (const text of policies) {
            const policy = check(weir, text), forms = formOf(policy.layers);
            assert.equal(policy.error, null, text);
            if (forms)
                assert.equal(check(weir, textOf(forms)).text, policy.text);
            shown += Number(forms !== null);
        }
        assert(shown >= policies.length - 10, `${shown} of ${policies.length}`);
        for (const text of [...presetPolicies, ...POLICIES])
            assert.notEqual(formOf(check(weir, text).layers), null);
        assert.equal(formOf(check(weir, "gcra 1/1152921504606846975ns").layers), null);
    },

    changes_the_algorithm(weir) {
        for (const text of [...presetPolicies, ...POLICIES, "leaky-queue 10/s depth 0"]) {
            for (const form of formOf(check(weir, text).layers)) {
                for (const algorithm of ALGORITHMS) {
                    const beside = algorithm === "block" ? [usualForm()] : [];
                    const changed = textOf([...beside, withAlgorithm(form, algorithm)]);
                    const policy = check(weir, changed);
                    assert.equal(policy.error, null, `${text}: ${changed}`);
                    assert.equal(policy.layers.at(-1).algorithm, algorithm);
                }
            }
        }
    },

    keeps_the_rate_when_the_algorithm_changes(weir) {
        const [form] = formOf(check(weir, "fixed-window 100/day tz Europe/Berlin").layers);
        assert.equal(textOf([withAlgorithm(form, "sliding-log")]), "sliding-log 100/d");
        assert.equal(textOf([withAlgorithm(form, "gcra")]), "gcra 100/d burst 100");
        assert.equal(textOf([withAlgorithm(usualForm(), "leaky-queue")]), "leaky-queue 5/s depth 10");
        assert.equal(textOf([withAlgorithm(form, "concurrent")]), "concurrent 100 lease 1d");
    },

    delays_no_more_requests_than_the_queue_holds(weir) {
        const [form] = formOf(check(weir, "leaky-queue 10/s depth 20 nodelay 8").layers);
        assert.equal(form.nodelay, 8);
        assert.equal(textOf([{ ...form, burst: 5 }]), "leaky-queue 10/s depth 5 nodelay 5");
        assert.equal(textOf([{ ...form, nodelay: 0 }]), "leaky-queue 10/s depth 20");
    },

    doubles_blocks_only_up_to_a_longer_one(weir) {
        const [, form] = formOf(check(weir, "block 90s doubling 1h & sliding-log 5/m").layers);
        assert.deepEqual([form.period, form.unit, form.longest], [90, "s", 3600]);
        assert.equal(textOf([form]), "block 90s doubling 3600s");
        assert.equal(textOf([{ ...form, longest: 90 }]), "block 90s");
        assert.equal(textOf([{ ...form, longest: 91 }]), "block 90s doubling 91s");
        assert.equal(formOf(check(weir, "sliding-log 5/m & block 10m").layers)[1].longest, 0);
    },

    has_bounds_that_the_language_accepts(weir) {
        for (const algorithm of ALGORITHMS) {
            const form = withAlgorithm(usualForm(), algorithm);
            for (const { name, kind, min, max, units, label } of fieldsOf(form)) {
                assert(label.length > 1 && name in form);
                const rate = name === "burst" ? { rate: 1e5 } : {}; // a large bucket must refill in time
                const values = {
                    number: name === "period" ? [min] : [min, max],
                    unit: units?.filter((unit) => unit !== "ns" || algorithm !== "sliding-slices"),
                    check: [true, false],
                    text: ["", "UTC"],
                }[kind];
                for (const value of values) {
                    const beside = algorithm === "block" ? [usualForm()] : [];
                    const { error } = check(weir, textOf([...beside, { ...form, ...rate, [name]: value }]));
                    assert.equal(error, null, `${algorithm} ${name} ${value}: ${error?.message}`);
                }
            }
        }
        const daily = { ...withAlgorithm(usualForm(), "fixed-window"), unit: "day" };
        const names = fieldsOf(daily).map(({ name }) => name);
        assert.deepEqual(names, ["rate", "unit", "from", "zone", "countDenied"]);
    },

    begins_where_the_unit_does_or_from_a_given_day(weir) {
        const [form] = formOf(check(weir, "fixed-window 9/month from 17 tz Asia/Tokyo").layers);
        assert.equal(form.from, "17");
        const fieldOf = (of) => fieldsOf(of).find(({ name }) => name === "from");
        const begins = { day: ["00:00", "06:00"], week: ["monday", "sunday"], month: ["1", "31"],
            year: ["01-01", "04-01"] };
        for (const [unit, [first, other]] of Object.entries(begins)) {
            const changed = withUnit(form, unit);
            assert.equal(textOf([changed]), `fixed-window 9/${unit} tz Asia/Tokyo`);
            assert.equal(fieldOf(changed).placeholder, first);
            assert.equal(textOf([{ ...changed, from: first }]), `fixed-window 9/${unit} tz Asia/Tokyo`);
            const text = textOf([{ ...changed, from: other, zone: "" }]);
            assert.equal(text, `fixed-window 9/${unit} from ${other}`);
            assert.equal(check(weir, text).text, text);
        }
        assert.equal(textOf([withUnit(form, "h")]), "fixed-window 9/h");
        assert.equal(fieldOf(withUnit(form, "h")), undefined);
        assert.equal(fieldsOf(form).find(({ name }) => name === "zone").placeholder, "UTC");
    },
};

await runTests(tests);
