"""The promises of importing from other programs, and the tests that show them."""

from __future__ import annotations

_IMPORTING = "tests/extensions/importers/test_importing.py::"
_SERVER_MEMORY = "tests/extensions/importers/test_server_memory.py::"
_TRACKERS = "tests/extensions/importers/test_trackers.py::"
_MARKDOWN = "tests/extensions/importers/test_markdown.py::"
_SQLITE = "tests/extensions/importers/test_sqlite.py::"
_STORY = "tests/journeys/test_import_story.py::"

IMPORTING_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("import-once", "a second import of the same source writes nothing",
     _IMPORTING + "test_a_second_import_writes_nothing"),
    ("import-dry-run", "a dry run shows what would be written, and writes nothing",
     _IMPORTING + "test_a_dry_run_tells_the_same_and_writes_nothing"),
    ("import-changes", "what changed in the source is updated, also when it changes back",
     _IMPORTING + "test_what_changed_in_the_source_changes_here_and_back_again"),
    ("import-origin", "source, author and time are attributes, never the commit's actor or timestamp",
     _IMPORTING + "test_whoever_wrote_it_there_is_no_author_here"),
    ("import-interrupted", "an interrupted import says how far it came and goes on from there",
     _IMPORTING + "test_an_interrupted_import_says_how_far_it_came_and_goes_on_from_there"),
    ("import-killed", "an import that is killed goes on at the next run, and everything is there once",
     _STORY + "test_an_import_that_is_killed_goes_on_and_everything_is_there_once"),
    ("import-others-stay", "what has the same id and another origin is left alone and told",
     _IMPORTING + "test_what_has_the_same_id_and_another_origin_is_left_alone"),
    ("import-deleted", "what was deleted here does not come back by an import",
     _IMPORTING + "test_what_was_deleted_here_does_not_come_back"),
    ("import-unmapped", "what cannot be mapped is listed line by line with a reason",
     _SERVER_MEMORY + "test_a_spoiled_line_is_told_and_the_others_are_imported"),
    ("import-names", "without a name the importers are listed, and a wrong one is put right",
     _IMPORTING + "test_a_name_alone_lists_them_and_a_wrong_one_is_put_right"),
    ("import-server-memory", "what server-memory writes today is imported whole",
     _SERVER_MEMORY + "test_what_server_memory_writes_today_is_imported_whole"),
    ("import-claude-code", "a memory of Claude Code is a node with its place in the index",
     "tests/extensions/importers/test_claude_code.py::test_a_memory_is_a_node_with_its_place_in_the_index"),
    ("import-basic-memory", "notes of basic-memory keep their observations and relations",
     _MARKDOWN + "test_what_basic_memory_wrote_has_its_observations_and_relations"),
    ("import-markdown", "a vault is notes and links, by path, title or name",
     _MARKDOWN + "test_a_vault_is_notes_and_links_by_path_title_or_name"),
    ("import-hostile", "a hostile front matter is told, and harms nothing",
     _MARKDOWN + "test_a_hostile_front_matter_is_told_and_the_note_kept"),
    ("import-outside", "what leads outside or round in circles is not followed",
     _MARKDOWN + "test_what_leads_outside_or_round_is_not_followed"),
    ("import-plan", "a plan stays one whatever the source says: cycles and dangling references are told",
     _TRACKERS + "test_a_plan_stays_one_whatever_the_source_says"),
    ("import-plan-changes", "what changes in a tracker changes here, and what agents did stays",
     _TRACKERS + "test_what_changes_there_changes_here_and_what_agents_did_stays"),
    ("import-beads", "issues of beads are tasks with parents, dependencies and evidence",
     _TRACKERS + "test_issues_of_beads_are_tasks_with_parents_dependencies_and_evidence"),
    ("import-task-master", "tasks of task-master are tasks with their parts",
     _TRACKERS + "test_tasks_of_task_master_are_tasks_with_their_parts"),
    ("import-backlog-md", "what Backlog.md writes today is imported whole",
     _TRACKERS + "test_what_backlog_md_writes_today_is_imported_whole"),
    ("import-swimlanes", "a graph of swimlanes is a project, also while it is written, and is left as it was",
     _SQLITE + "test_a_graph_of_swimlanes_is_a_project_also_while_it_is_written"),
    ("import-claude-mem", "what claude-mem kept is knowledge of files and nodes",
     _SQLITE + "test_what_claude_mem_kept_is_knowledge_of_files_and_nodes"),
    ("import-damaged", "a damaged database is told and never written",
     _SQLITE + "test_a_damaged_database_is_told_and_never_written"),
    ("import-laws", "no damage to the files of a source makes its importer fail",
     "tests/laws/test_importers.py::test_no_damage_makes_an_importer_fail"),
    ("import-others", "an importer of another package is one of them",
     "tests/extensions/importers/test_registry.py::test_an_importer_of_another_package_is_one_of_them"),
)  # fmt: skip
