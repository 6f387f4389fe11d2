-- From here on, a copy of a shared log has the books of the runs whose outputs a hub carries out: the last note of each output. A
-- Vik of schema 7 would drop the notes and carry outputs out again, so it must refuse the ledger, and the entries of the log too.

CREATE TABLE outputs (
  -- In the order of the first notes.
  id INTEGER NOT NULL PRIMARY KEY,
  run TEXT NOT NULL,
  key TEXT NOT NULL,
  -- The attempt that requested it last.
  session TEXT NOT NULL,
  at TEXT NOT NULL,
  kind TEXT NOT NULL,
  summary TEXT NOT NULL,
  progress TEXT NOT NULL,
  is_keyed INTEGER NOT NULL CHECK (is_keyed IN (0, 1)),
  detail TEXT,
  UNIQUE (run, key)
) STRICT;
