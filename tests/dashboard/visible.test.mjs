// Tests of the generated table of hidden characters, without a browser.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { escapeUnsafe, splitUnsafe } from "../../crates/vik-control/src/web/visible.js";

// The test of the program has the same cases.
const CASES = JSON.parse(readFileSync(new URL("../../crates/vik-core/src/visible/cases.json", import.meta.url), "utf8"));

describe("hidden characters", () => {
  for (const [text, shown] of CASES) {
    it(`are shown in ${JSON.stringify(shown)}`, () => {
      assert.equal(escapeUnsafe(text), shown);
      const segments = splitUnsafe(text);
      assert.equal(segments.map((segment) => segment.text ?? segment.escape).join(""), shown);
      assert.equal(
        segments.some((segment) => segment.escape),
        text !== shown,
      );
    });
  }
});
