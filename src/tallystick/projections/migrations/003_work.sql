-- Work: projects, their tree of work nodes, the evidence on them, and what depends on what.
-- Filled by triggers: a node is never updated in place, it is deleted and inserted again.

CREATE TABLE work_projects (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  root TEXT,
  summary TEXT NOT NULL,
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL,
  updated_at TEXT NOT NULL
);
CREATE INDEX work_projects_name ON work_projects (name);
CREATE INDEX work_projects_root ON work_projects (root);

-- dropped is 1 for what was given up, not done; held is 1 for what is blocked by something that is not a node. state is
-- JSON; priority is there when it is a number; claims are as they were made, stale ones included.
CREATE TABLE work_nodes (
  id TEXT PRIMARY KEY,
  project TEXT,
  parent TEXT,
  summary TEXT NOT NULL,
  resolved INTEGER NOT NULL,
  dropped INTEGER NOT NULL,
  held INTEGER NOT NULL,
  state TEXT,
  priority REAL,
  claimed_by TEXT,
  claimed_at TEXT,
  claimed_session TEXT,
  properties TEXT NOT NULL,
  context_links TEXT NOT NULL,
  rev INTEGER,
  created_at TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_lamport INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  updated_by TEXT NOT NULL
);
CREATE INDEX work_nodes_project ON work_nodes (project, resolved);
CREATE INDEX work_nodes_parent ON work_nodes (parent);
CREATE INDEX work_nodes_claimed_by ON work_nodes (claimed_by) WHERE claimed_by IS NOT NULL;

-- number counts from 0 in the order in which evidence was added to its node.
CREATE TABLE work_evidence (
  node TEXT NOT NULL REFERENCES work_nodes (id),
  number INTEGER NOT NULL,
  type TEXT,
  ref TEXT,
  agent TEXT,
  timestamp TEXT,
  PRIMARY KEY (node, number)
) WITHOUT ROWID;
CREATE INDEX work_evidence_type ON work_evidence (type);

-- source waits for target where type is depends_on.
CREATE VIEW work_edges AS
  SELECT edges.source, edges.rel AS type, edges.target, edges.created_at, edges.created_by
  FROM edges
  JOIN work_nodes AS sources ON sources.id = edges.source
  JOIN work_nodes AS targets ON targets.id = edges.target;

CREATE TRIGGER work_project_made AFTER INSERT ON nodes
WHEN NEW.type = 'work/project' AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO work_projects VALUES (
    NEW.id,
    CAST(COALESCE(json_extract(NEW.attrs, '$.name'), '') AS TEXT),
    json_extract(NEW.attrs, '$.root'),
    CAST(COALESCE(json_extract(NEW.attrs, '$.summary'), '') AS TEXT),
    NEW.created_at, NEW.created_by, NEW.updated_at
  );
END;

CREATE TRIGGER work_project_gone AFTER DELETE ON nodes
WHEN OLD.type = 'work/project'
BEGIN
  DELETE FROM work_projects WHERE id = OLD.id;
END;

-- The root of a project's work is not a task.
CREATE TRIGGER root_is_not_a_task AFTER INSERT ON work_projects
BEGIN
  DELETE FROM tasks WHERE id = NEW.root;
END;

CREATE TRIGGER root_is_a_task AFTER DELETE ON work_projects
BEGIN
  INSERT OR IGNORE INTO tasks SELECT * FROM task_nodes WHERE id = OLD.root;
END;

CREATE TRIGGER work_node_made AFTER INSERT ON nodes
WHEN NEW.type = 'work/node' AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO work_nodes VALUES (
    NEW.id,
    json_extract(NEW.attrs, '$.project'),
    json_extract(NEW.attrs, '$.parent'),
    CAST(COALESCE(json_extract(NEW.attrs, '$.summary'), '') AS TEXT),
    COALESCE(json_type(NEW.attrs, '$.resolved') = 'true', 0),
    COALESCE(json_type(NEW.attrs, '$.resolved') = 'true' AND CASE
      WHEN json_extract(NEW.attrs, '$.task.status') IN ('CLOSED', 'WILL_NOT_IMPLEMENT')
        THEN json_extract(NEW.attrs, '$.task.status') = 'WILL_NOT_IMPLEMENT'
      ELSE json_extract(NEW.attrs, '$.evidence[#-1].type') = 'dropped' END, 0),
    COALESCE(json_type(NEW.attrs, '$.task.noOp') = 'true', 0)
      OR COALESCE(json_extract(NEW.attrs, '$.task.status') = 'BLOCKED', 0),
    CASE
      WHEN json_type(NEW.attrs, '$.state') IN ('true', 'false') THEN json_type(NEW.attrs, '$.state')
      WHEN json_type(NEW.attrs, '$.state') != 'null' THEN json_quote(json_extract(NEW.attrs, '$.state'))
    END,
    CASE WHEN json_type(NEW.attrs, '$.properties.priority') IN ('integer', 'real')
      THEN json_extract(NEW.attrs, '$.properties.priority') END,
    json_extract(NEW.attrs, '$.properties._claimed_by'),
    json_extract(NEW.attrs, '$.properties._claimed_at'),
    json_extract(NEW.attrs, '$.properties._claimed_session'),
    CASE json_type(NEW.attrs, '$.properties') WHEN 'object'
      THEN json_extract(NEW.attrs, '$.properties') ELSE '{}' END,
    CASE json_type(NEW.attrs, '$.context_links') WHEN 'array'
      THEN json_extract(NEW.attrs, '$.context_links') ELSE '[]' END,
    json_extract(NEW.attrs, '$.rev'),
    NEW.created_at, NEW.created_by, NEW.created_lamport, NEW.updated_at, NEW.updated_by
  );
  INSERT INTO work_evidence
    SELECT NEW.id, entry.key,
      json_extract(entry.value, '$.type'), json_extract(entry.value, '$.ref'),
      json_extract(entry.value, '$.agent'), json_extract(entry.value, '$.timestamp')
    FROM json_each(NEW.attrs, '$.evidence') AS entry
    WHERE json_type(NEW.attrs, '$.evidence') = 'array' AND entry.type = 'object';
END;

CREATE TRIGGER work_node_gone AFTER DELETE ON nodes
WHEN OLD.type = 'work/node'
BEGIN
  DELETE FROM work_nodes WHERE id = OLD.id;
  DELETE FROM work_evidence WHERE node = OLD.id;
END;
