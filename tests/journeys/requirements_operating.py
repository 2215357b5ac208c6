"""The promises to those who run it: several machines, backups, workers, secrets kept out."""

from __future__ import annotations

_CLUSTER = "tests/journeys/test_cluster_story.py::"
_STREAM = "tests/log/test_jetstream.py::"
_SECURITY = "tests/log/test_jetstream_security.py::"
_MIGRATE = "tests/operations/test_migrate.py::"
_BACKUPS = "tests/operations/test_backups.py::"
_REMOTE = "tests/operations/test_backups_remote.py::"
_FOLLOWING = "tests/operations/test_following.py::"
_WORKERS = "tests/server/test_workers.py::"
_DRAIN = "tests/server/test_drain.py::"
_CYPHER = "tests/contracts/test_cypher.py::"
_PATHS = "tests/toolsets/test_memory_search.py::"

OPERATING_REQUIREMENTS = (
    ("§5.2, several machines", "three machines with one stream are one memory, and killed leaders lose nothing",
     _CLUSTER + "test_nothing_that_was_acknowledged_is_lost_when_leaders_are_killed_under_three_machines"),
    ("§5.2, claims", "a task is handed out once, whatever machine is asked",
     _CLUSTER + "test_each_task_goes_to_one_agent_whatever_machine_it_asks"),
    ("§5.2, contents", "a large content is on every machine, and leaves each when it is redacted",
     _CLUSTER + "test_a_large_content_is_read_on_every_machine_and_gone_from_each_when_it_is_redacted"),
    ("§5.4, take over a stream", "a copy that follows takes over without a loss, and no machine writes there",
     "tests/journeys/test_take_over.py::"
     "test_a_copy_of_a_stream_takes_over_without_a_loss_and_stops_the_machines_that_are_left"),
    ("§5.2, sessions", "a session never reads behind what it wrote, whatever machine answers",
     _CLUSTER + "test_a_session_reads_what_it_wrote_on_whatever_machine_it_is_served_next"),
    ("§5.2, sessions at home", "a session that goes back to a machine which missed what it wrote is told so",
     _CLUSTER + "test_a_session_that_goes_back_to_a_machine_which_hears_nothing_is_told_how_old_its_answers_are"),
    ("§5.4, cut off", "a machine that is cut off reads on and says how old it is",
     _CLUSTER + "test_what_is_read_while_the_servers_are_away_says_how_old_it_may_be"),
    ("§5.4, quorum", "writes are refused without a quorum and go on by themselves",
     _STREAM + "test_a_machine_that_is_cut_off_reads_on_says_how_old_it_is_and_goes_on_by_itself"),
    ("§5.2, durability", "servers that do not sync every write are refused",
     _STREAM + "test_servers_that_do_not_sync_every_write_are_refused_unless_that_is_meant"),
    ("§5.2, latest", "a question for the latest has what another machine was told is written",
     _STREAM + "test_a_question_for_the_latest_has_what_another_machine_was_told_is_written"),
    ("§5.3, stream", "TLS with a certificate of our own, and credentials files",
     _SECURITY + "test_tls_with_an_authority_of_our_own_and_a_certificate_of_ours"),
    ("§5.2, migrating", "a memory goes into a stream and back and is the same",
     _MIGRATE + "test_a_memory_goes_from_files_into_a_stream_and_back_and_is_the_same"),
    ("§5.2, sharding", "a tenant moves to another stream, and every machine is told",
     _MIGRATE + "test_a_tenant_moves_to_another_stream_and_every_machine_is_told"),
    ("L51, stream", "a redaction leaves the copies of all machines and the stream",
     _STREAM + "test_a_redaction_leaves_the_copies_of_all_machines_and_the_stream"),
    ("§5.4, restore", "what is restored is the same memory, of every tenant",
     _BACKUPS + "test_what_is_restored_is_the_same_memory_of_every_tenant"),
    ("§5.4, moments", "a past moment can be restored",
     _BACKUPS + "test_a_moment_can_be_restored_and_positions_are_a_tenants_own"),
    ("§5.4, S3", "a store that fails half-way leaves a backup complete or absent",
     _REMOTE + "test_a_store_that_fails_half_way_leaves_a_backup_complete_or_absent"),
    ("§5.4, any store", "every store, in a directory, of S3 or of Azure, refuses a name that is taken",
     "tests/contracts/test_object_store.py::test_of_many_who_put_the_same_name_one_wins"),
    ("§5.4, two machines", "two machines back one memory up and neither overwrites the other",
     _REMOTE + "test_two_machines_back_one_memory_up_at_once_and_neither_overwrites_the_other"),
    ("§5.4, S3 down", "a schedule goes on by itself after an hour without the store",
     _REMOTE + "test_a_schedule_goes_on_by_itself_after_an_hour_without_the_store"),
    ("§5.4, replicas in S3", "a copy that follows S3 and is killed goes on, and takes over with all that was backed up",
     _REMOTE + "test_a_copy_that_follows_the_store_and_is_killed_goes_on_and_takes_over_with_all_that_was_backed_up"),
    ("§10, redaction on servers", "a redaction is complete when no byte of three servers and two machines holds it",
     "tests/log/test_clearing.py::"
     "test_a_redaction_is_complete_when_no_byte_of_three_servers_and_two_machines_holds_it"),
    ("§5.7, retention", "backups are kept by number and by age",
     _BACKUPS + "test_backups_are_kept_by_number_and_what_only_the_old_needed_goes"),
    ("L51, backups", "a redaction reaches the backups",
     _BACKUPS + "test_a_redaction_reaches_the_store_and_older_backups_go"),
    ("§5.3, backups", "encrypted backups tell nothing, and rotated keys read what they wrote",
     _BACKUPS + "test_encrypted_backups_tell_nothing_and_rotated_keys_read_what_they_wrote"),
    ("§5.4, replicas", "a copy follows, serves reads and takes no writes",
     _FOLLOWING + "test_a_copy_follows_reads_and_takes_no_writes"),
    ("§5.4, take over", "a killed memory goes on from its copy, and is stopped when it comes back",
     "tests/journeys/test_take_over.py::"
     "test_a_killed_memory_goes_on_from_its_copy_and_is_stopped_when_it_comes_back"),
    ("§5.1, workers", "every worker serves every session and reads what another has written",
     _WORKERS + "test_every_worker_serves_every_session_and_reads_what_another_has_written"),
    ("§5.4, workers", "a killed worker is begun anew and its clients go on",
     _WORKERS + "test_a_killed_worker_is_begun_anew_and_its_clients_go_on"),
    ("§5.4, drain", "a request on its way is answered when a server is asked to end",
     _DRAIN + "test_a_request_on_its_way_when_the_end_begins_is_answered_and_probes_are_told_to_look_elsewhere"),
    ("§5.3, secrets", "no vocabulary writes a key down, and its caller is told what and where",
     "tests/journeys/test_secret_stories.py::"
     "test_no_vocabulary_writes_a_key_down_and_its_caller_is_told_what_and_where"),
    ("FR-004, paths", "the shortest paths between two entities are found, however far they are apart",
     _PATHS + "test_the_shortest_paths_to_an_entity_are_found_however_far_it_is"),
    ("FR-004, closure", "all that depends on an entity is found",
     _PATHS + "test_all_that_depends_on_an_entity_is_found_and_can_be_paged_and_narrowed"),
    ("§9, upgrades", "the next version beside this one loses nothing, and they do not take the indexes from each other",
     "tests/journeys/test_upgrade_story.py::"
     "test_the_next_version_beside_this_one_loses_nothing_and_neither_takes_the_indexes_from_the_other"),
    ("FR-004, delegation", "a walk past the limit of hops is taken over by a graph engine, and says by which",
     _CYPHER + "test_a_walk_past_the_limit_of_hops_is_delegated"),
    ("FR-004, degraded", "an engine that is away or behind leaves the memory's own answer, which says so",
     _CYPHER + "test_an_engine_that_is_away_or_behind_leaves_the_memorys_own_answer_and_says_so"),
    ("Risk 2", "a walk that is too dear is refused with what it would cost",
     _CYPHER + "test_a_walk_that_is_too_dear_is_refused_with_what_it_would_cost"),
    ("FR-004, own questions", "the engine itself keeps a question from writing",
     _CYPHER + "test_the_engine_itself_keeps_a_question_from_writing"),
)  # fmt: skip
