// A parser for server-sent events.

/** Calls `onEvent({ id, type, data })` for each event of a byte stream, and `onBytes()` for each chunk. */
export async function readEvents(stream, onEvent, onBytes = () => {}) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let event = { id: null, type: "", data: [] };
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    text += value;
    // A carriage return at the end may be the first half of a line end.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop();
    for (const line of lines) {
      if (line === "") {
        if (event.data.length) onEvent({ ...event, data: event.data.join("\n") });
        event = { id: event.id, type: "", data: [] };
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon < 0 ? line : line.slice(0, colon);
      const content = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
      if (field === "data") event.data.push(content);
      else if (field === "event") event.type = content;
      else if (field === "id" && !content.includes("\0")) event.id = content;
    }
  }
}
