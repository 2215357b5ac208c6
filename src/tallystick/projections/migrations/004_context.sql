-- Context: which facts are about a file, what took the place of what, and what was recalled. Hooks ask for these.
-- Filled by triggers. Nodes of no vocabulary are rewritten in place, so their changes are looked at too; what has none
-- of the attributes costs a search for their names.

-- head is the directory that all matches lie in, with its slash; where nothing is wild it is the path itself, and it is
-- empty where matches could lie anywhere.
CREATE TABLE atom_paths (
  atom TEXT NOT NULL,
  number INTEGER NOT NULL,
  head TEXT NOT NULL,
  pattern TEXT NOT NULL,
  PRIMARY KEY (atom, number)
) WITHOUT ROWID;
CREATE INDEX atom_paths_head ON atom_paths (head);

CREATE TABLE cited_files (
  node TEXT NOT NULL,
  number INTEGER NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (node, number)
) WITHOUT ROWID;
CREATE INDEX cited_files_path ON cited_files (path);

CREATE TABLE successors (
  entity TEXT NOT NULL,
  by TEXT NOT NULL,
  PRIMARY KEY (entity, by)
) WITHOUT ROWID;
CREATE INDEX successors_by ON successors (by);

-- Without what was cleared of its recall; whether the recall itself was undone, its node says.
CREATE TABLE recalled (
  entity TEXT NOT NULL,
  page TEXT NOT NULL,
  recall TEXT NOT NULL,
  PRIMARY KEY (entity, page)
) WITHOUT ROWID;
CREATE INDEX recalled_page ON recalled (page);

CREATE TRIGGER atom_paths_made AFTER INSERT ON nodes
WHEN NEW.type = 'knowledge/atom' AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO atom_paths
    SELECT NEW.id, said.key,
      CASE
        WHEN said.value LIKE './%' OR said.value LIKE '%//%' OR said.value LIKE '%/./%' THEN ''
        WHEN said.literal = said.value THEN said.value
        ELSE rtrim(said.literal, replace(said.literal, '/', ''))
      END,
      said.value
    FROM (
      SELECT entry.key, entry.value, substr(entry.value, 1, MIN(
        COALESCE(NULLIF(instr(entry.value, '*'), 0), 9999), COALESCE(NULLIF(instr(entry.value, '?'), 0), 9999),
        COALESCE(NULLIF(instr(entry.value, '['), 0), 9999), COALESCE(NULLIF(instr(entry.value, '{'), 0), 9999),
        COALESCE(NULLIF(instr(entry.value, '\'), 0), 9999)) - 1) AS literal
      FROM json_each(NEW.attrs, '$.paths') AS entry
      WHERE json_type(NEW.attrs, '$.paths') = 'array' AND entry.type = 'text'
    ) AS said;
END;

CREATE TRIGGER atom_paths_gone AFTER DELETE ON nodes
WHEN OLD.type = 'knowledge/atom'
BEGIN
  DELETE FROM atom_paths WHERE atom = OLD.id;
END;

CREATE TRIGGER cited_files_made AFTER INSERT ON nodes
WHEN instr(NEW.attrs, '"cites"') AND json_valid(NEW.attrs)
BEGIN
  INSERT INTO cited_files
    SELECT NEW.id, entry.key, CASE entry.type WHEN 'text' THEN entry.value ELSE json_extract(entry.value, '$.path') END
    FROM json_each(NEW.attrs, '$.cites') AS entry
    WHERE json_type(NEW.attrs, '$.cites') = 'array'
      AND (entry.type = 'text' OR (entry.type = 'object' AND json_type(entry.value, '$.path') = 'text'));
END;

CREATE TRIGGER cited_files_changed AFTER UPDATE OF attrs ON nodes
WHEN instr(OLD.attrs, '"cites"') OR instr(NEW.attrs, '"cites"')
BEGIN
  DELETE FROM cited_files WHERE node = OLD.id;
  INSERT INTO cited_files
    SELECT NEW.id, entry.key, CASE entry.type WHEN 'text' THEN entry.value ELSE json_extract(entry.value, '$.path') END
    FROM json_each(NEW.attrs, '$.cites') AS entry
    WHERE json_type(NEW.attrs, '$.cites') = 'array'
      AND (entry.type = 'text' OR (entry.type = 'object' AND json_type(entry.value, '$.path') = 'text'));
END;

CREATE TRIGGER cited_files_gone AFTER DELETE ON nodes
WHEN instr(OLD.attrs, '"cites"')
BEGIN
  DELETE FROM cited_files WHERE node = OLD.id;
END;

CREATE TRIGGER successors_made AFTER INSERT ON nodes
WHEN instr(NEW.attrs, '"supersedes"') AND json_valid(NEW.attrs)
BEGIN
  INSERT OR IGNORE INTO successors
    SELECT entry.value, NEW.id FROM json_each(NEW.attrs, '$.supersedes') AS entry
    WHERE entry.type = 'text' AND entry.value != NEW.id;
END;

CREATE TRIGGER successors_changed AFTER UPDATE OF attrs ON nodes
WHEN instr(OLD.attrs, '"supersedes"') OR instr(NEW.attrs, '"supersedes"')
BEGIN
  DELETE FROM successors WHERE by = OLD.id;
  INSERT OR IGNORE INTO successors
    SELECT entry.value, NEW.id FROM json_each(NEW.attrs, '$.supersedes') AS entry
    WHERE entry.type = 'text' AND entry.value != NEW.id;
END;

CREATE TRIGGER successors_gone AFTER DELETE ON nodes
WHEN instr(OLD.attrs, '"supersedes"')
BEGIN
  DELETE FROM successors WHERE by = OLD.id;
END;

CREATE TRIGGER recalled_made AFTER INSERT ON nodes
WHEN NEW.type = 'trust/page' AND json_valid(NEW.attrs)
BEGIN
  INSERT OR IGNORE INTO recalled
    SELECT entry.value, NEW.id, CAST(COALESCE(json_extract(NEW.attrs, '$.recall'), '') AS TEXT)
    FROM json_each(NEW.attrs, '$.entities') AS entry
    WHERE json_type(NEW.attrs, '$.entities') = 'array' AND entry.type = 'text'
      AND entry.value NOT IN (
        SELECT cleared.value FROM json_each(NEW.attrs, '$.cleared') AS cleared
        WHERE json_type(NEW.attrs, '$.cleared') = 'array' AND cleared.type = 'text');
END;

CREATE TRIGGER recalled_gone AFTER DELETE ON nodes
WHEN OLD.type = 'trust/page'
BEGIN
  DELETE FROM recalled WHERE page = OLD.id;
END;
