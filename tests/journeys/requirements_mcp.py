"""The promises of what MCP offers besides tools."""

from __future__ import annotations

_STORY = "tests/journeys/test_resource_stories.py::"
_CONFIRM = "tests/journeys/test_confirm_stories.py::"
_PROGRESS = "tests/journeys/test_progress_stories.py::"
_PROMPTS = "tests/server/test_prompts.py::"

MCP_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("prompts, resources, completions", "SDK clients list, get, read and complete over stdio and HTTP in both eras",
     _STORY + "test_a_client_lists_reads_and_completes"),
    ("prompts, tools", "every tool and field that a prompt names exists",
     _PROMPTS + "test_every_tool_and_field_that_a_prompt_names_exists"),
    ("prompts, off", "steps and prompts whose tools are off are left out",
     _PROMPTS + "test_steps_whose_tools_are_off_are_left_out_and_so_are_prompts_without_any"),
    ("resources, hostile", "hostile addresses name nothing",
     _STORY + "test_hostile_addresses_name_nothing"),
    ("resources, hidden", "resources and completions show nothing of what may not be read",
     "tests/laws/test_hidden.py::test_resources_and_completions_are_alike_too"),
    ("subscriptions, hidden", "nobody is told of changes that may not be read, nor of another tenant's",
     "tests/laws/test_hidden.py::test_nobody_is_told_of_changes_that_may_not_be_read_nor_of_another_tenants"),
    ("resources, updated", "a change by another process is told, over stdio and HTTP",
     _STORY + "test_who_listens_is_told_of_changes_by_another_process"),
    ("resources, list changed", "who listens to the list is told when it is another",
     _STORY + "test_who_listens_to_the_list_is_told_when_it_is_another"),
    ("resources, handshake", "in the handshake era a client on stdio subscribes and is told",
     _STORY + "test_in_the_handshake_era_a_client_on_stdio_subscribes_and_is_told"),
    ("resources, truthful", "where there is no stream none is promised",
     _STORY + "test_in_the_handshake_era_over_http_there_is_no_stream_and_nothing_is_promised"),
    ("resources, killed writer", "a change by a process that was killed is told",
     _STORY + "test_a_writer_that_is_killed_and_one_that_comes_after_it_are_both_heard"),
    ("resources, bounded", "nobody subscribes to more than is allowed",
     _STORY + "test_nobody_subscribes_to_more_than_is_allowed"),
    ("resources, late SDK", "what clients list as they begin is answered without the SDK, and as by it",
     "tests/server/test_late_sdk.py::test_what_clients_list_as_they_begin_is_answered_as_by_the_sdk_and_without_it"),
    ("elicitation", "a person who agrees was told what will be erased, and no values",
     _CONFIRM + "test_a_person_who_agrees_was_told_what_will_be_erased"),
    ("elicitation, declined", "without a yes nothing is written",
     _CONFIRM + "test_without_a_yes_nothing_is_written"),
    ("elicitation, cannot ask", "a client that cannot ask redacts as ever",
     _CONFIRM + "test_a_client_that_cannot_ask_redacts_as_ever"),
    ("elicitation, off", "for agents that work alone it is turned off",
     _CONFIRM + "test_for_agents_that_work_alone_it_is_turned_off"),
    ("elicitation, what was shown", "what was agreed to is what was shown",
     _CONFIRM + "test_what_was_agreed_to_is_what_was_shown"),
    ("progress", "a write that has to wait says so and is done, both doors, both eras",
     _PROGRESS + "test_a_write_that_has_to_wait_says_so_and_is_done"),
    ("cancellation", "a write that is cancelled while it waits is not written",
     _PROGRESS + "test_a_write_that_is_cancelled_while_it_waits_is_not_written"),
    ("cancellation, whole", "whenever a write is cancelled it is written whole or not at all",
     _PROGRESS + "test_whenever_a_write_is_cancelled_it_is_written_whole_or_not_at_all"),
)  # fmt: skip
