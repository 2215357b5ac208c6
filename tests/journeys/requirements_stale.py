"""The promises of reading X24: whether a fact still holds."""

from __future__ import annotations

_RULE = "tests/state/test_staleness.py::"
_MEMORY = "tests/toolsets/test_memory_stale.py::"
_SEARCH = "tests/toolsets/test_memory_stale_search.py::"
_FILES = "tests/toolsets/test_cited_files.py::"
_WORK = "tests/toolsets/test_stale_work.py::"
_TYPED = "tests/extensions/ontology/test_stale.py::"
_LIST = "tests/operations/test_stale.py::"
_JOURNEY = "tests/journeys/test_stale_stories.py::"

STALE_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("X24, time", "a fact past its stale_after is stale, unless it was verified later",
     _RULE + "test_a_fact_is_stale_past_its_time_unless_it_was_verified_later"),
    ("X24, told", "whoever reads a stale fact is told why and since when",
     _MEMORY + "test_a_fact_past_its_time_is_marked_in_every_answer"),
    ("X24, verified", "who verified a fact, and when, is filled by the server",
     _MEMORY + "test_a_verification_is_filled_in_and_holds_until_another_time_is_set"),
    ("X24, verified, forged", "nobody says who verified a fact or when",
     _MEMORY + "test_nobody_says_who_verified_a_fact_or_when"),
    ("X24, values", "what is no value of a reserved attribute is refused, in nodes and edges",
     _MEMORY + "test_a_value_that_is_none_is_refused_in_nodes_and_edges"),
    ("X24, superseded", "a superseded fact leads to its successor",
     _MEMORY + "test_a_superseded_fact_leads_to_the_end_of_the_chain"),
    ("X24, cycles", "facts that supersede each other both say so",
     _MEMORY + "test_facts_that_supersede_each_other_both_say_so"),
    ("X24, redacted", "a recalled successor supersedes nothing, a redacted one still does",
     _MEMORY + "test_a_recalled_successor_supersedes_nothing_and_a_redacted_one_still_does"),
    ("X24, as_of", "the past is judged by its own documents and time",
     _MEMORY + "test_the_past_is_judged_by_its_own_documents_and_time"),
    ("X24, hidden", "a successor that may not be read shows nowhere",
     _MEMORY + "test_a_successor_that_may_not_be_read_shows_nowhere"),
    ("X24, files", "a cited file is pinned by its hash, and the fact is stale once it changes",
     _MEMORY + "test_a_cited_file_is_pinned_and_the_fact_is_stale_once_it_changes"),
    ("X24, one call", "one call refreshes a fact with all it rests on",
     _MEMORY + "test_one_call_refreshes_a_fact_with_all_it_rests_on"),
    ("X24, files outside", "links, pipes, ignored and foreign files are not pinned",
     _FILES + "test_what_git_would_not_know_is_not_pinned"),
    ("X24, files, cost", "git is not asked again while nothing moves",
     _FILES + "test_git_is_not_asked_again_while_nothing_moves"),
    ("X24, ranking", "of equal scores the stale come last, and lead to their successor",
     _SEARCH + "test_of_equal_scores_the_stale_come_last_and_lead_to_their_successor"),
    ("X24, memory.search", "only what is stale is listed when that is asked for",
     _SEARCH + "test_only_what_is_stale_is_listed_when_that_is_asked_for"),
    ("X24, work nodes", "a work node may run out, and keeps that through its own tools",
     _WORK + "test_a_work_node_may_run_out_and_keeps_that_through_its_own_tools"),
    ("X24, knowledge and tasks", "knowledge and tasks may run out",
     _WORK + "test_knowledge_and_tasks_may_run_out"),
    ("X24, exactly four", "nothing else of another vocabulary is patched",
     _WORK + "test_nothing_else_of_another_vocabulary_is_patched"),
    ("X24, typed memories", "every way to read a typed memory says that it is stale",
     _TYPED + "test_a_typed_memory_may_run_out_and_every_way_to_read_it_says_so"),
    ("X24, work", "a stale fact gets one work node, in its project or in maintenance",
     _WORK + "test_a_stale_fact_that_is_read_gets_one_node_in_a_project_for_such_things"),
    ("X24, work, project", "the work belongs to the project of the fact",
     _WORK + "test_it_belongs_to_the_project_of_the_fact"),
    ("X24, work, processes", "processes that notice at once make one node",
     _LIST + "test_processes_that_notice_at_once_make_one_node"),
    ("X24, work, verified", "a fact that is verified resolves its node",
     _WORK + "test_a_fact_that_is_verified_resolves_its_node"),
    ("X24, work, hidden", "who may not read a fact does not read the work made of it",
     _WORK + "test_who_may_not_read_a_fact_does_not_read_the_work_that_was_made_of_it"),
    ("tallystick stale", "everything stale is listed with why and since when",
     _LIST + "test_everything_stale_is_listed_with_why_and_since"),
    ("tallystick stale, contradictions", "two authors who differ within a short time are listed, not judged",
     _LIST + "test_two_authors_who_differ_within_a_short_time_are_listed_until_somebody_verifies"),
    ("tallystick stale, gone", "a cited file that is gone, and facts that supersede each other, are listed",
     _LIST + "test_a_file_that_is_gone_and_facts_that_supersede_each_other_are_listed"),
    ("X24, journey", "a fact is told to be stale, becomes work, and is refreshed by one call",
     _JOURNEY + "test_a_fact_is_told_to_be_stale_becomes_work_and_is_refreshed_by_one_call"),
)  # fmt: skip
