-- The ground: the graph as it is now, and the commits that made it. Written by the projection only.

CREATE TABLE migrations (
  name TEXT PRIMARY KEY,
  sha256 TEXT NOT NULL
) WITHOUT ROWID;

-- position: lamport of the last commit applied; timestamp: its time; head: for the projection itself.
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- Living nodes. What was redacted says [REDACTED] in attrs and content, and redacted is 1.
CREATE TABLE nodes (
  id TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  attrs TEXT NOT NULL,
  content TEXT,
  content_format TEXT,
  content_encoding TEXT,
  content_blob TEXT,
  content_bytes INTEGER,
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_lamport INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  updated_by TEXT NOT NULL,
  lamport INTEGER NOT NULL,
  commit_hash BLOB NOT NULL,
  redacted INTEGER NOT NULL DEFAULT 0,
  commit_id TEXT GENERATED ALWAYS AS (lower(hex(commit_hash))) VIRTUAL
);

-- Living edges. An edge without an id of its own is called source|rel|target, and own_id is 0. Redacted like nodes.
CREATE TABLE edges (
  id TEXT NOT NULL,
  own_id INTEGER NOT NULL,
  source TEXT NOT NULL REFERENCES nodes (id),
  rel TEXT NOT NULL,
  target TEXT NOT NULL REFERENCES nodes (id),
  attrs TEXT NOT NULL,
  content TEXT,
  content_format TEXT,
  content_encoding TEXT,
  content_blob TEXT,
  content_bytes INTEGER,
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_lamport INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  updated_by TEXT NOT NULL,
  lamport INTEGER NOT NULL,
  commit_hash BLOB NOT NULL,
  redacted INTEGER NOT NULL DEFAULT 0,
  commit_id TEXT GENERATED ALWAYS AS (lower(hex(commit_hash))) VIRTUAL,
  PRIMARY KEY (id, own_id)
);

-- Every commit, without what it said: that is in the log.
CREATE TABLE commits (
  lamport INTEGER PRIMARY KEY,
  commit_hash BLOB NOT NULL,
  timestamp TEXT NOT NULL,
  actor TEXT NOT NULL,
  operation TEXT NOT NULL,
  entity TEXT NOT NULL,
  tool TEXT NOT NULL,
  reason TEXT,
  run_id TEXT,
  job_id TEXT,
  dataset_id TEXT,
  policy_version TEXT NOT NULL,
  commit_id TEXT GENERATED ALWAYS AS (lower(hex(commit_hash))) VIRTUAL,
  kind TEXT GENERATED ALWAYS AS (lower(substr(operation, 8))) VIRTUAL
);
