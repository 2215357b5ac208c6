"""The promises of init: clients are connected by one entry each, and taken off again byte for byte."""

from __future__ import annotations

_INIT = "tests/operations/test_init.py::"
_COMMAND = "tests/test_cli_init.py::"
_CHECKS = "tests/operations/test_client_checks.py::"
_REPOSITORY = "tests/test_repository.py::"

CLIENTS_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("base, repository", "from every subdirectory the memory of the repository is the base",
     _REPOSITORY + "test_from_every_subdirectory_the_memory_of_the_repository_is_the_base"),
    ("base, work trees", "all work trees of a repository share its memory",
     _REPOSITORY + "test_all_work_trees_share_it"),
    ("base, hostile", "a hostile .git file means no repository",
     _REPOSITORY + "test_a_hostile_git_file_means_no_repository"),
    ("base, commands", "no command is run that a found memory names",
     _REPOSITORY + "test_no_command_is_run_that_a_found_memory_names"),
    ("init, finds", "clients are found by their files, their directories and their commands",
     _INIT + "test_clients_are_found_by_their_files_their_directories_and_their_commands"),
    ("init, asks", "init shows the files and writes nothing unless it is told to",
     _COMMAND + "test_it_shows_the_files_and_writes_nothing_unless_it_is_told_to"),
    ("init, entries", "every client gets its entry where it looks for it",
     _INIT + "test_every_client_gets_its_entry_where_it_looks_for_it"),
    ("init, names", "no path and no version is in what is written",
     _INIT + "test_no_path_and_no_version_is_in_what_is_written"),
    ("init, hooks", "hooks call ours by name, in the form of each client",
     _INIT + "test_hooks_call_ours_by_name_in_the_form_of_each_client"),
    ("init, instructions", "AGENTS.md and CLAUDE.md get the block, unless one takes in the other",
     _INIT + "test_both_instruction_files_get_the_block_unless_one_takes_in_the_other"),
    ("init, memory", "the memory lies in what work trees share, outside of version control",
     _INIT + "test_the_memory_lies_in_what_work_trees_share_and_git_sees_nothing_of_it"),
    ("init, shared", "with --shared no memory is made for the repository",
     _INIT + "test_with_shared_no_memory_is_made_and_an_own_one_is_not_passed_over"),
    ("init, idempotent", "a second run changes nothing",
     _INIT + "test_a_second_run_changes_nothing"),
    ("init, byte for byte", "whatever the files are, they are the same after init and its removal",
     _INIT + "test_whatever_the_files_are_they_are_the_same_afterwards"),
    ("init, refuses", "a file that cannot be read is left alone, and the place is named",
     _INIT + "test_what_cannot_be_read_is_left_alone_and_the_place_is_named"),
    ("init, links", "a link is followed within the project and not out of it",
     _INIT + "test_a_link_is_followed_within_the_project_and_not_out_of_it"),
    ("init, killed", "killed in between, a second run finishes, and removal leaves nothing",
     _INIT + "test_killed_in_between_a_second_run_finishes_and_removal_leaves_nothing"),
    ("init, edited", "what was edited by hand is shown and goes only when told so",
     _INIT + "test_what_was_edited_by_hand_is_shown_and_goes_only_when_told_so"),
    ("init, print", "what would be written is printed for copying",
     _COMMAND + "test_it_prints_what_can_be_copied"),
    ("doctor, clients", "the doctor says that the clients are in place, and what is not",
     _CHECKS + "test_all_is_in_place"),
    ("doctor, clients, command", "the doctor names a command that is not on PATH, and the next step",
     _CHECKS + "test_a_command_that_is_not_on_path_is_named"),
    ("doctor, clients, memory", "the doctor names another memory that a client is connected to",
     _CHECKS + "test_another_memory_is_named"),
)  # fmt: skip
