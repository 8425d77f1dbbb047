// SPDX-License-Identifier: MIT
// What comes from driftd-web and what goes to it (docs/internals/web.md). A connection that ends is tried again, less
// and less often; commands go by POST, never by the WebSocket.

const kFirstWait_ms = 500;
const kLongestWait_ms = 8000;
let sockets = 0;

/** One message: 4 bytes of length (little-endian), so many bytes of JSON, the payload. Null where it is none. */
export function decode(buffer) {
  if (buffer.byteLength < 4) return null;
  const length = new DataView(buffer).getUint32(0, true);
  if (length > buffer.byteLength - 4) return null;
  try {
    const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    return { header, payload: buffer.slice(4 + length) };
  } catch {
    return null;
  }
}

/** The pixels of an "image": 16 bits, little-endian. Null where there are fewer or more than it says. */
export function pixelsOf(header, payload) {
  if (!(header.width > 0 && header.height > 0)) return null;
  if (payload.byteLength !== 2 * header.width * header.height) return null;
  if (isLittleEndian) return new Uint16Array(payload);
  const view = new DataView(payload);
  return Uint16Array.from({ length: header.width * header.height }, (_, i) => view.getUint16(2 * i, true));
}

const isLittleEndian = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

/** `socketNumber` is another one after each time that it was opened. Calls `onMessage(header, payload)`, and `onClosed()` when the connection ends, until `close()`. */
export class Connection {
  constructor(instance, onMessage, onClosed) {
    this.instance_ = instance;
    this.onMessage_ = onMessage;
    this.onClosed_ = onClosed;
    this.wait_ms_ = kFirstWait_ms;
    this.over_ = false;
    this.open_();
  }

  /** Tells what the page wants to see. */
  want(what) {
    if (this.socket_.readyState === WebSocket.OPEN) this.socket_.send(JSON.stringify({ want: what }));
  }

  close() {
    this.over_ = true;
    clearTimeout(this.timer_);
    this.socket_.close();
  }

  open_() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const query = this.instance_ === null ? "" : `?instance=${encodeURIComponent(this.instance_)}`;
    const socket = new WebSocket(`${scheme}//${location.host}/ws${query}`);
    this.socket_ = socket;
    this.socketNumber = ++sockets;
    socket.binaryType = "arraybuffer";
    socket.onmessage = (event) => {
      const message = this.over_ ? null : decode(event.data);
      if (message === null) return;
      this.wait_ms_ = kFirstWait_ms;
      this.onMessage_(message.header, message.payload);
    };
    socket.onclose = () => {
      if (this.over_) return;
      this.onClosed_();
      void logInAgain();
      this.timer_ = setTimeout(() => this.open_(), this.wait_ms_);
      this.wait_ms_ = Math.min(2 * this.wait_ms_, kLongestWait_ms);
    };
  }
}

/** Where the session is over, the page that asks for a token. A browser does not tell why a WebSocket was refused. */
async function logInAgain() {
  try {
    const answer = await fetch("/api/login");
    if (answer.ok && (await answer.json()).in === false) location.reload();
  } catch {
    // It is not there: it is tried again.
  }
}

export async function logOut(csrf) {
  await fetch("/api/logout", { method: "POST", headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf }, body: "{}" });
  await logInAgain();
}

/** Has `instance`'s daemon carry out a command; its reply, or one like it where none came. */
export const order = (instance, csrf, command) => post(csrf, { instance, command });

/** Has driftd-web itself do something for `instance`: its reply, with `bytes` where it is a file. */
export const useTool = (instance, csrf, tool) => post(csrf, { instance, tool });

async function post(csrf, body) {
  try {
    const answer = await fetch("/api/command", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
      body: JSON.stringify(body),
    });
    const type = answer.headers.get("Content-Type") ?? "";
    if (answer.ok && !type.startsWith("application/json")) return { ok: true, bytes: await answer.arrayBuffer() };
    const text = await answer.text();
    try {
      return JSON.parse(text);
    } catch {
      return { ok: false, error: `driftd-web refused this (${answer.status}): ${text.slice(0, 200)}` };
    }
  } catch {
    return { ok: false, error: "driftd-web does not answer: whether this was done is not known" };
  }
}
