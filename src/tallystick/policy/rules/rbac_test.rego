package tallystick.rbac_test

import data.tallystick.rbac
import rego.v1

asked(roles, action) := {
	"actor": "bob",
	"actor_roles": roles,
	"action": action,
	"context": {"tenant_id": "acme", "timestamp": "2025-01-04T12:00:00.000Z"},
}

about(roles, action, owner, tenant) := object.union(asked(roles, action), {
	"resource": "entity_789",
	"resource_type": "note",
	"resource_owner": owner,
	"resource_owner_tenant": tenant,
})

test_readers_read_and_search if {
	every action in ["READ", "SEARCH"] {
		rbac.decision.result with input as about(["reader"], action, "alice", "acme")
	}
}

test_readers_neither_write_nor_delete if {
	every action in ["WRITE", "DELETE"] {
		not rbac.decision.result with input as about(["reader"], action, "bob", "acme")
	}
}

test_writers_write_what_others_own if {
	rbac.decision.result with input as about(["writer"], "WRITE", "alice", "acme")
}

test_writers_delete_what_they_own if {
	found := rbac.decision with input as about(["writer"], "DELETE", "bob", "acme")
	found.result == true
	found.reason == "the owner may DELETE"
	found.policy_version == rbac.policy_version
}

test_writers_do_not_delete_what_others_own if {
	found := rbac.decision with input as about(["writer"], "DELETE", "planner_agent", "acme")
	found.result == false
	found.reason == "actor lacks delete permission on non-owned entities"
}

test_writers_do_not_delete_what_nobody_is_known_to_own if {
	found := rbac.decision with input as asked(["writer"], "DELETE")
	found.result == false
	found.reason == "role lacks DELETE permission"
}

test_admins_delete_what_others_own if {
	rbac.decision.result with input as about(["admin"], "DELETE", "alice", "acme")
}

test_nobody_reaches_into_another_tenant if {
	every role in ["reader", "writer", "admin", "auditor"] {
		found := rbac.decision with input as about([role], "READ", "bob", "globex")
		found.result == false
		found.reads_everything == false
		found.reason == "cross-tenant access denied"
	}
}

test_admins_and_auditors_read_everything if {
	every role in ["admin", "auditor"] {
		every action in ["READ", "SEARCH"] {
			found := rbac.decision with input as about([role], action, "alice", "acme")
			found.result == true
			found.reads_everything == true
		}
	}
	every role in ["reader", "writer"] {
		found := rbac.decision with input as about([role], "READ", "alice", "acme")
		found.reads_everything == false
	}
}

test_auditors_neither_write_nor_delete if {
	every action in ["WRITE", "DELETE"] {
		not rbac.decision.result with input as about(["auditor"], action, "bob", "acme")
	}
}

test_a_question_without_a_tenant_is_not_from_the_right_one if {
	question := json.remove(about(["admin"], "READ", "bob", "acme"), ["context/tenant_id"])
	not rbac.decision.result with input as question
}

test_several_roles_add_up if {
	rbac.decision.result with input as asked(["reader", "writer"], "WRITE")
}

test_without_a_known_role_nothing_is_allowed if {
	every roles in [[], ["intern"], ["Admin"], ["permissions"]] {
		every action in ["READ", "WRITE", "DELETE", "SEARCH"] {
			found := rbac.decision with input as asked(roles, action)
			found.result == false
			found.reason == sprintf("role lacks %s permission", [action])
		}
	}
}

test_an_unknown_action_is_denied if {
	not rbac.decision.result with input as asked(["admin"], "GRANT")
}

test_owning_something_is_no_role if {
	not rbac.decision.result with input as about([], "DELETE", "bob", "acme")
}

test_every_decision_names_its_version if {
	every roles in [[], ["admin"]] {
		found := rbac.decision with input as asked(roles, "READ")
		found.policy_version == "rbac@2"
	}
}
