"""The promises of why: from a line of code to what was known when it was written."""

from __future__ import annotations

_CHAIN = "tests/operations/test_why.py::"
_GIT = "tests/operations/test_git_history.py::"
_AUDIT = "tests/test_audit_reads.py::"
_JOURNEY = "tests/journeys/test_why_story.py::"

WHY_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("why, line", "a line leads to its commit, task, evidence, and what was read for it with its authors",
     _CHAIN + "test_a_line_leads_to_its_task_evidence_and_what_was_read_with_its_authors"),
    ("why, agents", "through real clients a line leads back to what its author had read",
     _JOURNEY + "test_a_line_leads_back_to_what_its_author_had_read"),
    ("why, file", "a file leads to its knowledge, and to tasks by commit and by name",
     _CHAIN + "test_a_file_leads_to_its_knowledge_and_to_tasks_by_commit_and_by_name"),
    ("why, evidence", "only evidence of git that names the commit, or seven digits of it, leads to a task",
     _CHAIN + "test_only_evidence_of_git_that_names_the_commit_leads_to_a_task"),
    ("why, receipt", "a task that is done leads to its receipt, and whether that verifies",
     _CHAIN + "test_a_task_that_is_done_leads_to_its_receipt_and_whether_that_verifies"),
    ("why, gaps", "links that are not known are said to be",
     _CHAIN + "test_links_that_are_not_known_are_said_to_be"),
    ("why, policy", "what may not be read is neither shown nor counted",
     _CHAIN + "test_what_may_not_be_read_is_neither_shown_nor_counted"),
    ("why, off", "the tool is off unless its toolset is chosen",
     _CHAIN + "test_the_tool_is_off_unless_its_toolset_is_chosen"),
    ("why, audit", "only what the actor was allowed to read meanwhile is found",
     _AUDIT + "test_only_what_the_actor_was_allowed_to_read_meanwhile_is_found"),
    ("why, audit, gaps", "what the audit log does not know is said",
     _AUDIT + "test_what_the_log_does_not_know_is_said"),
    ("why, git, safe", "nothing that the repository configures is run",
     _GIT + "test_nothing_that_the_repository_configures_is_run"),
    ("why, git, names", "names that look like options, patterns or revisions are files",
     _GIT + "test_names_that_look_like_options_patterns_or_revisions_are_files"),
    ("why, git, outside", "what lies outside the repository or is not there is refused",
     _GIT + "test_what_lies_outside_or_is_not_there_is_refused"),
    ("why, git, bounded", "time and output of git are bounded",
     _GIT + "test_time_and_output_are_bounded"),
    ("why, page", "a task's page leads to its evidence and to what was read for it",
     "tests/server/web/test_entity.py::test_a_task_leads_to_its_evidence_and_to_what_was_read_for_it"),
)  # fmt: skip
