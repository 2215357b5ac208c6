"""The promises of hooks: few, bounded, never in the way."""

from __future__ import annotations

_DIGEST = "tests/hook/test_digest.py::"
_COMMAND = "tests/hook/test_command.py::"
_CLIENTS = "tests/hook/test_clients.py::"
_QUOTING = "tests/hook/test_quoting.py::"
_TOOL = "tests/toolsets/test_hooks.py::"

HOOK_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("hook, session start", "a session begins with goal, claims and what comes next, within 400 tokens",
     _DIGEST + "test_a_session_begins_with_goal_claims_and_what_comes_next"),
    ("hook, changes", "a session is told what others changed since the agent last looked",
     _DIGEST + "test_a_session_is_told_what_others_changed_since_the_agent_last_looked"),
    ("hook, compaction", "after a compaction only what came since is new",
     _DIGEST + "test_after_a_compaction_only_what_came_since_is_new"),
    ("hook, stale", "knowledge of the files at hand that may no longer hold is named",
     _DIGEST + "test_knowledge_of_the_files_at_hand_that_may_no_longer_hold_is_named"),
    ("hook, prompt", "a prompt is told what its words find, and never twice",
     _DIGEST + "test_a_prompt_is_told_what_its_words_find"),
    ("hook, prompt, threshold", "a prompt that nothing fits is told nothing",
     _DIGEST + "test_a_prompt_that_nothing_fits_is_told_nothing"),
    ("hook, file", "what is known of a file is said before it is read",
     _DIGEST + "test_what_is_known_of_a_file_is_said_before_it_is_read"),
    ("hook, file, once", "a file is told of once a session",
     _DIGEST + "test_a_file_is_told_of_once_a_session"),
    ("hook, stop", "who stops with claimed work is reminded in one line and once",
     _DIGEST + "test_who_stops_with_claimed_work_is_reminded_in_one_line_and_once"),
    ("hook, stop, loop", "who goes on because of a hook may stop",
     _DIGEST + "test_who_goes_on_because_of_a_hook_may_stop"),
    ("hook, summary", "the ids that matter go into the summary",
     _DIGEST + "test_the_ids_that_matter_go_into_the_summary"),
    ("hook, erasure", "what was redacted, deleted or recalled is not said",
     _DIGEST + "test_what_was_redacted_deleted_or_recalled_is_not_said"),
    ("hook, hostile notes", "hostile notes stay within their quotes",
     _DIGEST + "test_hostile_notes_stay_within_their_quotes"),
    ("hook, kept", "only ids and positions are kept, for their owner alone",
     _DIGEST + "test_only_ids_and_positions_are_kept_for_their_owner_alone"),
    ("hook, schemas", "a client is told what its schema names and nothing else",
     _CLIENTS + "test_a_client_is_told_what_its_schema_names_and_nothing_else"),
    ("hook, budget", "the estimate of tokens is never below what the tokenizer counts for ordinary notes",
     _QUOTING + "test_the_estimate_is_never_below_what_the_tokenizer_counts_for_ordinary_notes"),
    ("hook, light", "nothing heavy is imported",
     _COMMAND + "test_nothing_heavy_is_imported"),
    ("hook, hostile input", "hostile input is passed over",
     _COMMAND + "test_hostile_input_is_passed_over"),
    ("hook, under fire", "a memory that cannot be asked is as good as none",
     _COMMAND + "test_a_memory_that_cannot_be_asked_is_as_good_as_none"),
    ("hook, two at once", "hooks of one session may run at once",
     _COMMAND + "test_hooks_of_one_session_may_run_at_once"),
    ("hook, limit", "a client that never ends its input is left",
     _COMMAND + "test_a_client_that_never_ends_its_input_is_left"),
    ("hook, explain", "what was said, when and why is shown",
     _COMMAND + "test_what_was_said_when_and_why_is_shown"),
    ("hook, tool", "a client that calls a tool gets what the command would print",
     _TOOL + "test_a_client_that_calls_a_tool_gets_what_the_command_would_print"),
    ("hook, unlisted", "no agent is shown the tool",
     _TOOL + "test_no_agent_is_shown_it"),
    ("hook, issuer", "a server that asks for tokens gets the one of the environment",
     _TOOL + "test_a_server_that_asks_for_tokens_gets_the_one_of_the_environment"),
)  # fmt: skip
