-- Times are RFC 3339 in UTC with nine digits of a second, so that they sort as text. Money is in millionths of a US dollar.

CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `machine` is the truth that the daemon goes on from, as JSON; the other columns say the same to people and to repair.
CREATE TABLE issues (
  id TEXT NOT NULL PRIMARY KEY,
  title TEXT NOT NULL,
  state TEXT NOT NULL,
  present INTEGER NOT NULL CHECK (present IN (0, 1)),
  paused INTEGER NOT NULL CHECK (paused IN (0, 1)),
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  extra_attempts INTEGER NOT NULL CHECK (extra_attempts >= 0),
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  usd_micro INTEGER NOT NULL CHECK (usd_micro >= 0),
  machine_version INTEGER NOT NULL,
  machine TEXT NOT NULL
) STRICT;

CREATE TRIGGER issues_only_grow BEFORE UPDATE ON issues
WHEN NEW.attempts < OLD.attempts OR NEW.tokens < OLD.tokens OR NEW.usd_micro < OLD.usd_micro
BEGIN
  SELECT RAISE(ABORT, 'the counters of an issue only grow');
END;

CREATE TABLE runs (
  id TEXT NOT NULL PRIMARY KEY,
  issue TEXT NOT NULL REFERENCES issues (id),
  stage TEXT NOT NULL,
  attempts INTEGER NOT NULL CHECK (attempts >= 0),
  phase TEXT NOT NULL,
  over_at TEXT,
  succeeded INTEGER CHECK (succeeded IN (0, 1))
) STRICT;

CREATE INDEX runs_by_issue ON runs (issue);

CREATE TABLE attempts (
  session TEXT NOT NULL PRIMARY KEY,
  run TEXT NOT NULL REFERENCES runs (id),
  issue TEXT NOT NULL REFERENCES issues (id),
  stage TEXT NOT NULL,
  agent TEXT NOT NULL,
  attempt INTEGER NOT NULL CHECK (attempt >= 0),
  started_at TEXT NOT NULL,
  ended_at TEXT,
  outcome TEXT,
  failure_class TEXT,
  proof TEXT,
  -- What was told about its end, whole, as JSON.
  report TEXT,
  CHECK ((ended_at IS NULL) = (outcome IS NULL) AND (ended_at IS NULL) = (report IS NULL))
) STRICT;

CREATE INDEX attempts_by_issue ON attempts (issue, started_at);
CREATE INDEX attempts_by_run ON attempts (run, started_at);

CREATE TRIGGER attempts_end_once BEFORE UPDATE ON attempts
WHEN OLD.ended_at IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'an attempt ends once');
END;

-- An attempt that was decided on and has not ended. The second key keeps two from being at one stage of an issue.
CREATE TABLE claims (
  session TEXT NOT NULL PRIMARY KEY REFERENCES attempts (session),
  issue TEXT NOT NULL,
  stage TEXT NOT NULL,
  UNIQUE (issue, stage)
) STRICT, WITHOUT ROWID;

-- The agents' conversations.
CREATE TABLE sessions (
  session TEXT NOT NULL PRIMARY KEY REFERENCES attempts (session),
  resumed_from TEXT,
  resume_failed INTEGER NOT NULL DEFAULT 0 CHECK (resume_failed IN (0, 1)),
  provider_session_id TEXT
) STRICT, WITHOUT ROWID;

-- What attempts were charged: the key makes it once.
CREATE TABLE usage (
  session TEXT NOT NULL PRIMARY KEY REFERENCES attempts (session),
  input_tokens INTEGER NOT NULL,
  cached_input_tokens INTEGER NOT NULL,
  cache_write_input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  usd_micro INTEGER NOT NULL CHECK (usd_micro >= 0),
  source TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What was spent on a day (UTC), in all.
CREATE TABLE days (
  day TEXT NOT NULL PRIMARY KEY,
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  usd_micro INTEGER NOT NULL CHECK (usd_micro >= 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE parked (
  run TEXT NOT NULL PRIMARY KEY REFERENCES runs (id),
  issue TEXT NOT NULL,
  stage TEXT NOT NULL,
  reason TEXT NOT NULL,
  since TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX parked_by_issue ON parked (issue);

CREATE TABLE decisions (
  id INTEGER NOT NULL PRIMARY KEY,
  at TEXT NOT NULL,
  issue TEXT,
  stage TEXT,
  run TEXT,
  session TEXT,
  kind TEXT NOT NULL,
  detail TEXT NOT NULL
) STRICT;

CREATE INDEX decisions_by_issue ON decisions (issue, id);
