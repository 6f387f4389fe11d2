-- A daemon loads the issues in use, and the others only when they come back. What it needs of all others is a sum: from here on,
-- machines have `life.estimated` and days the estimated part of their charges. A Vik of schema 3 would drop the first.

ALTER TABLE issues ADD COLUMN in_use INTEGER NOT NULL DEFAULT 1 CHECK (in_use IN (0, 1));

UPDATE issues SET in_use = 0
WHERE paused = 0
  AND json_array_length(machine, '$.runs') = 0
  AND COALESCE(machine ->> '$.lost_in_a_row', 0) = 0
  AND COALESCE(machine -> '$.internal_in_a_row', '{}') = '{}';

CREATE INDEX issues_in_use ON issues (id) WHERE in_use = 1;

ALTER TABLE days ADD COLUMN estimated_tokens INTEGER NOT NULL DEFAULT 0 CHECK (estimated_tokens >= 0);
ALTER TABLE days ADD COLUMN estimated_usd_micro INTEGER NOT NULL DEFAULT 0 CHECK (estimated_usd_micro >= 0);

CREATE TEMP TABLE estimates AS
SELECT issue, substr(ended_at, 1, 10) AS day,
  CASE WHEN COALESCE(report ->> '$.spend.tokens', 0) = 0 THEN tokens ELSE 0 END AS tokens,
  CASE WHEN COALESCE(report ->> '$.spend.usd', 0) = 0 THEN usd_micro ELSE 0 END AS usd_micro
FROM usage JOIN attempts USING (session)
WHERE source = 'estimate' AND ended_at IS NOT NULL;

UPDATE days SET estimated_tokens = sums.tokens, estimated_usd_micro = sums.usd_micro
FROM (SELECT day, sum(tokens) AS tokens, sum(usd_micro) AS usd_micro FROM estimates GROUP BY day) AS sums
WHERE days.day = sums.day;

UPDATE issues SET machine = json_set(machine, '$.life.estimated', json_object('tokens', sums.tokens, 'usd', sums.usd_micro))
FROM (SELECT issue, sum(tokens) AS tokens, sum(usd_micro) AS usd_micro FROM estimates GROUP BY issue) AS sums
WHERE issues.id = sums.issue;

DROP TABLE estimates;

CREATE INDEX attempts_by_start ON attempts (started_at, session);
