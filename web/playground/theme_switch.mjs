// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Light and dark: the system's preference, or the reader's own choice, which is remembered.

const KEY = "weir-theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const print = matchMedia("print");
const listeners = new Set();

// Storage can be forbidden, and is for some browsers when a page is opened from disk.
function stored() {
    try {
        return localStorage.getItem(KEY);
    } catch {
        return null;
    }
}

function store(value) {
    try {
        localStorage.setItem(KEY, value);
    } catch {
        // The choice then lasts until the page is closed.
    }
}

function apply(choice) {
    if (choice === "light" || choice === "dark")
        document.documentElement.dataset.theme = choice;
}

/** Whether the page is being printed. */
export const isPrinted = () => print.matches;

/** Whether the page is dark now. Paper is not. */
export function isDark() {
    if (isPrinted())
        return false;
    const choice = document.documentElement.dataset.theme;
    return choice ? choice === "dark" : system.matches;
}

/**
 * Calls `fn` whenever the page turns light or dark, and before it is printed, when no further frame comes.
 * Returns a function that stops this.
 */
export function onTheme(fn) {
    listeners.add(fn);
    return () => listeners.delete(fn);
}

function announce() {
    for (const fn of listeners)
        fn(isDark());
}

/**
 * Makes a button switch between light and dark.
 * @param {HTMLButtonElement} button
 */
export function mountThemeSwitch(button) {
    const label = () => {
        button.setAttribute("aria-label", isDark() ? "Use light colours" : "Use dark colours");
        button.title = button.getAttribute("aria-label");
    };
    button.addEventListener("click", () => {
        const choice = isDark() ? "light" : "dark";
        apply(choice);
        store(choice);
        announce();
    });
    onTheme(label);
    label();
}

apply(stored());
for (const query of [system, print])
    query.addEventListener("change", announce);
