-- Tasks: projects, features, tasks and their sections, as the tasks toolset tells them.
-- Filled by triggers: a node is never updated in place, it is deleted and inserted again.

CREATE TABLE projects (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  summary TEXT NOT NULL,
  description TEXT,
  tags TEXT NOT NULL DEFAULT '[]',
  version INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  modified_at TEXT NOT NULL
);

-- project_id is null for what belongs to no project. Who waits for whom is in edges: rel depends_on.
CREATE TABLE features (
  id TEXT PRIMARY KEY,
  project_id TEXT,
  name TEXT NOT NULL,
  summary TEXT NOT NULL,
  description TEXT,
  status TEXT NOT NULL,
  priority TEXT NOT NULL,
  blocked_reason TEXT,
  tags TEXT NOT NULL DEFAULT '[]',
  version INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  modified_at TEXT NOT NULL
);
CREATE INDEX idx_features_project ON features(project_id);
CREATE INDEX idx_features_status ON features(status);

-- parent_id is the node above; feature_id is the same where that is a feature.
CREATE TABLE tasks (
  id TEXT PRIMARY KEY,
  project_id TEXT,
  feature_id TEXT,
  parent_id TEXT,
  title TEXT NOT NULL,
  summary TEXT NOT NULL,
  description TEXT,
  status TEXT NOT NULL,
  priority TEXT NOT NULL,
  complexity INTEGER NOT NULL,
  blocked_reason TEXT,
  tags TEXT NOT NULL DEFAULT '[]',
  version INTEGER NOT NULL DEFAULT 1,
  last_modified_by TEXT NOT NULL,
  created_at TEXT NOT NULL,
  modified_at TEXT NOT NULL
);
CREATE INDEX idx_tasks_project ON tasks(project_id);
CREATE INDEX idx_tasks_feature ON tasks(feature_id);
CREATE INDEX idx_tasks_status ON tasks(status);
CREATE INDEX idx_tasks_parent ON tasks(parent_id);

CREATE TABLE sections (
  id TEXT PRIMARY KEY,
  entity_type TEXT NOT NULL,
  entity_id TEXT NOT NULL,
  title TEXT NOT NULL,
  usage_description TEXT NOT NULL,
  content TEXT NOT NULL,
  content_format TEXT NOT NULL,
  ordinal INTEGER NOT NULL,
  tags TEXT NOT NULL DEFAULT '',
  version INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  modified_at TEXT NOT NULL
);
CREATE INDEX idx_sections_entity ON sections(entity_type, entity_id, ordinal);

CREATE TRIGGER project_made AFTER INSERT ON nodes
WHEN NEW.type = 'work/project' AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO projects VALUES (
    NEW.id,
    CAST(COALESCE(json_extract(NEW.attrs, '$.name'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.summary'), '') AS TEXT),
    json_extract(NEW.attrs, '$.task.description'),
    CASE json_type(NEW.attrs, '$.task.tags') WHEN 'array'
      THEN json_extract(NEW.attrs, '$.task.tags') ELSE '[]' END,
    CASE json_type(NEW.attrs, '$.task.rev') WHEN 'integer' THEN json_extract(NEW.attrs, '$.task.rev') ELSE 1 END,
    NEW.created_at, NEW.updated_at
  );
END;

CREATE TRIGGER project_gone AFTER DELETE ON nodes
WHEN OLD.type = 'work/project'
BEGIN
  DELETE FROM projects WHERE id = OLD.id;
END;

CREATE TRIGGER feature_made AFTER INSERT ON nodes
WHEN NEW.type = 'work/node' AND json_valid(NEW.attrs)
  AND COALESCE(json_extract(NEW.attrs, '$.task.kind'), '') = 'feature'
BEGIN
  INSERT INTO features VALUES (
    NEW.id,
    NULLIF(json_extract(NEW.attrs, '$.project'), 'tasks/loose'),
    CAST(COALESCE(json_extract(NEW.attrs, '$.task.title'), json_extract(NEW.attrs, '$.summary'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.summary'), '') AS TEXT),
    json_extract(NEW.attrs, '$.task.description'),
    CASE
      WHEN json_type(NEW.attrs, '$.resolved') = 'true' THEN CASE
        WHEN json_extract(NEW.attrs, '$.task.status') IN ('CLOSED', 'WILL_NOT_IMPLEMENT')
          THEN json_extract(NEW.attrs, '$.task.status')
        WHEN json_extract(NEW.attrs, '$.evidence[#-1].type') = 'dropped' THEN 'WILL_NOT_IMPLEMENT'
        ELSE 'CLOSED' END
      WHEN json_extract(NEW.attrs, '$.task.status') IN ('ACTIVE', 'READY_TO_PROD')
        THEN json_extract(NEW.attrs, '$.task.status')
      ELSE 'NEW'
    END,
    CASE
      WHEN UPPER(json_extract(NEW.attrs, '$.properties.priority')) IN ('HIGH', 'MEDIUM', 'LOW')
        THEN UPPER(json_extract(NEW.attrs, '$.properties.priority'))
      WHEN CAST(json_extract(NEW.attrs, '$.properties.priority') AS REAL) > 0 THEN 'HIGH'
      WHEN CAST(json_extract(NEW.attrs, '$.properties.priority') AS REAL) < 0 THEN 'LOW'
      ELSE 'MEDIUM'
    END,
    json_extract(NEW.attrs, '$.task.blockedReason'),
    CASE json_type(NEW.attrs, '$.task.tags') WHEN 'array'
      THEN json_extract(NEW.attrs, '$.task.tags') ELSE '[]' END,
    CASE json_type(NEW.attrs, '$.rev') WHEN 'integer' THEN json_extract(NEW.attrs, '$.rev') ELSE 1 END,
    NEW.created_at, NEW.updated_at
  );
END;

-- Every node that is a task now, whatever it was before: not a feature, and not the root of a project's work.
CREATE VIEW task_nodes (
  id, project_id, feature_id, parent_id, title, summary, description, status, priority, complexity, blocked_reason,
  tags, version, last_modified_by, created_at, modified_at
) AS
  SELECT
    node.id AS id,
    NULLIF(json_extract(node.attrs, '$.project'), 'tasks/loose'),
    (SELECT id FROM features WHERE id = json_extract(node.attrs, '$.parent')),
    json_extract(node.attrs, '$.parent'),
    CAST(COALESCE(json_extract(node.attrs, '$.task.title'), json_extract(node.attrs, '$.summary'), '') AS TEXT),
    CAST(COALESCE(json_extract(node.attrs, '$.summary'), '') AS TEXT),
    json_extract(node.attrs, '$.task.description'),
    CASE
      WHEN json_type(node.attrs, '$.resolved') = 'true' THEN CASE
        WHEN json_extract(node.attrs, '$.task.status') IN ('CLOSED', 'WILL_NOT_IMPLEMENT')
          THEN json_extract(node.attrs, '$.task.status')
        WHEN json_extract(node.attrs, '$.evidence[#-1].type') = 'dropped' THEN 'WILL_NOT_IMPLEMENT'
        ELSE 'CLOSED' END
      WHEN json_extract(node.attrs, '$.task.status') IN ('ACTIVE', 'TO_BE_TESTED', 'READY_TO_PROD')
        THEN json_extract(node.attrs, '$.task.status')
      ELSE 'NEW'
    END,
    CASE
      WHEN UPPER(json_extract(node.attrs, '$.properties.priority')) IN ('HIGH', 'MEDIUM', 'LOW')
        THEN UPPER(json_extract(node.attrs, '$.properties.priority'))
      WHEN CAST(json_extract(node.attrs, '$.properties.priority') AS REAL) > 0 THEN 'HIGH'
      WHEN CAST(json_extract(node.attrs, '$.properties.priority') AS REAL) < 0 THEN 'LOW'
      ELSE 'MEDIUM'
    END,
    CASE WHEN json_type(node.attrs, '$.task.complexity') = 'integer'
      THEN json_extract(node.attrs, '$.task.complexity') ELSE 5 END,
    json_extract(node.attrs, '$.task.blockedReason'),
    CASE json_type(node.attrs, '$.task.tags') WHEN 'array'
      THEN json_extract(node.attrs, '$.task.tags') ELSE '[]' END,
    CASE json_type(node.attrs, '$.rev') WHEN 'integer' THEN json_extract(node.attrs, '$.rev') ELSE 1 END,
    node.updated_by, node.created_at, node.updated_at
  FROM nodes AS node
  WHERE node.type = 'work/node' AND json_valid(node.attrs)
    AND COALESCE(json_extract(node.attrs, '$.task.kind'), '') != 'feature'
    AND NOT EXISTS (SELECT 1 FROM work_projects WHERE work_projects.root = node.id);

CREATE TRIGGER task_made AFTER INSERT ON nodes
WHEN NEW.type = 'work/node'
BEGIN
  INSERT INTO tasks SELECT * FROM task_nodes WHERE id = NEW.id;
END;

CREATE TRIGGER task_gone AFTER DELETE ON nodes
WHEN OLD.type = 'work/node'
BEGIN
  DELETE FROM features WHERE id = OLD.id;
  DELETE FROM tasks WHERE id = OLD.id;
END;

-- What a task is told by may change after it: a redaction leaves neither a feature nor a root.
CREATE TRIGGER feature_of_tasks AFTER INSERT ON features
BEGIN
  UPDATE tasks SET feature_id = NEW.id WHERE parent_id = NEW.id;
END;

CREATE TRIGGER feature_of_no_task AFTER DELETE ON features
BEGIN
  UPDATE tasks SET feature_id = NULL WHERE parent_id = OLD.id;
END;

CREATE TRIGGER section_made AFTER INSERT ON nodes
WHEN NEW.type = 'tasks/section' AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO sections VALUES (
    NEW.id,
    CAST(COALESCE(json_extract(NEW.attrs, '$.entityType'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.entityId'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.title'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.usageDescription'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.content'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.contentFormat'), 'MARKDOWN') AS TEXT),
    CASE json_type(NEW.attrs, '$.ordinal') WHEN 'integer' THEN json_extract(NEW.attrs, '$.ordinal') ELSE 0 END,
    CAST(COALESCE(json_extract(NEW.attrs, '$.tags'), '') AS TEXT),
    CASE json_type(NEW.attrs, '$.version') WHEN 'integer' THEN json_extract(NEW.attrs, '$.version') ELSE 1 END,
    NEW.created_at, NEW.updated_at
  );
END;

CREATE TRIGGER section_gone AFTER DELETE ON nodes
WHEN OLD.type = 'tasks/section'
BEGIN
  DELETE FROM sections WHERE id = OLD.id;
END;
