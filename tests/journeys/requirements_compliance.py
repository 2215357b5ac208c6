"""The promises on lineage exports, erasure and quarantine, each with the test that shows it."""

from __future__ import annotations

_EVENTS = "tests/projections/test_openlineage.py::"
_EXPORT = "tests/toolsets/test_memory_openlineage.py::"
_CSV = "tests/toolsets/test_memory_csv.py::"
_EMIT = "tests/test_emit.py::"
_ERASURE = "tests/test_erasure.py::"
_QUARANTINE = "tests/test_quarantine.py::"
_STORY = "tests/journeys/test_compliance_story.py::"

COMPLIANCE_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    # -- lineage exports
    ("TC-005-02", "a history as OpenLineage events passes the official schemas, with run, job and dataset facets",
     _EXPORT + "test_an_audit_gets_events_that_conform_and_name_run_job_and_dataset"),
    ("TC-005-02, consumer", "a consumer that checks every event by the official schemas takes all that are sent",
     "tests/journeys/test_lineage_story.py::test_a_server_that_is_killed_loses_no_event_and_none_changes"),
    ("FR-005, OpenLineage", "every kind of commit gives events that conform",
     _EVENTS + "test_every_event_conforms_to_the_official_schemas"),
    ("FR-005, for real", "an auditor gets the history, and a feed of everything, in a form that other tools read",
     _STORY + "test_an_auditor_gets_the_history_in_a_form_that_other_tools_read"),
    ("L47, run ids", "a run that is no UUID becomes one, and keeps its name in a facet",
     _EVENTS + "test_run_job_and_dataset_are_those_that_the_writer_named"),
    ("L47, no context", "run, job and dataset are made of actor, operation and type",
     _EVENTS + "test_what_nobody_named_is_made_of_actor_operation_and_type"),
    ("L47, start", "a run starts once, with its first commit",
     _EVENTS + "test_a_run_starts_once_with_its_first_commit"),
    ("L47, pages", "a run starts once however a history is paged",
     _EXPORT + "test_a_run_starts_once_however_the_history_is_paged"),
    ("L47, feed", "every commit is emitted in order, and the next process goes on",
     _EVENTS + "test_every_commit_is_emitted_once_in_order_and_the_next_process_goes_on"),
    ("L47, at least once", "what was refused is emitted again, and nothing is passed over",
     _EVENTS + "test_what_was_refused_is_emitted_again_and_nothing_is_passed_over"),
    ("L47, following", "events are handed on as commits arrive",
     _EMIT + "test_following_hands_on_what_is_written_later_and_ends_when_interrupted"),
    ("L48, payloads", "known formula payloads become text, in every column",
     _CSV + "test_a_formula_becomes_text_and_stays_readable"),
    # -- erasure
    ("6.1, erasure everywhere", "a person is forgotten and the chain still proves everything else",
     _STORY + "test_a_person_is_forgotten_and_the_chain_still_proves_everything_else"),
    ("L51, everywhere", "what is forgotten is in no byte below the base, whichever vocabulary wrote it",
     _ERASURE + "test_what_is_forgotten_is_in_no_byte_below_the_base"),
    ("L51, every field", "whichever field of a tool it was written through, or it is said why not",
     _ERASURE + "test_the_secret_is_written_through_every_field_that_takes_words"),
    ("L51, idle tenants", "the copies of a tenant that nobody serves go before a redaction is answered",
     _ERASURE + "test_the_copies_of_a_tenant_that_nobody_serves_go_too"),
    ("L51, pending", "what another program keeps is said, listed, and finished by the next start",
     _ERASURE + "test_what_another_program_keeps_is_said_and_finished_later"),
    ("L51, crashes", "a crash before the copies are gone is finished by the next start",
     _ERASURE + "test_a_crash_before_the_copies_are_gone_is_finished_by_the_next_start"),
    ("L51, view", "view never shows what is gone though the file is still there",
     _ERASURE + "test_view_never_shows_what_is_gone_though_the_file_is_still_there"),
    ("L51, short values", "a short value is shown like a long one, and no field is invented",
     "tests/state/test_redaction.py::"
     "test_a_value_that_the_word_does_not_fit_into_looks_like_any_other_to_every_reader"),
    ("L51, L17, edges", "what an edge says is redacted like what a node says, in every version",
     "tests/toolsets/test_memory_write.py::"
     "test_redaction_of_an_edge_leaves_no_byte_of_the_named_fields_in_the_log"),
    ("L51, whole nodes", "a node that is redacted whole takes what its edges say in the same batch",
     "tests/toolsets/test_memory_write.py::"
     "test_a_node_that_is_redacted_whole_takes_what_its_edges_say_in_the_same_batch"),
    ("L51, M13, connections", "a redaction of a connection leaves nothing of its content file or blob",
     "tests/projections/test_views.py::test_a_redaction_of_a_connection_leaves_nothing_of_what_it_forgets"),
    ("L51, torn ends", "a redaction takes torn ends of the log with it",
     _ERASURE + "test_a_redaction_takes_torn_ends_with_it"),
    ("L51, pending backups", "backups taken before are listed until they are destroyed",
     _ERASURE + "test_backups_taken_before_a_redaction_are_pending_until_they_are_destroyed"),
    ("5.7, finding", "a mention is found with the field to redact",
     _ERASURE + "test_a_mention_is_found_with_the_field_to_redact"),
    ("5.7, honesty", "what no redaction reaches is found all the same, and told",
     _ERASURE + "test_a_mention_that_no_redaction_reaches_is_found_all_the_same"),
    ("5.7, report", "the report tells what was done and names nobody",
     _ERASURE + "test_the_report_tells_what_was_done_and_names_nobody"),
    # -- quarantine
    ("quarantine, for real", "what a bad agent wrote is recalled, and readers are told",
     _STORY + "test_what_a_bad_agent_wrote_is_recalled_and_readers_are_told"),
    ("quarantine, reads", "every way to read an entity says that it is untrusted",
     _QUARANTINE + "test_every_way_to_read_an_entity_says_that_it_is_untrusted"),
    ("quarantine, derived", "what came of it is followed through edges, evidence, changelog and runs",
     _QUARANTINE + "test_a_derivation_follows"),
    ("quarantine, undo", "a recall is listed first, then made, then undone",
     _QUARANTINE + "test_a_recall_is_listed_first_then_made_then_undone"),
    ("quarantine, undo in part", "single entities are trusted again in one draft that its lineage tells",
     _QUARANTINE + "test_single_entities_of_a_recall_are_trusted_again_in_one_draft_that_its_lineage_tells"),
)  # fmt: skip
