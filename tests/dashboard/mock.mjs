// A daemon that is not there: the HTTP API, from a world in memory. Tests change the world and publish facts; by hand it is
// `npm run mock`, and `curl -X POST localhost:8765/mock/tick` (or `park`, `pause`, `reject`, `pullfail`, `signout`) changes something.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { LONG, detail, diff, event, explained, makeWorld, report } from "./world.mjs";

const WEB = new URL("../../src/control/web/", import.meta.url);
const TYPES = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};
export const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/** The token of a browser that is signed in from the start. */
export const SIGNED_IN = "mock.secret";
const HEADERS = {
  "Content-Security-Policy": CSP,
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};

export async function startMock({ port = 0 } = {}) {
  const world = makeWorld();
  world.codes = new Set(["a-code"]);
  world.tokens = new Map([[SIGNED_IN, { id: "mock", user_agent: "A browser of the tests" }]]);
  const feeds = new Set();
  let lastId = 0;

  const mock = {
    world,
    url: "",
    /** Tells a fact to everybody who follows the feed. */
    publish(fact) {
      lastId += 1;
      const text = `id: ${lastId}\nevent: ${fact.type}\ndata: ${JSON.stringify({ at: new Date().toISOString(), ...fact })}\n\n`;
      for (const feed of feeds) feed.write(text);
    },
    feeds: () => feeds.size,
    /** Breaks all feeds; `mock.deaf` refuses new ones. */
    cut() {
      for (const feed of feeds) feed.destroy();
    },
    deaf: false,
    append(id, ...more) {
      const events = world.events.get(id);
      for (const one of more) events.push({ at: new Date().toISOString(), ...one, seq: events.length + 1 });
      const session = world.status.sessions.find((one) => one.session_id === id);
      if (session) {
        session.events = events.length;
        session.last_event_at = new Date().toISOString();
        mock.publish({ type: "session", ...session });
      }
    },
    /** All requests that steer so far, as `[path, body]`. */
    asked: world.asked,
    async close() {
      mock.cut();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };

  const steer = {
    refresh: () => ({ count: 1 }),
    drain() {
      world.status.state = "draining";
      mock.publish({ type: "state" });
      return { count: world.status.sessions.length };
    },
    pause: (body) => paused(body.issue_id, true),
    resume: (body) => paused(body.issue_id, false),
    cancel(id) {
      const gone = world.status.sessions.filter((one) => one.issue_id === id);
      if (!gone.length) return { count: 0, nothing: `nothing of ${id} runs` };
      world.status.sessions = world.status.sessions.filter((one) => one.issue_id !== id);
      for (const one of gone) {
        world.ended.add(one.session_id);
        (world.cancelled ??= new Set()).add(one.session_id);
        mock.publish({
          type: "session_ended",
          session_id: one.session_id,
          issue_id: id,
          stage: one.stage,
          outcome: "cancelled",
          reason: "a person cancelled it",
        });
      }
      return { count: gone.length };
    },
    approve: (id, body) => answered(id, body),
    deny: (id, body) => answered(id, body),
    retry(id) {
      const had = world.status.parked.length;
      world.status.parked = world.status.parked.filter((one) => one.issue_id !== id);
      const issue = world.issues.find((one) => one.issue_id === id);
      if (issue) issue.stages = issue.stages.map((stage) => ({ ...stage, state: "ready", hold: null }));
      mock.publish({ type: "issue", issue_id: id, what: "freed by a person" });
      return had === world.status.parked.length ? { count: 0, nothing: `nothing of ${id} is parked` } : { count: 1 };
    },
  };

  function answered(id, { request }) {
    const had = world.status.approvals.length;
    world.status.approvals = world.status.approvals.filter((one) => one.id !== request);
    mock.publish({ type: "issue", issue_id: id, what: "answered by a person" });
    return had === world.status.approvals.length ? { count: 0, nothing: "another request waits" } : { count: 1 };
  }

  function paused(id, on) {
    if (id === null || id === undefined) world.status.paused = on;
    else world.issues.find((issue) => issue.issue_id === id).paused = on;
    mock.publish({ type: "state" });
    return { count: 1 };
  }

  const server = createServer(async (request, response) => {
    try {
      await answer(request, response);
    } catch (error) {
      problem(response, 500, "internal", String(error));
    }
  });

  const json = (response, body, status = 200) =>
    response.writeHead(status, { ...HEADERS, "Content-Type": "application/json" }).end(JSON.stringify(body));
  const problem = (response, status, code, detailText, hint) =>
    response
      .writeHead(status, { ...HEADERS, "Content-Type": "application/problem+json" })
      .end(JSON.stringify({ type: "about:blank", title: "Error", status, detail: detailText, code, hint }));

  async function answer(request, response) {
    const url = new URL(request.url, "http://mock");
    const path = request.url.split("?")[0].split("/").slice(1).map(decodeURIComponent);
    if (path[0] === "mock") return byHand(path[1], response);
    if (path[0] === "assets" || path[0] !== "api") return file(path, response);
    const [, , what, id, sub] = path;
    if (what === "sign-in") return begin(request, response);
    const token = request.headers.authorization?.replace("Bearer ", "");
    if (!world.signedIn || !world.tokens.has(token))
      return problem(response, 401, "unauthorized", "This request is not signed in.");
    if (what === "sign-ins") return signIns(request, response, id, token);
    if (request.method === "POST") {
      if (request.headers["content-type"] !== "application/json")
        return problem(response, 415, "media_type", "Not JSON.");
      let text = "";
      for await (const piece of request) text += piece;
      const body = JSON.parse(text);
      world.asked.push([path.slice(2).join("/"), body]);
      return json(response, what === "issues" ? steer[sub](id, body) : steer[what](body));
    }
    if (what === "events") return feed(request, response);
    if (what === "state") return json(response, world.status);
    if (what === "report") return json(response, report(url.searchParams.get("since")));
    if (what === "issues" && id === undefined) return json(response, issues(url.searchParams));
    if (what === "issues") {
      const found = explained(world, id);
      return found
        ? json(response, found)
        : problem(response, 404, "no_such_issue", `Nothing is known of the issue ${id}.`, "Is the id right?");
    }
    if (what === "sessions") {
      const found = detail(world, id);
      if (!found) return problem(response, 404, "no_such_session", `There is no session ${id}.`);
      if (!sub) return json(response, found);
      if (sub === "events") return json(response, events(id, url.searchParams));
      if (sub === "diff") return json(response, diff());
      if (sub === "stderr")
        return json(response, {
          schema: 1,
          text: "warning: \u001b[33mslow network\u001b[0m\nretrying in 2 s\n",
          left_out: 12_345,
        });
    }
    return problem(response, 404, "not_found", "No such resource.");
  }

  async function begin(request, response) {
    let text = "";
    for await (const piece of request) text += piece;
    if (!world.codes.delete(JSON.parse(text).code))
      return problem(response, 401, "sign_in", "the link was already used, or has expired", "`vik status` prints a new one");
    const id = `b0b0b0b${world.tokens.size}`;
    const token = `${id}.secret`;
    world.tokens.set(token, { id, user_agent: request.headers["user-agent"] });
    return json(response, { schema: 1, id, token, expires_at: new Date(Date.now() + 604_800_000).toISOString() });
  }

  function signIns(request, response, id, token) {
    if (request.method === "GET") {
      const at = new Date().toISOString();
      const more = { created_at: at, last_used_at: at, expires_at: at, address: "127.0.0.1" };
      const list = [...world.tokens].map(([one, known]) => ({ ...known, ...more, current: one === token }));
      return json(response, { schema: 1, sign_ins: list });
    }
    for (const [one, known] of world.tokens) {
      if (known.id !== id) continue;
      world.tokens.delete(one);
      for (const feed of feeds) if (feed.token === one) feed.end();
      return json(response, { count: 1 });
    }
    return problem(response, 404, "no_sign_in", "no such sign-in");
  }

  function issues(ask) {
    const words = (ask.get("q") ?? "").toLowerCase();
    const all = world.issues.filter((issue) => `${issue.issue_id} ${issue.issue_title}`.toLowerCase().includes(words));
    const after = ask.get("after");
    const rest = after === null ? all : all.filter((issue) => issue.issue_id > after);
    const page = rest.slice(0, Number(ask.get("limit") ?? 100));
    return {
      schema: 1,
      issues: page,
      next: page.length < rest.length ? page.at(-1).issue_id : null,
      total: all.length,
    };
  }

  function events(id, ask) {
    const after = Number(ask.get("after") ?? 0);
    const limit = Math.min(Number(ask.get("limit") ?? 100), 1000);
    const log = world.events.get(id);
    const last = id === LONG ? world.long : log.length;
    const found = [];
    for (let seq = after + 1; seq <= Math.min(after + limit, last); seq++)
      found.push(id === LONG ? event(seq) : log[seq - 1]);
    return { schema: 1, session_id: id, events: found, last_seq: last, ended: world.ended.has(id) };
  }

  function feed(request, response) {
    if (mock.deaf) return problem(response, 503, "stopping", "Not now.");
    response.writeHead(200, { ...HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write("retry: 300\n: hello\n\n");
    if (request.headers["last-event-id"] === undefined)
      response.write(
        `id: ${lastId}\nevent: reset\ndata: ${JSON.stringify({ at: new Date().toISOString(), type: "reset" })}\n\n`,
      );
    response.token = request.headers.authorization.replace("Bearer ", "");
    feeds.add(response);
    response.on("close", () => feeds.delete(response));
  }

  async function file(path, response) {
    const name = path[0] === "assets" ? path[1] : "index.html";
    const type = TYPES[name?.split(".").pop()];
    if (!type || !/^[\w.-]+$/.test(name)) return problem(response, 404, "not_found", "No such file.");
    const body = await readFile(new URL(name, WEB)).catch(() => null);
    if (!body) return problem(response, 404, "not_found", "No such file.");
    response.writeHead(200, { ...HEADERS, "Content-Type": type }).end(body);
  }

  function byHand(what, response) {
    const { status } = world;
    const acts = {
      tick: () => mock.append(status.sessions[0].session_id, { kind: "message", text: "And on." }),
      pause: () => steer.pause({ issue_id: null }),
      signout: () => {
        world.signedIn = false;
      },
      pullfail: () => {
        status.last_pull = {
          at: new Date().toISOString(),
          ok: false,
          issues: 0,
          skipped: 0,
          duration_ms: 9,
          error: "gh: could not resolve host",
        };
        status.pulls.failed_in_a_row = 3;
        mock.publish({ type: "pulled", ok: false, issues: 0 });
      },
      reject: () => {
        status.workflow.rejected = {
          at: new Date().toISOString(),
          diagnostics: ["workflow.yml:3:5: error: unknown runtime `codx`; did you mean `codex`?"],
          more: 2,
        };
        mock.publish({ type: "state" });
      },
      notifier: () => {
        status.notify[0].failing_since = new Date(Date.now() - 60_000).toISOString();
        status.notify[0].error = "hooks.example answered 503 <b>Service Unavailable</b>";
        status.notify[0].undelivered = 3;
        mock.publish({ type: "state" });
      },
      ledger: () => {
        status.ledger.error = "database or disk is full";
        mock.publish({ type: "state" });
      },
    };
    if (!acts[what]) return problem(response, 404, "not_found", Object.keys(acts).join(", "));
    acts[what]();
    return json(response, { ok: true });
  }

  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  mock.url = `http://127.0.0.1:${server.address().port}`;
  return mock;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock({ port: Number(process.env.PORT ?? 8765) });
  console.log(`${mock.url}/login#code=a-code`);
}
