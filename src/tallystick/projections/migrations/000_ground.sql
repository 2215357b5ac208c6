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
  commit_id TEXT NOT NULL,
  redacted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX nodes_type ON nodes (type, created_lamport);
CREATE INDEX nodes_lamport ON nodes (lamport);
CREATE INDEX nodes_created_by ON nodes (created_by, created_lamport);

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
  commit_id TEXT NOT NULL,
  redacted INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (id, own_id)
);
CREATE INDEX edges_source ON edges (source, rel, target);
CREATE INDEX edges_target ON edges (target, rel, source);
CREATE INDEX edges_rel ON edges (rel);

-- Every commit, without what it said: that is in the log.
CREATE TABLE commits (
  lamport INTEGER PRIMARY KEY,
  commit_id TEXT NOT NULL,
  timestamp TEXT NOT NULL,
  actor TEXT NOT NULL,
  operation TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('node', 'edge')),
  entity TEXT NOT NULL,
  tool TEXT NOT NULL,
  reason TEXT,
  run_id TEXT,
  job_id TEXT,
  dataset_id TEXT,
  policy_version TEXT NOT NULL
);
CREATE INDEX commits_entity ON commits (entity, lamport);
CREATE INDEX commits_timestamp ON commits (timestamp);
CREATE INDEX commits_actor ON commits (actor, lamport);
CREATE INDEX commits_commit_id ON commits (commit_id);
CREATE INDEX commits_run_id ON commits (run_id) WHERE run_id IS NOT NULL;
