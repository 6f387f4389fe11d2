// Events of session logs: an endless realistic log, and a hostile one.

export const MINUTE = 60_000;
export const ago = (ms) => new Date(Date.now() - ms).toISOString();

export const HOSTILE_ID = '<img src=x onerror="window.pwned=1">/../\u202egnp';
export const HOSTILE_TITLE = `<script>window.pwned=1</script><img src="http://evil.invalid/x.png" onerror=alert(1)> \u202etxet desrever\u202c \u001b[31mred\u001b[0m \u200bhidden`;

export const usage = (input, output) => ({
  input_tokens: input,
  cached_input_tokens: Math.floor(input * 0.8),
  cache_write_input_tokens: 0,
  output_tokens: output,
});

export const PATCH = `@@ -12,7 +12,9 @@ impl Import {
     fn flush(&mut self) -> Result<(), Error> {
-        for row in &self.rows {
-            self.db.insert(row)?;
-        }
+        // One statement for all rows: a round trip each was what made it slow.
+        self.db.insert_all(&self.rows)?;
+        self.rows.clear();
+        self.flushed += 1;
         Ok(())
     }
 }`;

/** Returns the event of the long log with this number; it is always the same. */
export function event(seq) {
  const at = new Date(Date.UTC(2026, 0, 5, 9, 0, 0) + seq * 1300).toISOString();
  const base = { seq, at };
  const call = `call_${Math.floor(seq / 12)}`;
  if (seq === 1)
    return {
      ...base,
      kind: "session_started",
      provider_session_id: "abc",
      agent_version: "2.1.0",
      model: "gpt-5.1-codex",
    };
  switch (seq % 12) {
    case 1:
      return {
        ...base,
        kind: "message",
        text: `Step ${seq}: I look at how the import batches its rows.${seq % 36 === 1 ? "\n\nThe plan:\n  1. read `batch.rs`\n  2. write all rows with one statement\n  3. run the tests\n\n```rust\nfn flush(&mut self) -> Result<(), Error> {\n    self.db.insert_all(&self.rows)\n}\n```\n" : ""}`,
      };
    case 2:
      return {
        ...base,
        kind: "reasoning",
        text: "The inserts go one by one; a round trip each. A single statement would be far quicker, but the error must still name the row.",
      };
    case 3:
      return {
        ...base,
        kind: "tool_call",
        call_id: call,
        tool: "Bash",
        input: { command: `rg -n "insert\\(" src/import --stats # ${seq}` },
      };
    case 4:
      return {
        ...base,
        kind: "tool_result",
        call_id: call,
        is_error: false,
        exit_code: 0,
        output: `src/import/batch.rs:14:            self.db.insert(row)?;\nsrc/import/mod.rs:${seq}:    db.insert(&header)?;\n\n2 matches\n`,
      };
    case 5:
      return {
        ...base,
        kind: "tool_call",
        call_id: `${call}b`,
        tool: "Edit",
        input: {
          file_path: "src/import/batch.rs",
          old_string: "for row in &self.rows {\n    self.db.insert(row)?;\n}",
          new_string: "self.db.insert_all(&self.rows)?;",
        },
      };
    case 6:
      return { ...base, kind: "tool_result", call_id: `${call}b`, is_error: false, output: PATCH };
    case 7:
      return {
        ...base,
        kind: "tool_call",
        call_id: `${call}c`,
        tool: "Bash",
        input: { command: "cargo test -p import", timeout: 120000 },
      };
    case 8:
      return {
        ...base,
        kind: "tool_result",
        call_id: `${call}c`,
        is_error: seq % 24 === 8,
        exit_code: seq % 24 === 8 ? 101 : 0,
        output: "running 14 tests\n".concat("test import::batch::row ... ok\n".repeat(seq % 24 === 8 ? 60 : 6)),
      };
    case 9:
      return { ...base, kind: "token_usage", usage: usage(seq * 900, seq * 40), cost_usd: seq / 20000 };
    case 10:
      return seq % 48 === 10
        ? { ...base, kind: "error", message: "Reconnecting... 2/5", fatal: false, http_status: 529 }
        : { ...base, kind: "message", text: "The tests pass. Next, the header row." };
    case 11:
      return seq % 60 === 11
        ? { ...base, kind: "malformed", line: '{"type":"item.comp' }
        : seq % 60 === 23
          ? { ...base, kind: "rate_limit", status: "allowed_warning", utilization: 0.83, resets_at_unix: 1_767_625_200 }
          : { ...base, kind: "subagent", id: "t1", status: "completed", description: "look for other callers" };
    default:
      return seq % 24 === 0
        ? { ...base, kind: "limit", scope: "attempt", unit: "usd", spent: 1_612_000, limit: 2_000_000, percent: 80 }
        : { ...base, kind: "unknown", raw: { type: "telemetry", seq } };
  }
}

export function hostileEvents() {
  const bad = HOSTILE_TITLE;
  const kinds = [
    { kind: "session_started", model: bad },
    { kind: "message", text: bad },
    { kind: "reasoning", text: bad },
    { kind: "tool_call", call_id: bad, tool: bad, input: { command: bad, __proto__: null } },
    { kind: "tool_result", call_id: bad, is_error: true, output: bad },
    { kind: "message", text: `${"A".repeat(200_000)}` },
    { kind: "message", text: "\u001b[31m".repeat(3000) },
    { kind: "malformed", line: `</pre><script>window.pwned=1</script>${bad}` },
    { kind: "constructor", text: bad },
    { kind: "message" },
    { kind: "message", text: { not: "text" } },
    { kind: "tool_call", call_id: "x", tool: "Bash", input: "javascript:alert(1)" },
    { kind: "unknown", raw: { html: bad, __proto__: bad } },
    { kind: "error", message: bad, fatal: true },
    { kind: "completed", ok: false, message: bad, result: { bad } },
  ];
  return kinds.map((event, index) => ({ seq: index + 1, at: ago(MINUTE), ...event }));
}
