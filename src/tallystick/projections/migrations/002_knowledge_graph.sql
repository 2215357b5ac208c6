-- Knowledge: molecules, their atoms, and the history of both. The tables are the specification's own.
-- Filled by triggers: a node is never updated in place, it is deleted and inserted again.

CREATE TABLE graph_molecules (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects(id),
  name TEXT NOT NULL,
  knowledge TEXT NOT NULL DEFAULT '',
  related_molecules TEXT NOT NULL DEFAULT '[]',
  created_by_task_id TEXT NOT NULL,
  last_task_id TEXT NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);

CREATE TABLE graph_atoms (
  id TEXT PRIMARY KEY,
  project_id TEXT NOT NULL REFERENCES projects(id),
  molecule_id TEXT REFERENCES graph_molecules(id),
  name TEXT NOT NULL,
  paths TEXT NOT NULL DEFAULT '[]',
  knowledge TEXT NOT NULL DEFAULT '',
  related_atoms TEXT NOT NULL DEFAULT '[]',
  created_by_task_id TEXT NOT NULL,
  last_task_id TEXT NOT NULL,
  version INTEGER NOT NULL DEFAULT 1,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL
);

CREATE TABLE graph_changelog (
  id TEXT PRIMARY KEY,
  parent_type TEXT NOT NULL CHECK(parent_type IN ('atom', 'molecule')),
  parent_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  summary TEXT NOT NULL,
  created_at TEXT NOT NULL
);

CREATE INDEX idx_graph_molecules_project ON graph_molecules(project_id);
CREATE INDEX idx_graph_atoms_project ON graph_atoms(project_id);
CREATE INDEX idx_graph_atoms_molecule ON graph_atoms(molecule_id);
CREATE INDEX idx_graph_changelog_parent ON graph_changelog(parent_type, parent_id);
CREATE INDEX idx_graph_changelog_task ON graph_changelog(task_id);

CREATE TRIGGER graph_molecule_made AFTER INSERT ON nodes
WHEN NEW.type = 'knowledge/molecule' AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO graph_molecules VALUES (
    NEW.id,
    CAST(COALESCE(json_extract(NEW.attrs, '$.projectId'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.name'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.knowledge'), '') AS TEXT),
    CASE json_type(NEW.attrs, '$.relatedMolecules') WHEN 'array'
      THEN json_extract(NEW.attrs, '$.relatedMolecules') ELSE '[]' END,
    CAST(COALESCE(json_extract(NEW.attrs, '$.createdByTaskId'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.lastTaskId'), '') AS TEXT),
    CASE json_type(NEW.attrs, '$.version') WHEN 'integer' THEN json_extract(NEW.attrs, '$.version') ELSE 1 END,
    CAST(COALESCE(json_extract(NEW.attrs, '$.createdAt'), NEW.created_at) AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.updatedAt'), NEW.updated_at) AS TEXT)
  );
END;

CREATE TRIGGER graph_molecule_gone AFTER DELETE ON nodes
WHEN OLD.type = 'knowledge/molecule'
BEGIN
  DELETE FROM graph_molecules WHERE id = OLD.id;
END;

CREATE TRIGGER graph_atom_made AFTER INSERT ON nodes
WHEN NEW.type = 'knowledge/atom' AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO graph_atoms VALUES (
    NEW.id,
    CAST(COALESCE(json_extract(NEW.attrs, '$.projectId'), '') AS TEXT),
    CASE json_type(NEW.attrs, '$.moleculeId') WHEN 'text' THEN json_extract(NEW.attrs, '$.moleculeId') END,
    CAST(COALESCE(json_extract(NEW.attrs, '$.name'), '') AS TEXT),
    CASE json_type(NEW.attrs, '$.paths') WHEN 'array' THEN json_extract(NEW.attrs, '$.paths') ELSE '[]' END,
    CAST(COALESCE(json_extract(NEW.attrs, '$.knowledge'), '') AS TEXT),
    CASE json_type(NEW.attrs, '$.relatedAtoms') WHEN 'array'
      THEN json_extract(NEW.attrs, '$.relatedAtoms') ELSE '[]' END,
    CAST(COALESCE(json_extract(NEW.attrs, '$.createdByTaskId'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.lastTaskId'), '') AS TEXT),
    CASE json_type(NEW.attrs, '$.version') WHEN 'integer' THEN json_extract(NEW.attrs, '$.version') ELSE 1 END,
    CAST(COALESCE(json_extract(NEW.attrs, '$.createdAt'), NEW.created_at) AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.updatedAt'), NEW.updated_at) AS TEXT)
  );
END;

CREATE TRIGGER graph_atom_gone AFTER DELETE ON nodes
WHEN OLD.type = 'knowledge/atom'
BEGIN
  DELETE FROM graph_atoms WHERE id = OLD.id;
END;

CREATE TRIGGER graph_changelog_made AFTER INSERT ON nodes
WHEN NEW.type = 'knowledge/changelog' AND json_valid(NEW.attrs)
  AND COALESCE(json_extract(NEW.attrs, '$.parentType'), '') IN ('atom', 'molecule')
BEGIN
  INSERT INTO graph_changelog VALUES (
    NEW.id,
    json_extract(NEW.attrs, '$.parentType'),
    CAST(COALESCE(json_extract(NEW.attrs, '$.parentId'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.taskId'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.summary'), '') AS TEXT),
    CAST(COALESCE(json_extract(NEW.attrs, '$.createdAt'), NEW.created_at) AS TEXT)
  );
END;

CREATE TRIGGER graph_changelog_gone AFTER DELETE ON nodes
WHEN OLD.type = 'knowledge/changelog'
BEGIN
  DELETE FROM graph_changelog WHERE id = OLD.id;
END;
