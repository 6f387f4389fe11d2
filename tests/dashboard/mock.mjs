// A mock of the daemon: the HTTP API with a world in memory. Tests change the world and publish facts. `npm run mock`
// starts it for a browser; `curl -X POST localhost:8765/mock/tick` (or `pause`, `reject`, `pullfail`, `notifier`,
// `ledger`, `signout`) changes the world.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { event, issueDetail, LONG, makeWorld, runs, sessionDetail } from "./world.mjs";
import { log, workflow } from "./world_daemon.mjs";
import { diff, report } from "./world_details.mjs";

const WEB = new URL("../../crates/vik-control/src/web/", import.meta.url);
const TYPES = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};
export const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";
/** The token of the HTTP API. */
export const API_TOKEN = "the.api-token-of-the-mock";
/** The token of a browser that is signed in at the start. */
export const SIGNED_IN = "mock.secret";
/** The number of events that one request searches. */
const SCANNED_EVENTS = 20_000;
const HEADERS = {
  "Content-Security-Policy": CSP,
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
};

/** Returns the filter of a search in events, or `null` if the request has none. */
function matcher(params) {
  const q = params.get("q")?.toLowerCase();
  const kinds = params.get("kinds")?.split(",");
  const isFailure = ({ kind, is_error: isError, exit_code: code, ok }) =>
    isError || kind === "error" || (kind === "tool_result" && code > 0) || (kind === "completed" && !ok);
  if (!q && !kinds && params.get("errors") !== "true") return null;
  return (event) =>
    (!q || JSON.stringify(event).toLowerCase().includes(q)) &&
    (!kinds || kinds.includes(event.kind)) &&
    (params.get("errors") !== "true" || isFailure(event));
}

export async function startMock({ port = 0 } = {}) {
  const world = makeWorld();
  /** The messages that wait, of all issues. */
  world.messages = [];
  world.codes = new Set(["a-code"]);
  world.tokens = new Map([[SIGNED_IN, { id: "mock", user_agent: "A browser of the tests" }]]);
  const feeds = new Set();
  let lastFactId = 0;

  const mock = {
    world,
    url: "",
    /** Publishes a fact to all subscribers of the feed. */
    publish(fact) {
      lastFactId += 1;
      const text = `id: ${lastFactId}\nevent: ${fact.type}\ndata: ${JSON.stringify({ at: new Date().toISOString(), ...fact })}\n\n`;
      for (const feed of feeds) feed.write(text);
    },
    feeds: () => feeds.size,
    /** Closes all feeds. With `mock.refusesFeeds`, new ones are refused. */
    dropFeeds() {
      for (const feed of feeds) feed.destroy();
    },
    refusesFeeds: false,
    append(id, ...newEvents) {
      const events = world.events.get(id);
      for (const event of newEvents) events.push({ at: new Date().toISOString(), ...event, seq: events.length + 1 });
      const session = world.status.sessions.find((entry) => entry.session_id === id);
      if (session) {
        session.events = events.length;
        session.last_event_at = new Date().toISOString();
        mock.publish({ type: "session", ...session });
      }
    },
    /** The received commands, as `[path, body]`. */
    commands: world.commands,
    async close() {
      mock.dropFeeds();
      server.closeAllConnections();
      await new Promise((done) => server.close(done));
    },
  };

  const handlers = {
    refresh: () => ({ count: 1 }),
    drain() {
      world.status.state = "draining";
      mock.publish({ type: "state" });
      return { count: world.status.sessions.length };
    },
    pause: (body) => setPaused(body.issue_id, true),
    resume: (body) => setPaused(body.issue_id, false),
    cancel(id) {
      const cancelled = world.status.sessions.filter((entry) => entry.issue_id === id);
      if (!cancelled.length) return { count: 0, nothing: `no attempt of ${id} is running` };
      world.status.sessions = world.status.sessions.filter((entry) => entry.issue_id !== id);
      for (const entry of cancelled) {
        world.ended.add(entry.session_id);
        (world.cancelled ??= new Set()).add(entry.session_id);
        mock.publish({
          type: "session_ended",
          session_id: entry.session_id,
          issue_id: id,
          stage: entry.stage,
          outcome: "cancelled",
          reason: "a person cancelled it",
        });
      }
      return { count: cancelled.length };
    },
    answer: (id, body) => removeQuestion(id, body),
    approve: (id, body) => removeApproval(id, body),
    deny: (id, body) => removeApproval(id, body),
    messages(id, body) {
      const message = {
        id: `0198f3c2-0000-7000-8000-${String(world.messages.length).padStart(12, "0")}`,
        by: "a person (dashboard, 127.0.0.1)",
        at: new Date().toISOString(),
        session_id: null,
        ...body,
      };
      world.messages.push(message);
      mock.publish({ type: "issue", issue_id: id, what: "the messages for its agent changed" });
      return { ...message, delivery: delivery(id) };
    },
    "run-again": (id) => {
      mock.publish({ type: "issue", issue_id: id, what: "run again by a person" });
      return { count: 1 };
    },
    retry(id) {
      const previousCount = world.status.parked.length;
      world.status.parked = world.status.parked.filter((entry) => entry.issue_id !== id);
      const issue = world.issues.find((entry) => entry.issue_id === id);
      if (issue) issue.stages = issue.stages.map((stage) => ({ ...stage, state: "ready", hold: null }));
      mock.publish({ type: "issue", issue_id: id, what: "freed by a person" });
      return previousCount === world.status.parked.length
        ? { count: 0, nothing: `no stage of ${id} is parked` }
        : { count: 1 };
    },
  };

  function delivery(id) {
    const session = world.status.sessions.find((entry) => entry.issue_id === id);
    if (!session) return { to: "next_attempt", because: "the stage is parked", hint: "`vik retry`" };
    return { to: "agent", session_id: session.session_id, stage: session.stage, agent: session.agent };
  }

  function removeQuestion(id, { question }) {
    world.status.questions = world.status.questions.filter((entry) => entry.id !== question);
    mock.publish({ type: "issue", issue_id: id, what: "answered by a person" });
    return { count: 1 };
  }

  function removeApproval(id, { request }) {
    const previousCount = world.status.approvals.length;
    world.status.approvals = world.status.approvals.filter((entry) => entry.id !== request);
    mock.publish({ type: "issue", issue_id: id, what: "answered by a person" });
    return previousCount === world.status.approvals.length
      ? { count: 0, nothing: "the request is no longer pending" }
      : { count: 1 };
  }

  function setPaused(id, isPaused) {
    if (id === null || id === undefined) world.status.paused = isPaused;
    else world.issues.find((issue) => issue.issue_id === id).paused = isPaused;
    mock.publish({ type: "state" });
    return { count: 1 };
  }

  const server = createServer(async (request, response) => {
    try {
      await respond(request, response);
    } catch (error) {
      sendProblem(response, 500, "internal", String(error));
    }
  });

  const sendJson = (response, body, status = 200) =>
    response.writeHead(status, { ...HEADERS, "Content-Type": "application/json" }).end(JSON.stringify(body));
  const sendProblem = (response, status, code, detailText, hint) =>
    response
      .writeHead(status, { ...HEADERS, "Content-Type": "application/problem+json" })
      .end(JSON.stringify({ type: "about:blank", title: "Error", status, detail: detailText, code, hint }));

  async function respond(request, response) {
    const url = new URL(request.url, "http://mock");
    const path = request.url.split("?")[0].split("/").slice(1).map(decodeURIComponent);
    if (path[0] === "mock") return control(path[1], response);
    if (path[0] === "assets" || path[0] !== "api") return sendFile(path, response);
    const [, , resource, id, sub] = path;
    if (resource === "sign-in") return signIn(request, response);
    const token = request.headers.authorization?.replace("Bearer ", "");
    if (!world.signedIn || (token !== API_TOKEN && !world.tokens.has(token)))
      return sendProblem(response, 401, "unauthorized", "This request is not signed in.");
    if (resource === "sign-ins") return signIns(request, response, id, token);
    if (request.method === "POST") {
      if (request.headers["content-type"] !== "application/json")
        return sendProblem(response, 415, "media_type", "Not JSON.");
      let text = "";
      for await (const piece of request) text += piece;
      const body = JSON.parse(text);
      world.commands.push([path.slice(2).join("/"), body]);
      return sendJson(response, resource === "issues" ? handlers[sub](id, body) : handlers[resource](body));
    }
    if (resource === "events") return feed(request, response);
    if (resource === "issues" && sub === "messages") {
      if (request.method === "DELETE") {
        const left = world.messages.filter((message) => message.id !== path[5]);
        if (left.length === world.messages.length)
          return sendProblem(response, 404, "message_not_waiting", "no such message waits");
        world.messages = left;
        world.commands.push([path.slice(2).join("/"), "DELETE"]);
        return sendJson(response, { count: 1 });
      }
      return sendJson(response, { schema: 1, issue_id: id, messages: world.messages, delivery: delivery(id) });
    }
    if (resource === "state") return sendJson(response, world.status);
    if (resource === "workflow") return sendJson(response, workflow(world));
    if (resource === "log") return sendJson(response, log(world, url.searchParams));
    if (resource === "pulls") return sendJson(response, { schema: 1, pulls: world.pulls });
    if (resource === "runs") {
      if (url.searchParams.get("since") === "never")
        return sendProblem(response, 400, "query", "`since`: a time must be a duration (`24h`), a date or a time");
      return sendJson(response, runs(world, url.searchParams));
    }
    if (resource === "report") return sendJson(response, report(url.searchParams.get("since")));
    if (resource === "issues" && id === undefined) return sendJson(response, issues(url.searchParams));
    if (resource === "issues" && sub === "diff") return sendJson(response, diff());
    if (resource === "issues") {
      const found = issueDetail(world, id);
      return found
        ? sendJson(response, found)
        : sendProblem(response, 404, "no_such_issue", `There is no issue ${id}.`, "Check the id.");
    }
    if (resource === "sessions") {
      const found = sessionDetail(world, id);
      if (!found) return sendProblem(response, 404, "no_such_session", `There is no session ${id}.`);
      if (!sub) return sendJson(response, found);
      if (sub === "events") return sendJson(response, events(id, url.searchParams));
      if (sub === "diff") return sendJson(response, diff());
      if (sub === "stderr")
        return sendJson(response, {
          schema: 1,
          text: "warning: \u001b[33mslow network\u001b[0m\nretrying in 2 s\n",
          left_out: 12_345,
        });
    }
    return sendProblem(response, 404, "not_found", "No such resource.");
  }

  async function signIn(request, response) {
    let text = "";
    for await (const piece of request) text += piece;
    if (!world.codes.delete(JSON.parse(text).code))
      return sendProblem(
        response,
        401,
        "sign_in",
        "the link was already used, or has expired",
        "`vik status` prints a new one",
      );
    const id = `b0b0b0b${world.tokens.size}`;
    const token = `${id}.secret`;
    world.tokens.set(token, { id, user_agent: request.headers["user-agent"] });
    return sendJson(response, { schema: 1, id, token, expires_at: new Date(Date.now() + 604_800_000).toISOString() });
  }

  function signIns(request, response, id, token) {
    if (request.method === "GET") {
      const at = new Date().toISOString();
      const times = { created_at: at, last_used_at: at, expires_at: at, address: "127.0.0.1" };
      const list = [...world.tokens].map(([key, entry]) => ({ ...entry, ...times, current: key === token }));
      return sendJson(response, { schema: 1, sign_ins: list });
    }
    for (const [key, entry] of world.tokens) {
      if (entry.id !== id) continue;
      world.tokens.delete(key);
      for (const feed of feeds) if (feed.token === key) feed.end();
      return sendJson(response, { count: 1 });
    }
    return sendProblem(response, 404, "no_sign_in", "no such sign-in");
  }

  function issues(params) {
    const query = (params.get("q") ?? "").toLowerCase();
    const all = world.issues.filter((issue) => `${issue.issue_id} ${issue.issue_title}`.toLowerCase().includes(query));
    const after = params.get("after");
    const remaining = after === null ? all : all.filter((issue) => issue.issue_id > after);
    const page = remaining.slice(0, Number(params.get("limit") ?? 100));
    return {
      schema: 1,
      issues: page,
      next: page.length < remaining.length ? page.at(-1).issue_id : null,
      total: all.length,
    };
  }

  function events(id, params) {
    const after = Number(params.get("after") ?? 0);
    const limit = Math.min(Number(params.get("limit") ?? 100), 1000);
    const log = world.events.get(id);
    const last = id === LONG ? world.long : log.length;
    const found = [];
    const matches = matcher(params);
    const end = Math.min(matches ? after + SCANNED_EVENTS : after + limit, last);
    let seq = after;
    while (seq < end && found.length < limit) {
      seq += 1;
      const candidate = id === LONG ? event(seq) : log[seq - 1];
      if (!matches || matches(candidate)) found.push(candidate);
    }
    return { schema: 1, session_id: id, events: found, last_seq: last, scanned_to: seq, ended: world.ended.has(id) };
  }

  function feed(request, response) {
    if (mock.refusesFeeds) return sendProblem(response, 503, "stopping", "Not now.");
    response.writeHead(200, { ...HEADERS, "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write("retry: 300\n: hello\n\n");
    if (request.headers["last-event-id"] === undefined)
      response.write(
        `id: ${lastFactId}\nevent: reset\ndata: ${JSON.stringify({ at: new Date().toISOString(), type: "reset" })}\n\n`,
      );
    response.token = request.headers.authorization.replace("Bearer ", "");
    feeds.add(response);
    response.on("close", () => feeds.delete(response));
  }

  async function sendFile(path, response) {
    const name = path[0] === "assets" ? path[1] : "index.html";
    const type = TYPES[name?.split(".").pop()];
    if (!type || !/^[\w.-]+$/.test(name)) return sendProblem(response, 404, "not_found", "No such file.");
    const body = await readFile(new URL(name, WEB)).catch(() => null);
    if (!body) return sendProblem(response, 404, "not_found", "No such file.");
    response.writeHead(200, { ...HEADERS, "Content-Type": type }).end(body);
  }

  function control(resource, response) {
    const { status } = world;
    const actions = {
      tick: () => mock.append(status.sessions[0].session_id, { kind: "message", text: "And on." }),
      pause: () => handlers.pause({ issue_id: null }),
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
          next_at: new Date(Date.now() + 150_000).toISOString(),
        };
        status.pulls.failed_in_a_row = 3;
        mock.publish({ type: "pulled", ok: false, issues: 0 });
      },
      handover: () => {
        Object.assign(status.waiting[0], {
          reason: "hand_over",
          detail: "the work is done, but its hand-over failed (1 of 8 tries): `after_run` exited with 1",
        });
        mock.publish({ type: "state" });
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
    if (!actions[resource]) return sendProblem(response, 404, "not_found", Object.keys(actions).join(", "));
    actions[resource]();
    return sendJson(response, { ok: true });
  }

  await new Promise((done) => server.listen(port, "127.0.0.1", done));
  mock.url = `http://127.0.0.1:${server.address().port}`;
  return mock;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = await startMock({ port: Number(process.env.PORT ?? 8765) });
  console.log(`${mock.url}/login#code=a-code`);
}
