-- Made when a new mirror has come to the head of the log for the first time: sorted at once, and not row by row.
-- No trigger looks anything up by them.

CREATE INDEX nodes_type ON nodes (type, created_lamport);
CREATE INDEX nodes_created_by ON nodes (created_by, created_lamport);
CREATE INDEX edges_source ON edges (source, rel, target);
CREATE INDEX edges_target ON edges (target, rel, source);
CREATE INDEX commits_entity ON commits (entity, lamport);
CREATE INDEX commits_actor ON commits (actor, lamport);
CREATE INDEX commits_run_id ON commits (run_id) WHERE run_id IS NOT NULL;
