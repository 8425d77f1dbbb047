// SPDX-License-Identifier: MIT
// The page of who has not logged in: a token, once, for the cookie of a session.
import { $, setText } from "./dom.js";

$("login").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    const answer = await fetch("/api/login", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: $("token").value.trim() }),
    });
    if (answer.ok) location.reload();
    else setText($("login-text"), `Not logged in: ${(await answer.text()).trim()}.`);
  } catch {
    setText($("login-text"), "driftd-web does not answer.");
  }
});
