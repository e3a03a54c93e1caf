// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Helpers for building DOM trees without parsing HTML, as the pages' content security policy requires.

/**
 * Creates an element. In `props`, `class` and `text` set the class and the text, `on` holds event
 * listeners, a boolean or null sets or removes an attribute, and anything else is an attribute.
 * @param {string} tag
 * @param {Record<string, any>} [props]
 * @param {...(Node | string | null)} children
 * @returns {any}
 */
export function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
        if (name === "on") {
            for (const [type, listener] of Object.entries(value))
                node.addEventListener(type, listener);
        } else if (name === "text") {
            node.textContent = value;
        } else if (name === "class") {
            node.className = value;
        } else {
            setAttribute(node, name, value);
        }
    }
    node.append(...children.filter((child) => child !== null));
    return node;
}

/** Sets an attribute. `true` is the empty value; `false`, null and undefined remove the attribute. */
export function setAttribute(node, name, value) {
    if (value === false || value === null || value === undefined)
        node.removeAttribute(name);
    else
        node.setAttribute(name, value === true ? "" : String(value));
}

/** Sets a node's text if it differs, so that unchanged texts cause no layout. */
export function setText(node, text) {
    if (node.textContent !== text)
        node.textContent = text;
}

/** Fills a select with options of [value, text]. */
export function setOptions(select, options, value) {
    select.replaceChildren(...options.map(([v, text]) => el("option", { value: v, text })));
    select.value = value;
}

let ids = 0;

/** Returns an id that no other element of the page has. */
export function newId(prefix) {
    ids += 1;
    return `${prefix}-${ids}`;
}

/**
 * A labelled control: the label's text above its control.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [className]
 */
export function field(label, control, className = "") {
    const id = control.id || newId("field");
    control.id = id;
    return el("div", { class: `field ${className}` }, el("label", { for: id, text: label }), control);
}

/** Returns a function that calls `fn` once, `ms` after its last call; its cancel() drops that call. */
export function debounce(fn, ms) {
    let timer = 0;
    const later = (...args) => {
        clearTimeout(timer);
        timer = setTimeout(() => fn(...args), ms);
    };
    later.cancel = () => clearTimeout(timer);
    return later;
}

const lessMotion = matchMedia("(prefers-reduced-motion: reduce)");

/** Whether the reader has asked for less motion. */
export const reducedMotion = () => lessMotion.matches;

/** Folds a <details> on narrow screens, so that what follows comes first, and keeps it open on others. */
export function foldOnPhones(details) {
    const wide = matchMedia("(min-width: 721px)");
    const fold = () => {
        details.open = wide.matches;
    };
    wide.addEventListener("change", fold);
    fold();
}

/** Offers a Blob as a download. */
export function download(name, blob) {
    const url = URL.createObjectURL(blob);
    const link = el("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
}
