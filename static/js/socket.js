// The page's one socket. It carries hints only: whoever gets one fetches what is true now.

const SILENCE = 45_000; // the server pings every 20 s
const NOT_LOGGED_IN = 4401;

// `onHint(event)` for every event, `onOpen()` after every connection, the first one too.
// Returns a function that tells whether the socket is up now.
export function listen(onHint, onOpen) {
  let socket;
  let tries = 0;
  let heard = 0;
  let retry;

  function open() {
    clearTimeout(retry);
    const address = new URL("/ws/", location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(address);
    heard = Date.now();
    socket.addEventListener("open", () => {
      tries = 0;
      onOpen();
    });
    socket.addEventListener("message", (message) => {
      heard = Date.now();
      const event = JSON.parse(message.data);
      if (event.type !== "ping" && event.type !== "pong") onHint(event);
    });
    socket.addEventListener("close", (end) => {
      if (end.code === NOT_LOGGED_IN) return;
      tries += 1;
      retry = setTimeout(open, Math.min(1000 * 2 ** tries, 30_000) * (0.5 + Math.random() / 2));
    });
  }

  // A connection can be dead for hours before the browser notices.
  setInterval(() => {
    if (socket.readyState === WebSocket.OPEN && Date.now() - heard > SILENCE) socket.close();
  }, 5000);
  addEventListener("online", () => {
    if (socket.readyState === WebSocket.CLOSED) open();
  });
  open();
  return () => socket.readyState === WebSocket.OPEN;
}
