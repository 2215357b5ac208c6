package tallystick.closed_test

import data.tallystick.closed
import rego.v1

test_nobody_may_do_anything if {
	every action in ["READ", "WRITE", "DELETE", "SEARCH"] {
		found := closed.decision with input as {"actor": "root", "actor_roles": ["admin"], "action": action}
		found.result == false
		found.reason == "no policy is configured"
	}
}
