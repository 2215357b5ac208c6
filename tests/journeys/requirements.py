"""Each promise of the specs, in our own words, and the test that shows it.

`tests/test_requirements.py` fails when a test named here does not exist. A promise is listed
under the requirement, scenario, test case or reading that makes it.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.journeys.requirements_compliance import COMPLIANCE_REQUIREMENTS
from tests.journeys.requirements_gate import GATE_REQUIREMENTS
from tests.journeys.requirements_knowledge import KNOWLEDGE_REQUIREMENTS
from tests.journeys.requirements_ontology import ONTOLOGY_REQUIREMENTS
from tests.journeys.requirements_tasks import TASKS_REQUIREMENTS
from tests.journeys.requirements_telemetry import TELEMETRY_REQUIREMENTS
from tests.journeys.requirements_work import WORK_REQUIREMENTS


class Requirement(NamedTuple):
    id: str
    promise: str
    test: str


_WRITE = "tests/toolsets/test_memory_write.py::"
_READ = "tests/toolsets/test_memory_read.py::"
_SEARCH = "tests/toolsets/test_memory_search.py::"
_LINEAGE = "tests/toolsets/test_memory_lineage.py::"
_TOOLSET = "tests/toolsets/test_memory_toolset.py::"
_ANYTHING = "tests/toolsets/test_memory_anything.py::"
_STORIES = "tests/journeys/test_memory_stories.py::"

REQUIREMENTS: list[Requirement] = [
    Requirement(*row)
    for row in (
        # -- what a client pays for
        ("X11, tokens", "the tools that are on by default are shown in at most 3,400 tokens",
         "tests/test_start.py::test_the_tools_that_are_on_by_default_are_shown_in_few_tokens"),
        ("FR-001, complete", "whatever fits a tool's schema has a form that the tool takes",
         "tests/server/test_listed_schemas.py::test_whatever_fits_a_tools_schema_has_a_form_that_the_tool_takes"),
        ("FR-001, enforced", "whatever breaks a rule of a tool's schema is refused",
         "tests/server/test_listed_schemas.py::test_whatever_breaks_a_rule_of_a_tools_schema_is_refused"),
        ("FR-001, shown", "agents are shown the same rules, but for what the instructions tell once",
         "tests/server/test_listed_schemas.py::test_agents_are_shown_the_same_rules_but_for_what_is_told_once"),
        # -- refused before it is read
        ("L23, id", "a refusal carries the request's own id, wherever one can be found",
         "tests/server/test_request_id.py::test_the_id_is_the_requests_own_or_none"),
        ("L23, id, stdio", "a message that is refused for its size, depth, keys or numbers is answered under its id",
         "tests/server/test_stdio.py::test_every_malformed_line_has_its_code_and_the_next_request_is_answered"),
        ("L23, id, HTTP", "over HTTP too",
         "tests/server/test_guards.py::test_a_refusal_names_the_request"),
        ("L23, id, for real", "a real client hears of every call that was refused unread",
         "tests/journeys/test_ontology_stories.py::test_a_call_that_is_refused_unread_is_answered"),
        # -- scenarios
        ("scenario 1, for real", "a plan outlives the process that wrote it and is explained to another agent",
         _STORIES + "test_a_plan_is_remembered_recalled_explained_and_survives_a_restart"),
        ("scenario 4, for real", "a walk through a real client finds the paths of the acceptance criterion",
         _STORIES + "test_coauthors_are_found_by_walking_two_edges"),
        ("scenario 1", "one agent writes a plan, another reads it with its provenance",
         _WRITE + "test_a_planner_writes_a_plan_and_a_searcher_reads_it_with_its_provenance"),
        ("scenario 1, retry", "a repeated write with its nonce is answered with the first commit",
         _WRITE + "test_a_retry_with_its_nonce_is_answered_with_the_first_commit_and_writes_nothing"),
        ("scenario 1, stale read", "what is not written yet is null, and a reader can wait for a write",
         _READ + "test_a_read_that_must_see_a_later_write_says_when_it_cannot"),
        ("scenario 2", "a deletion that policy forbids changes nothing and is answered with the decision",
         _WRITE + "test_the_policy_is_asked_for_the_right_action_on_the_right_entity"),
        ("scenario 3", "the history of an entity tells actor, operation, run and changes",
         _LINEAGE + "test_an_officer_sees_who_made_an_entity_and_who_changed_it_and_in_which_run"),
        ("scenario 3, large history", "a long history comes in pages",
         _LINEAGE + "test_a_long_history_comes_in_pages"),
        ("scenario 3, CSV", "a history can be had as CSV",
         _LINEAGE + "test_csv_has_fixed_columns_and_a_row_for_each_commit"),
        ("scenario 3, redaction", "redacted values are placeholders, the history keeps its shape",
         _LINEAGE + "test_redacted_values_are_placeholders_in_the_history"),
        ("scenario 4", "a walk inside a time window returns paths with their edges",
         _SEARCH + "test_the_window_of_a_walk_is_on_its_edges"),
        ("scenario 4, heavy walk", "a fan-out past a hundred is cut and marked",
         _SEARCH + "test_a_fan_out_past_a_hundred_is_cut_and_said"),
        # -- FR-001
        ("FR-001, discovery", "the four tools have complete, closed schemas",
         _TOOLSET + "test_schemas_are_valid_closed_and_plain"),
        ("FR-001, outputs", "what tools answer fits the schemas they show",
         _TOOLSET + "test_calls_and_answers_fit_the_schemas"),
        ("TC-001-01", "memory.write, .read, .search and .lineage are listed",
         _TOOLSET + "test_the_four_tools_are_offered_and_their_faults_are_protocol_errors"),
        ("TC-001-02", "a write without its node is told which field is required",
         _WRITE + "test_every_fault_of_a_call_is_named"),
        ("TC-001-02, for real", "a client is told -32602 and the field, and the server goes on",
         _STORIES + "test_a_mistaken_call_is_told_every_fault_and_the_server_goes_on"),
        # -- FR-002
        ("TC-002-01", "equal payloads have one hash, whatever the order of their keys",
         _WRITE + "test_equal_payloads_have_one_content_hash_that_anyone_can_compute"),
        ("TC-002-02", "a write after an observed foreign commit has a later lamport",
         _WRITE + "test_a_write_after_a_foreign_commit_was_observed_comes_later"),
        ("TC-002-03", "two equal writes with one nonce make one commit",
         _WRITE + "test_racing_retries_become_one_commit"),
        ("FR-002, chain", "each commit names the one before",
         _WRITE + "test_each_commit_names_the_one_before"),
        # -- FR-004
        ("TC-004-01", "an entity is found by id from the primary index",
         _SEARCH + "test_an_entity_is_found_by_its_id_with_its_provenance"),
        ("FR-004, walk", "two hops find the co-authors, by exactly these paths",
         _SEARCH + "test_a_walk_of_two_hops_finds_the_coauthors"),
        ("TC-004-02", "a walk follows the named relations and counts its edges",
         _SEARCH + "test_a_walk_follows_the_named_relations_and_counts_its_edges"),
        ("TC-004-03", "results come in pages with total and next offset",
         _SEARCH + "test_pages_follow_each_other_without_gap_or_overlap"),
        ("FR-004, attributes", "filters by equality, range, membership, pattern and presence",
         _SEARCH + "test_attributes_are_compared_as_asked"),
        ("FR-004, time window", "only entities written inside the window are returned",
         _SEARCH + "test_a_window_is_on_the_last_commit_from_since_up_to_until"),
        ("FR-004, heavy walk", "hops past the limit are cut and marked while no graph engine is configured",
         _SEARCH + "test_hops_past_the_limit_are_cut_and_said"),
        # -- FR-005
        ("TC-005-01", "five commits are five records with all their fields",
         _LINEAGE + "test_five_commits_are_five_records_with_all_their_fields"),
        ("TC-005-03", "a summary is kept, not counted",
         _LINEAGE + "test_a_summary_counts_without_listing"),
        ("FR-005, pagination", "a page of history tells the total and where to go on",
         _LINEAGE + "test_a_long_history_comes_in_pages"),
        # -- security
        ("5.3, API3", "only the fields asked for are returned",
         _READ + "test_only_the_fields_asked_for_are_returned"),
        ("5.3, API6", "unknown and server-set fields are refused",
         _WRITE + "test_every_fault_of_a_call_is_named"),
        ("6.1, erasure", "redaction leaves no byte of the named fields in the log",
         _WRITE + "test_redaction_leaves_no_byte_of_the_named_fields_in_the_log"),
        ("6.1, erasure for real", "what is redacted is in no answer and in no file",
         _STORIES + "test_what_is_redacted_is_gone_from_answers_history_and_disk"),
        ("5.3, fuzzing", "whatever is sent is answered or refused on purpose, and the log still verifies",
         _ANYTHING + "test_whatever_is_said_is_answered_or_refused_on_purpose"),
        ("5.3, fuzzing of every tool", "what a schema allows is answered as promised or refused, and the base is sound",
         "tests/fuzz/test_tools.py::test_whatever_its_schema_allows_is_answered_or_refused_on_purpose"),
        ("5.3, fuzzing of stdio", "between mangled lines every proper request is answered under its id",
         "tests/fuzz/test_stdio_bytes.py::"
         "test_whatever_comes_in_between_proper_requests_are_answered_under_their_ids"),
        ("5.3, fuzzing of HTTP", "no bytes on a socket bring a server error or keep the next client from being served",
         "tests/fuzz/test_http_bytes.py::test_whatever_is_sent_the_server_goes_on"),
        ("5.3, fuzzing of REST", "the server keeps to its own OpenAPI document",
         "tests/fuzz/test_rest.py::test_the_server_keeps_to_its_own_document"),
        # -- readings
        ("L2", "a nonce used for something else is refused",
         _WRITE + "test_a_nonce_used_for_something_else_is_refused"),
        ("L4, read", "what the disk altered is served to nobody, by a running server or one begun from a snapshot",
         "tests/journeys/test_damage_story.py::test_what_the_disk_altered_is_served_to_nobody_and_all_else_is"),
        ("L4, every reader", "an altered payload is answered by nothing and stops nobody else",
         "tests/toolsets/test_memory_damage.py::test_an_altered_payload_is_answered_by_nothing_and_stops_nobody_else"),
        ("L6", "lineage tells creations from updates, and a re-creation from both",
         _LINEAGE + "test_a_deleted_entity_keeps_its_history_and_may_be_made_again"),
        ("L7", "what JSON cannot say is refused",
         _WRITE + "test_what_json_cannot_say_is_refused_even_where_no_door_stands_before_the_tool"),
        ("L7, every reader", "whatever is accepted is given back equal by every reader there is",
         "tests/laws/test_documents.py::test_whatever_is_accepted_is_given_back_equal_by_every_reader"),
        ("L11", "a proven identity cannot write as another",
         _WRITE + "test_a_proven_identity_cannot_write_as_another"),
        ("L11, local", "without a proven identity the caller may name itself",
         _WRITE + "test_without_a_proven_identity_the_caller_may_name_itself"),
        ("L12", "every call shape asks the same question",
         _SEARCH + "test_every_call_shape_asks_the_same_question"),
        ("L12, conflict", "one thing said differently in two places is refused",
         _SEARCH + "test_every_fault_of_a_call_is_named"),
        ("L13", "what is not there is null",
         _READ + "test_what_is_not_there_is_null_and_not_an_error"),
        ("L13, type", "another type than asked for is null",
         _READ + "test_another_type_than_asked_for_is_null"),
        ("L13, as_of", "a moment beyond the head is refused",
         _READ + "test_a_moment_that_is_not_in_the_log_is_refused"),
        ("L14", "reads as of a commit, a lamport or a time",
         _READ + "test_a_node_is_read_as_of_a_commit_a_lamport_or_a_time"),
        ("L14, search", "searches as of a past moment",
         _SEARCH + "test_a_search_as_of_a_past_moment_sees_what_was_true_then"),
        ("L15", "a write is answered with its commit",
         _WRITE + "test_a_planner_writes_a_plan_and_a_searcher_reads_it_with_its_provenance"),
        ("L16", "each operation has its own fields, and no others",
         _WRITE + "test_every_fault_of_a_call_is_named"),
        ("L17", "an upsert on the same triple updates the edge",
         _WRITE + "test_an_upsert_on_the_same_triple_updates_the_edge"),
        ("L18", "an upsert replaces the whole document",
         _WRITE + "test_an_upsert_replaces_the_whole_node_and_keeps_who_made_it"),
        ("L19", "the first actor stays the owner",
         _READ + "test_provenance_tells_the_newest_commit_and_the_first_author"),
        ("L20", "an edge to nowhere is refused",
         _WRITE + "test_an_edge_to_nowhere_names_what_is_missing"),
        ("L20, missing", "what is not there cannot be deleted",
         _WRITE + "test_what_is_not_there_cannot_be_deleted"),
        ("L20, batch", "a node's edges are deleted before it, in one batch",
         _WRITE + "test_deleting_a_node_deletes_its_edges_first_in_the_same_batch"),
        ("L21", "a run context is kept beside the payload",
         _LINEAGE + "test_an_officer_sees_who_made_an_entity_and_who_changed_it_and_in_which_run"),
        ("L36", "walks are capped in hops and fan-out",
         _SEARCH + "test_a_fan_out_past_a_hundred_is_cut_and_said"),
        ("L37", "walks go out, in or both ways",
         _SEARCH + "test_directions_shorter_paths_and_single_hops"),
        ("L38", "paths have exactly the hops asked for",
         _SEARCH + "test_a_walk_of_two_hops_finds_the_coauthors"),
        ("L39", "windows include since and exclude until",
         _SEARCH + "test_a_window_is_on_the_last_commit_from_since_up_to_until"),
        ("L40", "an answer's provenance is its newest entity's",
         _SEARCH + "test_the_provenance_of_an_answer_is_that_of_its_newest_entity"),
        ("L41", "cache_hit tells index from walk and from history",
         _SEARCH + "test_a_search_as_of_a_past_moment_sees_what_was_true_then"),
        ("L42", "conditions that make no sense are refused",
         _SEARCH + "test_a_condition_that_makes_no_sense_is_refused"),
        ("L43", "pages name total, offset, limit and next offset",
         _SEARCH + "test_pages_follow_each_other_without_gap_or_overlap"),
        ("L45", "direct is about the entity, full also about its edges",
         _LINEAGE + "test_direct_is_about_the_entity_and_full_also_about_its_edges"),
        ("L46", "json is the default, and format an alias",
         _LINEAGE + "test_csv_has_fixed_columns_and_a_row_for_each_commit"),
        ("L48", "no cell of a CSV starts like a formula",
         _LINEAGE + "test_nothing_in_a_csv_starts_like_a_formula"),
        ("L49", "a summary has four figures",
         _LINEAGE + "test_a_summary_counts_without_listing"),
        ("L50", "an entity that never was has no lineage",
         _LINEAGE + "test_an_entity_that_never_was_has_no_lineage"),
        ("L51", "redaction without fields forgets all attributes, of deleted nodes too",
         _WRITE + "test_a_redaction_without_fields_forgets_all_attributes_of_a_deleted_node_too"),
        ("L62", "a reader in another process sees what was acknowledged",
         _STORIES + "test_a_reader_asks_for_what_is_new_and_is_told_when_nothing_is"),
        ("M23", "agents in five processes share one memory",
         _STORIES + "test_agents_in_five_processes_share_one_memory"),
        ("X15", "lists are cut before they overflow an agent, and say where to go on",
         _SEARCH + "test_a_page_is_cut_where_it_would_be_too_long_and_says_where_to_go_on"),
        ("X15, programs", "over REST a page of a history is what was asked for, in every format",
         _LINEAGE + "test_a_program_gets_the_page_it_asked_for"),
        ("X15, programs search", "over REST a page of a search is what was asked for",
         _LINEAGE + "test_a_program_gets_all_that_it_looked_for"),
        ("X15, by id", "what is asked for by id is never cut",
         _READ + "test_a_large_node_is_read_whole_by_its_id"),
        ("bad input, size", "a payload past the limit is refused with both figures",
         _WRITE + "test_a_payload_past_the_limit_says_its_size_and_the_limit"),
        ("bad input, depth", "nesting without end is refused",
         _WRITE + "test_nesting_without_end_is_refused"),
    )
]  # fmt: skip
REQUIREMENTS += [
    Requirement(*row)
    for row in (
        # -- the log
        ("durability, kill", "what was acknowledged before a SIGKILL is found after it, by a client",
         "tests/journeys/test_kill_stories.py::"
         "test_whatever_was_acknowledged_before_a_kill_is_found_after_it"),
        ("durability, faults", "failing writes and syncs lose nothing that was acknowledged",
         "tests/log/test_faults.py::test_an_injected_fault_loses_nothing_that_was_acknowledged"),
        ("L55, torn end", "a torn end is set aside and writing goes on",
         "tests/log/test_files.py::test_a_torn_end_is_set_aside_and_writing_goes_on"),
        ("L55, damage", "damage elsewhere stops the log, names file and line, and touches nothing",
         "tests/log/test_files.py::test_damage_before_the_mark_names_file_and_line_and_touches_nothing"),
        ("L55, M37, every byte", "harm to any byte of a log is refused by file and line, or settled",
         "tests/laws/test_damage.py::test_bytes_harmed_anywhere_are_refused_or_settled"),
        ("L55, lines", "lines removed, doubled, moved or swapped are refused, and nothing is touched",
         "tests/laws/test_damage.py::test_whole_lines_out_of_place_are_refused_or_settled"),
        ("L55, the mark", "no byte of the kept position can be changed unnoticed",
         "tests/log/test_head_file.py::test_no_byte_can_become_another_unnoticed"),
        ("L55, audit", "harm to any byte of the audit log is found, stays as it is, and the log goes on",
         "tests/laws/test_audit_damage.py::test_bytes_harmed_anywhere_are_found_and_stay"),
        ("L55, directories", "whatever is done to the files of a base, everything ends and nothing is made worse",
         "tests/fuzz/test_damaged_directories.py::"
         "test_a_base_with_harmed_files_is_refused_or_settled_and_nothing_hangs"),
        ("L54", "drafts that wait together are synced together",
         "tests/test_partition.py::test_drafts_that_wait_together_are_appended_together"),
        ("L63", "a state that fails to apply is read anew from the log",
         "tests/test_partition.py::test_a_state_that_fails_to_apply_is_read_anew_from_the_log"),
        ("M23, log", "two processes write at once and both find everything",
         "tests/log/test_faults.py::test_two_processes_write_at_once_and_both_find_everything"),
        ("proof, bytes", "verify finds every flipped byte",
         "tests/log/test_proof.py::test_every_flipped_byte_is_found"),
        ("proof, lines", "verify finds a removed, swapped or added line, the last ones included",
         "tests/log/test_proof.py::test_a_removed_swapped_or_added_line_is_found"),
        ("proof, blobs", "verify names a blob that a commit names and that is missing or damaged, and its entity",
         "tests/projections/test_blobs.py::test_a_changed_byte_is_named_with_its_entity"),
        ("L51, blobs", "verify names a blob that a redaction should have removed",
         "tests/projections/test_blobs.py::test_what_was_redacted_and_is_still_there_is_named"),
        ("proof, views", "verify --views names what differs from a replay, and it is right when it is built again",
         "tests/projections/test_consistency_check.py::"
         "test_a_difference_is_named_and_gone_when_it_is_built_again"),
        ("L8, partition", "a commit comes after every foreign commit that was observed",
         "tests/test_partition.py::"
         "test_a_foreign_lamport_that_was_observed_comes_before_the_next_commit"),
        *COMPLIANCE_REQUIREMENTS,
        *GATE_REQUIREMENTS,
        *KNOWLEDGE_REQUIREMENTS,
        *ONTOLOGY_REQUIREMENTS,
        *TASKS_REQUIREMENTS,
        *TELEMETRY_REQUIREMENTS,
        *WORK_REQUIREMENTS,
    )
]  # fmt: skip
