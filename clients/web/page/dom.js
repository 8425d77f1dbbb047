// SPDX-License-Identifier: MIT
// The page's elements, changed only where what they show has changed.

export const $ = (id) => document.getElementById(id);

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function show(element, visible) {
  if (element.hidden === visible) element.hidden = !visible;
}

/** A table's rows: lists of texts. Rows stay the same elements while there are as many. */
export class Table {
  constructor(body, { buttons = false } = {}) {
    this.body_ = body;
    this.buttons_ = buttons; // the first cell of each row is one
  }

  update(rows) {
    while (this.body_.rows.length > rows.length) this.body_.deleteRow(-1);
    rows.forEach((cells, i) => {
      const row = this.body_.rows[i] ?? this.body_.insertRow();
      while (row.cells.length < cells.length) this.addCell_(row);
      cells.forEach((text, j) => {
        const cell = row.cells[j];
        setText(j === 0 && this.buttons_ ? cell.firstChild : cell, text);
      });
    });
  }

  addCell_(row) {
    const first = row.cells.length === 0;
    const cell = document.createElement(first ? "th" : "td");
    if (first) cell.scope = "row";
    if (first && this.buttons_) {
      const button = document.createElement("button");
      button.type = "button";
      cell.append(button);
    }
    row.append(cell);
  }
}

/** A list of texts, an item each. */
export function setList(list, texts) {
  while (list.children.length > texts.length) list.lastElementChild.remove();
  texts.forEach((text, i) => {
    if (i === list.children.length) list.append(document.createElement("li"));
    setText(list.children[i], text);
  });
}

let reword = () => {};

/** What the question that is open says may be otherwise by now. */
export const rewordQuestion = () => reword();

/**
 * Asks in a dialog of the page; true where the answer is yes. Escape, and Enter as it opens, are no. Question and yes are texts,
 * or functions that give the text of now. A question that is null by now is withdrawn; where it says something else by now, "no"
 * has the focus again.
 */
export function ask(question, yes) {
  const dialog = $("question");
  const textOf = (text) => (typeof text === "function" ? text() : text);
  reword = () => {
    const text = textOf(question);
    if (text === null) return dialog.close("no");
    if ($("question-text").textContent !== text) $("question-no").focus();
    setText($("question-text"), text);
    setText($("question-yes"), textOf(yes));
  };
  dialog.returnValue = "no";
  if (textOf(question) === null) return Promise.resolve(false);
  reword();
  dialog.showModal();
  $("question-no").focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      reword = () => {};
      resolve(dialog.returnValue === "yes");
    }, { once: true });
  });
}
