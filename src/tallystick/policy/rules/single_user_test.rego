package tallystick.single_user_test

import data.tallystick.single_user
import rego.v1

asked(action) := {"actor": "default-agent", "actor_roles": [], "action": action, "context": {"tenant_id": "default"}}

test_the_local_user_may_do_everything if {
	every action in ["READ", "WRITE", "DELETE", "SEARCH"] {
		found := single_user.decision with input as asked(action)
		found == {"result": true, "reason": "single local user", "policy_version": "single-user@1", "narrows": false}
	}
}

test_what_others_made_in_the_same_memory_too if {
	question := object.union(asked("DELETE"), {"resource_owner": "an_agent", "resource_owner_tenant": "default"})
	single_user.decision.result with input as question
}

test_another_tenant_stays_closed if {
	question := object.union(asked("READ"), {"resource_owner_tenant": "acme"})
	found := single_user.decision with input as question
	found.result == false
	found.reason == "cross-tenant access denied"
}
