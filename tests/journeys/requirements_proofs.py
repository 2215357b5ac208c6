"""The promises of proof for outsiders: the tree, checkpoints, witnesses, proofs, and receipts that agents hand over."""

from __future__ import annotations

_TREE = "tests/commits/test_tree.py::"
_NOTE = "tests/commits/test_signed_note.py::"
_QUANTUM = "tests/commits/test_quantum_signatures.py::"
_TILES = "tests/projections/test_tiles.py::"
_SIGNING = "tests/projections/test_checkpoints.py::"
_KEYS = "tests/projections/test_checkpoint_keys.py::"
_COMMAND = "tests/operations/test_checkpoint.py::"
_COSIGNED = "tests/projections/test_witnesses.py::"
_WITNESS = "tests/operations/test_witness.py::"
_PROOFS = "tests/operations/test_proofs.py::"
_ALONE = "tests/test_verify_standalone.py::"
_FORGED = "tests/laws/test_forgeries.py::"
_FOREIGN = "tests/foreign/test_tlog.py::"
_SERVED = "tests/server/test_tlog.py::"
_STORY = "tests/journeys/test_proof_story.py::"

PROOF_REQUIREMENTS: tuple[tuple[str, str, str], ...] = (
    ("tree, inclusion", "every leaf of every tree up to 130 is proved, and no other in its place",
     _TREE + "test_every_inclusion_is_proved_for_its_leaf_and_for_no_other"),
    ("tree, consistency", "every continuation of every tree up to 130 is proved, and no other history",
     _TREE + "test_every_consistency_is_proved_and_holds_for_no_other_history"),
    ("tree, altered", "20,000 altered proofs are refused", _TREE + "test_twenty_thousand_altered_proofs_are_refused"),
    ("tree, entries", "the tree is over the record hashes of commits",
     _TILES + "test_the_root_is_that_of_the_record_hashes"),
    ("tree, redaction", "what was redacted stays proved",
     _PROOFS + "test_what_was_redacted_stays_proved_and_cannot_be_shown"),
    ("tiles, served", "tiles and the checkpoint are read by whom the operator says",
     _SERVED + "test_it_is_read_by_whom_the_operator_says"),
    ("tiles, crash", "tiles that a crash left without a place are written again",
     _TILES + "test_tiles_that_a_crash_left_without_a_place_are_written_again"),
    ("checkpoint, vector", "the published signed note is accepted", _NOTE + "test_the_published_vector_is_accepted"),
    ("checkpoint, keys", "a file, the environment and a command give the same keys",
     _KEYS + "test_a_file_the_environment_and_a_command_give_the_same_keys"),
    ("checkpoint, key outside", "a key in the base is refused, also behind a link",
     _KEYS + "test_a_key_in_the_base_is_refused_also_behind_a_link"),
    ("checkpoint, rotation", "keys are rotated with overlap", _COMMAND + "test_keys_are_rotated_with_overlap"),
    ("checkpoint, second line", "a second signature of ML-DSA-44 satisfies who knows either key, or both",
     _QUANTUM + "test_who_knows_either_key_or_both_is_satisfied"),
    ("checkpoint, unknown lines", "kinds of signatures that nobody knows are kept and passed over",
     _QUANTUM + "test_kinds_of_signatures_that_nobody_knows_are_kept_and_passed_over"),
    ("checkpoint, when", "it is signed at most once a second, and at the end",
     _SIGNING + "test_it_is_signed_at_most_once_a_second_and_at_the_end"),
    ("checkpoint, snapshot", "a snapshot is signed, too", _COMMAND + "test_a_snapshot_is_signed_too"),
    ("checkpoint, processes", "processes that sign together never sign two histories",
     _SIGNING + "test_processes_that_sign_together_never_sign_two_histories"),
    ("checkpoint, continued", "another history is never signed, whatever its length",
     _SIGNING + "test_another_history_is_never_signed_whatever_its_length"),
    ("checkpoint, whose", "a checkpoint that none of our keys signed is not gone on from",
     _SIGNING + "test_a_checkpoint_that_none_of_our_keys_signed_is_not_gone_on_from"),
    ("checkpoint, old key", "an old key stays until the new one has signed in every tenant",
     _COMMAND + "test_an_old_key_stays_until_the_new_one_has_signed_in_every_tenant"),
    ("checkpoint, opening", "an older copy of the log is refused by whatever opens it",
     _COMMAND + "test_an_older_copy_of_the_log_is_refused_by_whatever_opens_it"),
    ("checkpoint, verify", "a rewritten log is found by verify, doctor and whoever opens it",
     _COMMAND + "test_a_rewritten_log_is_found_by_verify_doctor_and_whoever_opens_it"),
    ("checkpoint, restore", "a restored log must lead to the checkpoints",
     _COMMAND + "test_a_restored_log_must_lead_to_the_checkpoints"),
    ("checkpoint, none", "without a key nothing is written for it",
     _COMMAND + "test_without_a_key_nothing_is_written_for_it"),
    ("witness, standard", "everything but a continuation is refused as the standard says",
     _WITNESS + "test_everything_else_is_refused_as_the_standard_says"),
    ("witness, durable", "what was seen is kept before it is signed",
     _WITNESS + "test_what_was_seen_is_kept_before_it_is_signed"),
    ("witness, laptop", "a colleague's machine is a witness", _COMMAND + "test_a_colleagues_machine_is_a_witness"),
    ("witness, split view", "a log with two histories finds no witness for the second",
     _COSIGNED + "test_a_log_with_two_histories_finds_no_witness_for_the_second"),
    ("witness, quorum", "cosignatures count for a quorum, and others do not",
     _FOREIGN + "test_our_cosignatures_count_for_a_quorum_and_others_do_not"),
    ("proof, commit", "a commit is proved by its id, its position, or what it is about",
     _PROOFS + "test_a_commit_is_proved_by_its_id_its_position_or_what_it_is_about"),
    ("proof, since", "an older checkpoint is shown to be continued",
     _PROOFS + "test_an_older_checkpoint_is_shown_to_be_continued"),
    ("proof, lineage", "a history has the proof of each commit that is signed",
     _PROOFS + "test_a_history_has_the_proof_of_each_commit_that_is_signed"),
    ("proof, http", "proofs are served", _PROOFS + "test_proofs_are_served"),
    ("proof, openapi", "the document describes proofs where they are served",
     _SERVED + "test_the_document_describes_proofs_where_they_are_served"),
    ("proof, command", "whoever gets a proof checks it by a command",
     _PROOFS + "test_whoever_gets_a_proof_checks_it_by_a_command"),
    ("proof, standalone", "one file with the standard library accepts what is true",
     _ALONE + "test_what_is_true_is_accepted_by_a_bare_python"),
    ("proof, forged log", "a forged log is refused", _FORGED + "test_a_forged_log_is_refused"),
    ("proof, forged tiles", "forged tiles are refused", _FORGED + "test_forged_tiles_are_refused"),
    ("proof, forged", "a forged proof is refused", _FORGED + "test_a_forged_proof_is_refused"),
    ("proof, 40 forgeries", "at least forty forgeries are planted", _FORGED + "test_there_are_enough_of_them"),
    ("proof, foreign", "other people's verifiers accept every checkpoint, and that it was only added to",
     _FOREIGN + "test_every_checkpoint_holds_and_was_only_added_to"),
    ("receipt, agents", "an agent hands over that it is done, and strangers believe it",
     _STORY + "test_an_agent_hands_over_that_it_is_done_and_strangers_believe_it"),
    ("receipt, files", "with a directory for receipts an agent is told of two files",
     _STORY + "test_with_a_directory_for_receipts_an_agent_is_told_of_two_files"),
    ("receipt, none", "a receipt that could not be is refused before anything is written",
     _STORY + "test_a_receipt_that_could_not_be_is_refused_before_anything_is_written"),
    ("receipt, tenants", "every tenant signs as its own log",
     _STORY + "test_over_http_the_receipt_is_in_the_answer_and_every_tenant_signs_as_its_own"),
)  # fmt: skip
