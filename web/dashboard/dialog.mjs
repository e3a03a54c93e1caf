// SPDX-License-Identifier: BSD-2-Clause
// Copyright (c) 2026 the weir authors
//
// Asks the user to confirm a change of the running daemon.

import { el, newId } from "../playground/dom.mjs";

/**
 * Shows a question. Focus begins on "Cancel", and returns to where it was.
 * @param {{title: string, text: string, action: string}} question
 * @returns {Promise<boolean>} whether the user chose the action
 */
export function confirmChange({ title, text, action }) {
    const titleId = newId("dialog");
    const textId = newId("dialog");
    const dialog = el(
        "dialog",
        { class: "dialog panel", "aria-labelledby": titleId, "aria-describedby": textId },
        el("h2", { id: titleId, text: title }),
        el("p", { id: textId, text }),
        el(
            "form",
            { method: "dialog", class: "dialog-actions" },
            el("button", { class: "button", value: "cancel", autofocus: true, text: "Cancel" }),
            el("button", { class: "button primary", value: "confirm", text: action }),
        ),
    );
    document.body.append(dialog);
    return new Promise((resolve) => {
        dialog.addEventListener("close", () => {
            dialog.remove();
            resolve(dialog.returnValue === "confirm");
        });
        dialog.showModal();
    });
}
