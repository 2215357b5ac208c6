"""The promises on who may, and threats by the OWASP API Security Top 10 (2023), each with the test that shows it."""

from __future__ import annotations

_TOKENS = "tests/server/test_oauth.py::"
_KEYS = "tests/server/test_oauth_keys.py::"
_LIMITS = "tests/server/test_limits.py::"
_GUARDS = "tests/server/test_guards.py::"
_TLS = "tests/server/test_tls.py::"
_REST = "tests/server/test_rest.py::"
_DISPATCH = "tests/server/test_dispatch.py::"
_GATE = "tests/policy/test_gate.py::"
_REMOTE = "tests/policy/test_remote.py::"
_EMBEDDED = "tests/policy/test_embedded.py::"
_ENGINES = "tests/contracts/test_policy.py::"
_COMMANDS = "tests/policy/test_policy_commands.py::"
_AUDIT = "tests/test_audit.py::"
_NARROWING = "tests/test_narrowing.py::"
_TENANTS = "tests/test_tenants.py::"
_APART = "tests/laws/test_tenants_apart.py::"
_LOGIN = "tests/identity/test_login.py::"
_STORY = "tests/journeys/test_team_story.py::"

GATE_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    # -- threats
    ("OWASP API1, objects", "results are narrowed to what may be read",
     _NARROWING + "test_a_search_tells_nothing_of_what_may_not_be_read"),
    ("OWASP API1, walks", "a walk does not lead through what may not be read",
     _NARROWING + "test_a_walk_goes_round_what_may_not_be_read"),
    ("OWASP API1, histories", "a history does not tell of neighbours that may not be read",
     _NARROWING + "test_a_full_history_leaves_out_edges_to_what_may_not_be_read"),
    ("OWASP API1, deleted", "deleting something does not open its past",
     _NARROWING + "test_what_was_deleted_is_judged_by_what_it_was"),
    ("OWASP API1, tenants", "no sequence of calls brings back what only another tenant wrote",
     _APART + "test_no_byte_that_only_another_tenant_wrote_comes_back"),
    ("OWASP API1, ids of others", "another tenant's id is refused in every tool that takes one",
     _TENANTS + "test_another_tenants_id_is_refused_without_data"),
    ("OWASP API2, tokens", "forged, foreign, expired and confused tokens are refused and leave no trace",
     _TOKENS + "test_an_attack_is_refused_and_leaves_no_trace_of_its_token"),
    ("OWASP API2, every route", "no route but health and metadata answers without a token",
     _TOKENS + "test_without_a_token_there_is_no_answer_but_401"),
    ("OWASP API2, sessions", "a session is served only to whom it belongs",
     _TOKENS + "test_a_session_is_served_only_to_whom_it_belongs"),
    ("OWASP API2, revoked", "a token that was taken back is refused soon",
     _KEYS + "test_the_issuer_is_asked_whether_a_token_was_taken_back_and_its_word_is_kept"),
    ("OWASP API3, mass assignment", "arguments that a tool does not know are refused by name",
     _DISPATCH + "test_every_fault_is_a_sentence_that_names_its_field"),
    ("OWASP API3, withheld ends", "an edge does not tell of an end that may not be read",
     _NARROWING + "test_edges_to_what_may_not_be_read_are_withheld"),
    ("OWASP API3, counts", "totals do not count what is withheld",
     _NARROWING + "test_pages_and_totals_are_those_of_what_may_be_read"),
    ("OWASP API4, rate", "a tenant that asks too much is told how long to wait",
     _LIMITS + "test_the_refusal_says_how_long_to_wait_and_waiting_helps"),
    ("OWASP API4, bodies", "a body is bounded, also one without a length",
     _GUARDS + "test_a_body_without_a_length_is_bounded_too"),
    ("OWASP API4, answers", "an answer past the bound never leaves",
     _DISPATCH + "test_an_answer_past_the_bound_never_leaves"),
    ("OWASP API4, ids of others", "asking for unknown ids does not open every log each time",
     _TENANTS + "test_ids_of_a_closed_tenant_stay_known_without_opening_it_again"),
    ("OWASP API5, functions", "each tool is asked about with its own action",
     "tests/toolsets/test_memory_write.py::test_the_policy_is_asked_for_the_right_action_on_the_right_entity"),
    ("OWASP API5, read only", "a server for reading has no tool that writes",
     _DISPATCH + "test_reading_only_leaves_out_every_tool_that_writes"),
    ("OWASP API6, flows", "a tenant's writes are counted apart from its reads and from others'",
     _LIMITS + "test_writes_reads_and_tenants_are_counted_apart"),
    ("OWASP API7, outside", "what we fetch from issuers is bounded, and redirects are not followed",
     _KEYS + "test_answers_from_outside_are_bounded_and_redirects_are_not_followed"),
    ("OWASP API8, hosts and pages", "no route answers under a foreign name or to a foreign page",
     _GUARDS + "test_no_route_answers_under_a_foreign_name_or_to_a_foreign_page"),
    ("OWASP API8, binding", "beyond this machine nothing is served without an issuer",
     _GUARDS + "test_any_other_address_needs_one"),
    ("OWASP API8, TLS", "TLS 1.3 and nothing older",
     _TLS + "test_it_is_served_over_tls_1_3_and_nothing_older"),
    ("OWASP API8, errors", "a bug leaves only its id",
     _GUARDS + "test_a_bug_outside_the_tools_leaves_only_its_id"),
    ("OWASP API9, inventory", "the document has every tool and every refusal",
     _REST + "test_the_document_is_valid_and_has_every_tool_and_every_refusal"),
    ("OWASP API10, issuers", "a lying or broken issuer lets nobody in",
     _KEYS + "test_a_lying_or_broken_issuer_is_told_in_the_log_and_nobody_gets_in"),
    ("OWASP API10, policy servers", "an answer that is no answer is a no",
     _REMOTE + "test_an_answer_that_is_no_answer_is_a_no"),
    # -- the gate
    ("L11, tokens", "who has a token may not name another actor",
     _TOKENS + "test_claims_become_a_principal_who_may_not_name_another"),
    ("L24, REST", "a refusal has its literal status over REST",
     _REST + "test_a_call_has_its_status_and_its_toolsets_words"),
    ("L24, scopes", "missing scopes are told together, by the transport",
     _TOKENS + "test_scopes_are_checked_together_and_all_are_named"),
    ("L25, denial", "a denied write says who, what and whose, and leaves the log untouched",
     _GATE + "test_a_denied_write_leaves_the_log_untouched_and_says_why"),
    ("L25, expiry", "an expired token is told when it ended",
     _TOKENS + "test_an_expired_token_is_told_when_it_ended"),
    ("L26", "of several faults in a token the first in the agreed order is told",
     _TOKENS + "test_the_first_fault_in_the_agreed_order_is_told"),
    ("L27", "tenant and roles may be under other claims",
     _TOKENS + "test_the_claims_of_tenant_and_roles_may_have_other_names_and_places"),
    ("L28, L31", "both engines give the same answers to the same questions",
     _ENGINES + "test_the_same_questions_get_the_same_answers"),
    ("L29", "a yes in any of its forms is a yes",
     _REMOTE + "test_a_yes_in_any_of_its_forms_is_a_yes"),
    ("L30, slow", "a slow decision is let through with a warning",
     _GATE + "test_a_slow_decision_is_let_through_with_a_warning"),
    ("L30, too slow", "one that took too long is a denial",
     _EMBEDDED + "test_a_decision_that_took_too_long_is_a_denial"),
    ("L30, breaker", "a dead server is asked no more until the pause is over",
     _REMOTE + "test_a_dead_server_is_asked_no_more_until_the_pause_is_over"),
    ("L32", "a write forgets what was decided about the resource",
     _GATE + "test_a_write_forgets_what_was_decided_about_the_resource"),
    ("L33, typed memory", "typed memory is listed as far as it may be read",
     _NARROWING + "test_typed_memory_is_listed_as_far_as_it_may_be_read"),
    ("L33, alone", "one local user pays nothing for it",
     _NARROWING + "test_a_policy_that_narrows_nothing_is_asked_once_for_a_search"),
    ("L34, same id", "two tenants may use the same id, each for its own",
     _TENANTS + "test_two_tenants_may_use_the_same_id_each_for_its_own"),
    ("L34, unknown", "an id that nobody has is merely not found",
     _TENANTS + "test_an_id_that_nobody_has_is_merely_not_found"),
    ("L35", "a line of the audit log has the promised fields",
     _AUDIT + "test_a_line_has_the_fields_that_were_promised"),
    ("L53", "a tenant may have a quota of its own, or none",
     _LIMITS + "test_a_tenant_may_have_a_quota_of_its_own_or_none"),
    ("FR-003, decisions replay", "the audit log replayed through the policy gives the same decisions",
     _GATE + "test_the_audit_log_replayed_through_the_policy_gives_the_same_decisions"),
    ("FR-003, dry run", "a candidate policy is tried on what really happened",
     _COMMANDS + "test_replay_tells_what_another_policy_would_have_decided"),
    ("FR-003, login", "the SDK's client logs in by itself",
     _LOGIN + "test_the_sdks_client_logs_in_by_itself_and_is_known_by_its_name"),
    ("scenario 2, for real", "a team works within its roles and tenants, and the audit proves it",
     _STORY + "test_a_team_works_within_its_roles_and_tenants_and_the_audit_proves_it"),
    ("tenants, idle", "an idle tenant is closed, and opened again by the next call",
     _TENANTS + "test_an_idle_tenant_is_closed_and_opened_again_by_the_next_call"),
)  # fmt: skip
